"""From a request to its answer on a node of a cluster: find the node that answers, and let it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec
from msgspec import to_builtins

from goqueue.access.tenants.namespace import namespace_of
from goqueue.model.errors import InvariantError, PeerUnavailableError
from goqueue.protocols.http.api.app import HttpApp
from goqueue.protocols.http.api.carried import POLL_S
from goqueue.protocols.http.api.codecs import duration_ms
from goqueue.protocols.http.api.forwarded import forward
from goqueue.protocols.http.api.parts import Parts
from goqueue.protocols.http.api.places import LOCAL, Selector
from goqueue.protocols.http.limits import MAX_POLL_MS
from goqueue.protocols.http.namespaces import query_outside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.broker.broker import Broker
    from goqueue.protocols.http.api.endpoint import Endpoint
    from goqueue.protocols.http.api.gate import Gate
    from goqueue.protocols.http.api.parts import Absent
    from goqueue.protocols.http.api.places import Arguments
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.responses import Response, Stream
    from goqueue.protocols.http.api.router import Router
    from goqueue.topics.forwarding import Forwards

ANSWER_S: Final = 30.0
"""How long another node has for its answer, as long as a client of the HTTP listener waits."""
_REFUSED: Final = 400
"""Statuses from here on refuse."""
_POLL_MARGIN_S: Final = 10.0
"""What a poll may take beyond what its client lets it wait."""


class ClusterApp(HttpApp):
    """Answers requests of clients, and those that other nodes have forwarded."""

    def __init__(
        self,
        load: Callable[[], Router],
        rewrite: Callable[[bytes], bytes],
        broker: Broker,
        forwards: Forwards,
        gate: Gate | None = None,
    ) -> None:
        super().__init__(load, rewrite, gate)
        self._broker = broker
        self._forwards = forwards

    async def _called(
        self, request: Request, endpoint: Endpoint, arguments: dict[str, Any]
    ) -> Response | Stream:
        """Let the node answer that the place of the endpoint says."""
        place = endpoint.route.place or LOCAL
        if place is LOCAL:
            return await super()._called(request, endpoint, arguments)
        call = _Call(self._broker, self._forwards, request, endpoint, arguments)
        return await place.answer(call)


class _Call:
    """See `goqueue.protocols.http.api.places.PlacedCall`."""

    def __init__(
        self,
        broker: Broker,
        forwards: Forwards,
        request: Request,
        endpoint: Endpoint,
        arguments: Arguments,
    ) -> None:
        self.broker = broker
        self.arguments = arguments
        self.sender = request.sender
        self.is_part = request.is_part
        self._forwards = forwards
        self._request = request
        self._endpoint = endpoint

    async def here(self) -> Response | Stream:
        answer = await self._endpoint.handler(**self.arguments)
        return self._endpoint.response(self._request, answer)

    async def there(self, node_id: int, stays: Callable[[], bool]) -> Response:
        return await forward(
            self._forwards, self._request, node_id, deadline_s=self._deadline_s, stays=stays
        )

    @property
    def _deadline_s(self) -> float:
        route = self._endpoint.route
        if route.waits is None:
            return POLL_S if route.polls else ANSWER_S
        waits = Selector(route.waits)(self.arguments)
        location, _, field = route.waits.partition(".")
        waits_ms = duration_ms(waits, field, at_most_ms=MAX_POLL_MS, location=location)
        return waits_ms / 1000 + _POLL_MARGIN_S

    async def parts(self, absent: Absent, query: Any = None) -> Parts:
        parts = Parts(self.broker.routes.node_id)
        others = asyncio.ensure_future(
            parts.others(
                self._forwards, self.broker.facts, self._asking(query), self._decode, absent
            )
        )
        try:
            refusal = await parts.own(self._handled(query), absent)
            await others
        finally:
            others.cancel()
        if not parts.found:
            if parts.silent:
                who = ", ".join(f"node {each.node_id} ({each.error})" for each in parts.silent)
                raise PeerUnavailableError(
                    f"no node that answers has it, and {who} did not answer: try again"
                ) from refusal
            raise refusal or InvariantError()
        return parts

    async def part(self, node_id: int, query: Any) -> Any:
        routes = self.broker.routes
        if node_id == routes.node_id:
            return await self._handled(query)
        response = await forward(
            self._forwards,
            self._asking(query),
            node_id,
            deadline_s=ANSWER_S,
            stays=lambda: node_id in routes.others(),
            is_part=True,
        )
        if response.status >= _REFUSED:
            raise PeerUnavailableError(f"node {node_id} answers {response.status}: try again")
        return self._decode(response.body)

    def response(self, answer: Any, parts: Parts) -> Response | Stream:
        if parts.unanswered:
            answer.unanswered = parts.unanswered
        return self._endpoint.response(self._request, answer)

    def _handled(self, query: Any) -> Awaitable[Any]:
        arguments = self.arguments if query is None else {**self.arguments, "query": query}
        return self._endpoint.handler(**arguments)

    def _asking(self, query: Any) -> Request:
        if query is None:
            return self._request
        tenant = None if self._request.may is None else self._request.may.principal.tenant
        if tenant is not None:  # the other node translates it again
            query = query_outside(query, namespace_of(tenant))
        said = {name: each for name, each in to_builtins(query).items() if each is not None}
        target = self._request.raw_path + b"?" + urlencode(said).encode()
        return msgspec.structs.replace(self._request, target=target)

    def _decode(self, body: bytes) -> Any:
        return msgspec.json.decode(body, type=self._endpoint.types.answer)

"""Calls that another node of the cluster has to answer, as this node passes them on.

Requests and answers pass as they are. The trailing metadata names where the call would have been
answered without the detour.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from grpc import StatusCode, aio

from goqueue.cluster.facts import GRPC_LISTENER
from goqueue.model.errors import GoQueueError, PeerUnavailableError
from goqueue.protocols.grpc.consuming import whole_writes
from goqueue.protocols.grpc.interceptor import (
    ErrorInterceptor,
    Handler,
    Kind,
    OpenStreams,
    behaviour,
)
from goqueue.protocols.grpc.places import LOCAL, PLACES, Gather, Place
from goqueue.protocols.grpc.rights import caller
from goqueue.protocols.lookups import Lookup, wrong_again
from goqueue.quotas.tenant_places import TenantPlaces
from goqueue.wire.grpc.contract import COORDINATOR_KEY, UNANSWERED_KEY
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    import grpc

    from goqueue.broker.broker import Broker
    from goqueue.cluster.peers import PeerConnection
    from goqueue.protocols.grpc.gate import Gate
    from goqueue.runtime.tasks import Turns
    from goqueue.topics.forwarding import Forwards
    from goqueue.wire.kafka.reading import Struct

    Context = aio.ServicerContext[Any, Any]

_ANSWER_S: Final = 30.0
"""How long another node has for an answer, where the client does not say."""
_GATHER_S: Final = 3.0
"""How long the parts of other nodes are waited for."""
_TURN_S: Final = 10.0
"""After so long a turn of a stream comes back empty."""
_LOOK_S: Final = 1.0
"""How often a stream looks whether the other node still coordinates its group."""
_MAX_TURNS: Final = 2
"""Of one stream under way; then no more is read from its client."""
_STATUSES: Final[Mapping[int, StatusCode]] = {each.value[0]: each for each in StatusCode}


class ForwardingInterceptor(ErrorInterceptor):
    """Around every handler of a node of a cluster: the right node answers."""

    def __init__(
        self, streams: OpenStreams, turns: Turns, gate: Gate, broker: Broker, forwards: Forwards
    ) -> None:
        super().__init__(streams, turns, gate)
        self._broker = broker
        self._forwards = forwards
        self._tenant_streams = TenantPlaces(
            forwards.max_streams, "streams that pass to other nodes"
        )

    def wrapped(
        self, method: str, handler: grpc.RpcMethodHandler[Any, Any]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler that passes on what another node has to answer."""
        place = PLACES.get(method, LOCAL)
        if place is LOCAL:
            return super().wrapped(method, handler)
        kind, inner = behaviour(handler)
        if isinstance(place, Gather):
            placed = self._gathering(method, place, handler)
        elif kind is Kind.STREAM_STREAM:
            placed = self._passing(method, place, inner)
        else:
            placed = self._forwarding(method, place, inner)
        return super().wrapped(method, _with(handler, placed))

    def carried(
        self, method: str, handler: grpc.RpcMethodHandler[Any, Any]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler for calls that another node has forwarded: they go no further."""
        return super().wrapped(method, _with(handler, self._final(method, behaviour(handler))))

    async def _lookup(self, place: Place, request: Any) -> tuple[Lookup, int] | None:
        """The other node that has to answer; None when this one has."""
        lookup = await place.locate(self._broker, request)
        if lookup is None or (node_id := lookup()) == self._broker.routes.node_id:
            return None
        return lookup, node_id

    def _final(self, method: str, behaves: tuple[Kind, Handler]) -> Handler:
        (kind, inner), place = behaves, PLACES.get(method, LOCAL)

        async def handle(request: Any, context: Any) -> Any:
            first = request
            if kind is Kind.STREAM_STREAM:
                first = await anext(aiter(request), None)
                request = _chained(first, request)
            found = None if first is None else await self._lookup(place, first)
            if found is not None:
                raise wrong_again(context.sender, self._broker.routes.node_id, found[1])
            return await inner(request, context)

        return handle

    # --- One answer ------------------------------------------------------------------------------

    def _forwarding(self, method: str, place: Place, inner: Handler) -> Handler:
        async def handle(request: Any, context: Context) -> Any:
            found = await self._lookup(place, request)
            if found is None:
                return await inner(request, context)
            lookup, node_id = found
            answer = await self._ask(
                method, node_id, request, context, stays=lambda: lookup() == node_id
            )
            await self._finish(answer, node_id, context)
            return bytes(answer.messages[0].data)

        return handle

    async def _ask(
        self,
        method: str,
        node_id: int,
        request: Any,
        context: Context,
        *,
        stays: Callable[[], bool],
        at_most_s: float = _ANSWER_S,
    ) -> Struct:
        data: bytes = request.SerializeToString()
        left_s = cast("float | None", context.time_remaining())  # none without a deadline
        deadline_s = at_most_s if left_s is None else min(left_s, at_most_s)
        try:
            return await self._forwards.ask(
                node_id,
                ApiKey.CALL_GRPC,
                size_bytes=len(data),
                deadline_s=deadline_s,
                stays=stays,
                method=method,
                client=context.peer(),
                principal=encoded_caller(),
                is_last=True,
                messages=[{"data": data}],
            )
        except TimeoutError:
            raise PeerUnavailableError(
                f"no answer of node {node_id} within {deadline_s:.3g} s: whether it was done is "
                "not known"
            ) from None

    async def _finish(self, answer: Struct, node_id: int, context: Context) -> None:
        """Give the client the end that the other node has made of its call."""
        trailers: list[tuple[str, str | bytes]] = [
            (each.name, bytes(each.value) if each.name.endswith("-bin") else each.value.decode())
            for each in answer.trailers
        ]
        node = self._broker.facts.node(node_id)
        address = None if node is None else node.listeners.get(GRPC_LISTENER)
        if address is not None:
            trailers.append((COORDINATOR_KEY, f"{address.host}:{address.port}"))
        status = _STATUSES.get(answer.status, StatusCode.UNKNOWN)
        if status is StatusCode.UNIMPLEMENTED:
            self._forwards.check_version(node_id, answer.details)
        if status is not StatusCode.OK:
            context.set_code(status)  # for who looks at the call after it was ended
            context.set_details(answer.details)
            await context.abort(status, answer.details, tuple(trailers))
        context.set_trailing_metadata(tuple(trailers))

    # --- The answers of all ----------------------------------------------------------------------

    def _gathering(
        self, method: str, place: Gather, handler: grpc.RpcMethodHandler[Any, Any]
    ) -> Handler:
        _, inner = behaviour(handler)

        async def handle(request: Any, context: Context) -> Any:
            routes = self._broker.routes
            own = await inner(request, context)
            nodes = routes.others()
            asked = [self._part(method, each, request, context, type(own)) for each in nodes]
            parts = dict(zip(nodes, await asyncio.gather(*asked), strict=True))
            members = {each.node_id for each in self._broker.facts.members()} - {routes.node_id}
            missing = [each for each in sorted(members) if parts.get(each) is None]
            if missing:
                named = ",".join(map(str, missing))
                context.set_trailing_metadata(((UNANSWERED_KEY, named),))
            return place.merge([own, *(each for each in parts.values() if each is not None)])

        return handle

    async def _part(
        self, method: str, node_id: int, request: Any, context: Context, kind: Any
    ) -> Any:
        """What one node answers; None when it does not."""
        others = self._broker.routes.others
        try:
            answer = await self._ask(
                method,
                node_id,
                request,
                context,
                stays=lambda: node_id in others(),
                at_most_s=_GATHER_S,
            )
        except GoQueueError:
            return None
        return None if answer.status else kind.FromString(bytes(answer.messages[0].data))

    # --- Streams ---------------------------------------------------------------------------------

    def _passing(self, method: str, place: Place, inner: Handler) -> Handler:
        async def handle(requests: Any, context: Context) -> Any:
            first = await anext(aiter(requests), None)
            found = None if first is None else await self._lookup(place, first)
            requests = _chained(first, requests)
            if found is None:
                return await inner(requests, context)
            self._streams.add_current()
            lookup, node_id = found
            passing = Passing(self._forwards, method, node_id, context)
            with self._tenant_streams.place(caller().principal.tenant):
                answer = await passing.run(requests, lambda: lookup() == node_id)
            await self._finish(answer, node_id, context)
            return None

        return handle


def _with(
    handler: grpc.RpcMethodHandler[Any, Any], inner: Handler
) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler that does something else; answers may be bytes already."""
    serialise = handler.response_serializer
    assert serialise is not None
    return behaviour(handler)[0].make(
        inner,
        request_deserializer=handler.request_deserializer,
        response_serializer=lambda each: each if type(each) is bytes else serialise(each),
    )


async def _chained(first: Any, rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    if first is not None:
        yield first
    async for each in rest:
        yield each


def encoded_caller() -> str:
    """Who the client is, for the node that answers it."""
    return msgspec.json.encode(caller().principal).decode()


class Passing:
    """One stream between a client and another node, on a connection of its own."""

    def __init__(self, forwards: Forwards, method: str, node_id: int, context: Context) -> None:
        self._forwards = forwards
        self._method = method
        self._node_id = node_id
        self._client = context.peer()
        self._principal = encoded_caller()
        self._write = whole_writes(context)
        self._under_way: deque[asyncio.Task[Struct]] = deque()

    async def run(self, requests: AsyncIterator[Any], stays: Callable[[], bool]) -> Struct:
        """Pass everything on in both directions; returns how the other node has ended it.

        Raises:
            PeerUnavailableError: the node is away, or coordinates the group no more.
        """
        async with self._forwards.connection(self._node_id) as connection:
            return await self._pass(connection, requests, stays)

    async def _pass(
        self,
        connection: PeerConnection,
        requests: AsyncIterator[Any],
        stays: Callable[[], bool],
    ) -> Struct:
        reading: asyncio.Task[Any] | None = asyncio.ensure_future(anext(requests, None))
        try:
            while True:
                watched = [self._under_way[0]] if self._under_way else []
                if reading is not None and len(self._under_way) < _MAX_TURNS:
                    watched.append(reading)
                await self._forwards.waited_for(watched, self._node_id, stays, _LOOK_S)
                if reading is not None and reading.done():
                    request = reading.result()
                    self._send(connection, request)
                    reading = None
                    if request is not None:
                        reading = asyncio.ensure_future(anext(requests, None))
                if self._under_way and self._under_way[0].done():
                    answer = await self._under_way.popleft()
                    for each in answer.messages:
                        await self._write(bytes(each.data))
                    if answer.is_ended:
                        return answer
                    if not self._under_way:
                        self._turn(connection)
        finally:
            for task in (*self._under_way, *(() if reading is None else (reading,))):
                task.cancel()

    def _send(self, connection: PeerConnection, request: Any) -> None:
        """The next turn, with what the client has sent; None: it will send no more."""
        if request is None:
            self._turn(connection, is_last=True)
        else:
            self._turn(connection, request.SerializeToString())

    def _turn(
        self, connection: PeerConnection, message: bytes | None = None, *, is_last: bool = False
    ) -> None:
        asking = self._forwards.on(
            connection,
            self._node_id,
            ApiKey.CALL_GRPC,
            size_bytes=len(message or b""),
            wait_s=_TURN_S,
            method=self._method,
            client=self._client,
            principal=self._principal,
            is_last=is_last,
            messages=[] if message is None else [{"data": message}],
        )
        self._under_way.append(asyncio.ensure_future(asking))

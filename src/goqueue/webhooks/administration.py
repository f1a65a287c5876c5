"""What administrators do with endpoints: create, change, delete, test."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec.structs import replace

from goqueue.model.errors import TooManyWebhooksError, UnknownWebhookError
from goqueue.model.limits import MAX_WEBHOOKS
from goqueue.model.tuples import NamedTuple
from goqueue.reading.positions import LATEST
from goqueue.webhooks.endpoints import Endpoint, check_endpoint, new_id, new_secret
from goqueue.webhooks.events import EventType
from goqueue.webhooks.history import Outcome, past_attempt
from goqueue.webhooks.outbox import EVENTS
from goqueue.webhooks.urls import parse_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.access.stored import StoredRecords
    from goqueue.reading.positions import Positions
    from goqueue.runtime.clock import Clock
    from goqueue.webhooks.addresses import AddressPolicy
    from goqueue.webhooks.events import EventMaker
    from goqueue.webhooks.history import History, PastAttempt
    from goqueue.webhooks.sending import Resolve, Sender

_RESOLVE_S: Final = 5.0
"""What a name has to resolve when an endpoint is created; one that does not is checked later."""


class AdministrationServices(Protocol):
    """What administrating endpoints needs."""

    positions: Positions
    clock: Clock

    async def create_internal_topic(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""


class NewEndpoint(NamedTuple):
    """An endpoint that was just made: the only time that its secret is shown."""

    id: str
    endpoint: Endpoint


class EndpointAdministration:
    """Every way to change endpoints."""

    def __init__(
        self,
        services: AdministrationServices,
        endpoints: StoredRecords[Endpoint],
        policy: AddressPolicy,
        lookup: Resolve,
    ) -> None:
        self._services = services
        self._endpoints = endpoints
        self._policy = policy
        self._resolve = lookup

    def get(self, endpoint_id: str) -> Endpoint:
        """An endpoint. Raises `UnknownWebhookError`."""
        found = self._endpoints.all.get(endpoint_id)
        if found is None:
            raise UnknownWebhookError(
                f"there is no webhook {endpoint_id[:80]!r}: list them for their ids"
            )
        return found

    async def create(self, url: str, secret: str | None, chosen: Mapping[str, Any]) -> NewEndpoint:
        """Make an endpoint; it is sent what happens from now on. Without a secret, it is given one.

        Raises:
            WebhookError: it cannot be so.
            TooManyWebhooksError: there are as many as there may be.
        """
        endpoint = Endpoint(url, secret or new_secret(), self._services.clock.now_ms(), 0, **chosen)
        await self._check(endpoint)
        if len(self._endpoints.all) >= MAX_WEBHOOKS:
            raise TooManyWebhooksError(
                f"there are {MAX_WEBHOOKS} webhooks, which is the limit: delete one first"
            )
        await self._services.create_internal_topic(EVENTS.topic, 1)
        start = await self._services.positions.offset_of(EVENTS, LATEST)
        endpoint = replace(endpoint, start_offset=start)
        endpoint_id = new_id()
        await self._endpoints.change({endpoint_id: endpoint})
        return NewEndpoint(endpoint_id, endpoint)

    async def update(
        self, endpoint_id: str, changes: Mapping[str, Any], *, makes_secret: bool = False
    ) -> Endpoint:
        """Change some fields, or have another secret made; events that wait follow at once.

        Raises:
            UnknownWebhookError: there is none of that id.
            WebhookError: it cannot be so.
        """
        changed = replace(self.get(endpoint_id), **changes)
        if makes_secret:
            changed = replace(changed, secret=new_secret())
        await self._check(changed)
        await self._endpoints.change({endpoint_id: changed})
        return changed

    async def delete(self, endpoint_id: str) -> Endpoint:
        """Delete an endpoint, with the events that wait for it. Raises `UnknownWebhookError`."""
        found = self.get(endpoint_id)
        await self._endpoints.change({endpoint_id: None})
        return found

    async def _check(self, endpoint: Endpoint) -> None:
        """Refuse what could never be delivered; each delivery looks once more."""
        check_endpoint(endpoint)
        host, port, _ = parse_target(endpoint.url).endpoint
        try:
            async with asyncio.timeout(_RESOLVE_S):
                addresses = await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError):
            return  # the name may be made later
        self._policy.check(addresses)


class EndpointTest:
    """The test button: one event, sent at once and once."""

    def __init__(self, sender: Sender, maker: EventMaker, history: History, clock: Clock) -> None:
        self._sender = sender
        self._maker = maker
        self._history = history
        self._clock = clock

    async def run(self, endpoint_id: str, endpoint: Endpoint) -> PastAttempt:
        """Send a test event, whatever the filters say, past the events that wait."""
        event = self._maker.make(EventType.WEBHOOK_TEST, {"webhook": endpoint_id})
        ended = await self._sender.send(endpoint, event, 1)
        past = past_attempt(event, 1, self._clock.now_ms(), ended, Outcome.FAILED)
        self._history.note(endpoint_id, past)
        return past

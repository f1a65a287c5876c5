"""Delivering the events of one endpoint, in order: the queue group decides, this sends.

Every node runs one of these for each endpoint. The one that coordinates the endpoint's queue group
delivers; the others look now and then whether they do. The group keeps which events are delivered,
how often each was attempted and when the next attempt is due, so whoever takes over goes on there.
An attempt that was cut off by a crash is over when its visibility timeout is: then the event is
sent once more, with the same id.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from goqueue.model.dead_letters import REDRIVEN_GROUP_HEADER
from goqueue.model.errors import GoQueueError
from goqueue.model.limits import MAX_REASON_CHARS
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.settings import Mode
from goqueue.queues.members import QueueMember
from goqueue.reading.positions import LATEST
from goqueue.webhooks.endpoints import group_of
from goqueue.webhooks.events import decode
from goqueue.webhooks.history import Outcome, past_attempt
from goqueue.webhooks.outbox import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.queues.acknowledging import Acknowledger
    from goqueue.queues.acquired_batch import Delivery
    from goqueue.queues.delivering import Deliverer
    from goqueue.queues.service import Queues
    from goqueue.reading.positions import Positions
    from goqueue.records import Headers
    from goqueue.runtime.clock import Clock
    from goqueue.webhooks.endpoints import Endpoint
    from goqueue.webhooks.history import History
    from goqueue.webhooks.sending import Sender

logger = logging.getLogger(__name__)

_WAIT_MS: Final = 2_000
"""For the next event, before it is looked whether the endpoint has changed."""
_RETRY_S: Final = 0.5
"""Between looks of a node that does not coordinate the group."""


class DeliveringServices(Protocol):
    """What delivering needs."""

    queues: Queues
    deliverer: Deliverer
    acknowledger: Acknowledger
    positions: Positions
    clock: Clock


class EndpointDelivery:
    """The deliveries of one endpoint, on one node."""

    def __init__(
        self,
        services: DeliveringServices,
        endpoint_id: str,
        find: Callable[[str], Endpoint | None],
        sender: Sender,
        history: History,
    ) -> None:
        """`find` tells what the endpoint is by now."""
        self._services = services
        self._id = endpoint_id
        self._group_id = group_of(endpoint_id)
        self._find = find
        self._sender = sender
        self._history = history
        self._member = QueueMember(self._group_id, f"webhook-{uuid4().hex}", Mode.EXCLUSIVE)
        """Another one after each start: what the last one had in flight is not this one's."""

    async def run(self) -> None:
        """Deliver until cancelled, or until the endpoint is deleted."""
        while (endpoint := self._find(self._id)) is not None:
            try:
                await self._open(endpoint)
                found = await self._services.deliverer.poll(
                    self._member, limit=1, max_wait_ms=_WAIT_MS, partitions=[EVENTS]
                )
                for each in found:
                    await self._deliver(each)
            except GoQueueError as error:
                logger.debug("webhook %s is not delivered by this node now: %s", self._id, error)
                await asyncio.sleep(_RETRY_S)

    async def _open(self, endpoint: Endpoint) -> None:
        """Make the group, or let it follow the endpoint. Raises where another node keeps it."""
        queues = self._services.queues
        settings = endpoint.group_settings()
        group = queues.find(self._group_id)
        if group is None:
            group = await queues.open(self._group_id, settings)
        if group.settings != settings:
            group = await queues.follow(self._group_id, settings)
        if queues.key(EVENTS) not in group.queues:
            end = await self._services.positions.offset_of(EVENTS, LATEST)
            await queues.reset(self._group_id, {EVENTS: min(endpoint.start_offset, end)})

    async def _deliver(self, delivery: Delivery) -> None:
        event = decode(delivery.record.value)
        endpoint = self._find(self._id)
        if endpoint is None:
            return  # deleted meanwhile, and its group with it
        is_mine = _redriven_for(delivery.record.headers) in (None, self._group_id)
        if event is None or not is_mine or not endpoint.takes(event):
            await self._settle(delivery, Acknowledgement(Verdict.ACK))
            return
        number = delivery.delivery_count
        try:
            ended = await self._sender.send(endpoint, event, number)
        except asyncio.CancelledError:
            with suppress(GoQueueError):  # then it is attempted after its visibility timeout
                await asyncio.shield(self._settle(delivery, Acknowledgement(Verdict.RETURN)))
            raise
        failed_as = Outcome.DEAD if number > endpoint.max_retries else Outcome.RETRYING
        now_ms = self._services.clock.now_ms()
        self._history.note(self._id, past_attempt(event, number, now_ms, ended, failed_as))
        if ended.is_delivered:
            await self._settle(delivery, Acknowledgement(Verdict.ACK))
            return
        logger.info("webhook %s: attempt %d of %s: %s", self._id, number, event.id, ended.error)
        reason = ended.error[:MAX_REASON_CHARS]
        await self._settle(delivery, Acknowledgement(Verdict.NACK, reason))

    async def _settle(self, delivery: Delivery, said: Acknowledgement) -> None:
        """Store what became of an event; if that fails, it is attempted once more.

        Raises:
            GoQueueError: this node keeps the group no more, or cannot store anything now.
        """
        outcomes = await self._services.acknowledger.settle_here(
            [delivery.receipt], said, group_id=self._group_id
        )
        for error in outcomes:
            if error is not None:
                logger.debug("webhook %s: %s", self._id, error)


def _redriven_for(headers: Headers) -> str | None:
    """The group that an event was redriven for; None: it is for all."""
    for name, value in reversed(headers):
        if name == REDRIVEN_GROUP_HEADER:
            return (value or b"").decode(errors="replace")
    return None

"""Events that were given up: read from the dead-letter queue, and redelivered from there."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.errors import WebhookError
from goqueue.model.internal_topics import WEBHOOKS
from goqueue.model.tuples import NamedTuple
from goqueue.queues.dead_letters.letters import LetterFilter
from goqueue.queues.dead_letters.redrive_engine import RedriveRequest, RedriveState
from goqueue.webhooks.endpoints import group_of
from goqueue.webhooks.events import decode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from goqueue.queues.dead_letters.letters import Letter, Letters
    from goqueue.queues.dead_letters.redrive import Redrives
    from goqueue.topics.catalogue import Topics
    from goqueue.webhooks.events import Event

_WAIT_S: Final = 60.0
"""For events to be published again; it goes on behind that."""


class DeadEventServices(Protocol):
    """What dead events need."""

    topics: Topics
    letters: Letters
    redrives: Redrives


class DeadEvent(NamedTuple):
    """An event that was given up."""

    event: Event
    died_ms: int
    attempts: int
    error: str


class DeadEvents:
    """The dead events of every endpoint."""

    def __init__(self, services: DeadEventServices) -> None:
        self._services = services

    async def of(self, endpoint_id: str, limit: int) -> list[DeadEvent]:
        """The newest dead events of an endpoint that were not redelivered, the newest first."""
        kept: deque[DeadEvent] = deque(maxlen=limit)
        async for letter, event in self._read(endpoint_id):
            attempts = letter.number("attempts") or 0
            kept.append(DeadEvent(event, letter.died_ms, attempts, letter.cause.get("error", "")))
        return list(reversed(kept))

    async def redeliver(self, endpoint_id: str, event_ids: Collection[str] | None) -> int:
        """Let dead events be delivered again, all or these; returns how many those are.

        They are behind the events that wait already, in the order in which they died.

        Raises:
            WebhookError: an event is not among the dead ones; nothing is redelivered then.
            GoQueueError: they cannot be published now.
        """
        if WEBHOOKS not in self._services.topics.catalogue.by_name:
            return 0
        chosen = LetterFilter(group=group_of(endpoint_id))
        if event_ids is not None:
            offsets = await self._offsets(endpoint_id, set(event_ids))
            chosen = LetterFilter(group=chosen.group, offsets=offsets)
        redrive = self._services.redrives.begin(
            RedriveRequest(WEBHOOKS, chosen=chosen, for_group=True)
        )
        if redrive.task is not None:
            await asyncio.wait((redrive.task,), timeout=_WAIT_S)
        if redrive.state is RedriveState.FAILED:
            raise WebhookError(f"{redrive.done} events were redelivered, then: {redrive.error}")
        return redrive.done

    async def _offsets(self, endpoint_id: str, wanted: set[str]) -> dict[int, frozenset[int]]:
        found: dict[int, set[int]] = {}
        missing = set(wanted)
        async for letter, event in self._read(endpoint_id):
            if event.id in wanted:
                found.setdefault(letter.partition, set()).add(letter.record.offset)
                missing.discard(event.id)
        if missing:
            raise WebhookError(
                f"no dead event of this webhook has the id {min(missing)[:80]!r}: list them first"
            )
        return {partition: frozenset(offsets) for partition, offsets in found.items()}

    async def _read(self, endpoint_id: str) -> AsyncIterator[tuple[Letter, Event]]:
        if WEBHOOKS not in self._services.topics.catalogue.by_name:
            return
        chosen = LetterFilter(group=group_of(endpoint_id))
        async for letters in self._services.letters.read(WEBHOOKS, chosen):
            for letter in letters:
                event = decode(letter.record.value)
                if event is not None:
                    yield letter, event

"""What is to happen to messages of a queue: these look and decide, `PartitionQueue.apply` does."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from goqueue.model.dead_letters import Reason
from goqueue.model.tuples import NamedTuple
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.pages import MessageState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.model.ranges import Range
    from goqueue.queues.delivery.operations import Operation
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.delivery.settings import QueueSettings

TIMED_OUT: Final = "the visibility timeout ran out"


class Verdict(StrEnum):
    """What a member says of a message."""

    ACK = "ack"
    """It is processed."""
    NACK = "nack"
    """It failed for now, and may be tried again later."""
    RELEASE = "release"
    """It was not processed, and may be tried again at once."""
    REJECT = "reject"
    """It will never succeed."""
    EXTEND = "extend"
    """It takes longer."""
    RETURN = "return"
    """Nobody has looked at it: the delivery does not count."""


class Acknowledgement(NamedTuple):
    """A verdict, and what goes with it."""

    verdict: Verdict
    reason: str = ""
    delay_ms: int | None = None
    """Of a `NACK`: before the next delivery, in place of the group's back-off. Of an `EXTEND`: how
    much longer from now on."""


def decide(
    said: Acknowledgement,
    ranges: list[Range],
    queue: PartitionQueue,
    settings: QueueSettings,
    now_ms: int,
) -> list[Operation]:
    """What an acknowledgement makes of messages that members have."""
    verdict = said.verdict
    if verdict is Verdict.ACK:
        return [ops.Settled(ranges)]
    if verdict is Verdict.RETURN:
        return [ops.Untaken(ranges)]
    if verdict is Verdict.RELEASE:
        return release(queue, ranges, settings, now_ms, said.reason)
    if verdict is Verdict.EXTEND:
        longer_ms = settings.visibility_ms if said.delay_ms is None else said.delay_ms
        return extend(queue, ranges, now_ms + longer_ms)
    offsets = [offset for first, end in ranges for offset in range(first, end)]
    if verdict is Verdict.NACK:
        return postpone(queue, offsets, settings, now_ms, delay_ms=said.delay_ms, error=said.reason)
    return doom(offsets, Reason.REJECTED, settings, now_ms, said.reason)


def postpone(
    queue: PartitionQueue,
    offsets: Iterable[int],
    settings: QueueSettings,
    now_ms: int,
    *,
    delay_ms: int | None = None,
    error: str = "",
) -> list[Operation]:
    """Messages were returned: they wait for their next delivery, or have had their last.

    Without a delay they wait the longer the more often they were delivered.
    """
    waiting: list[tuple[int, int]] = []
    exhausted: list[int] = []
    crowded: list[int] = []
    room = settings.max_waiting - queue.waiting
    for offset in offsets:
        count = queue.window.count(offset)
        if count >= settings.max_deliveries:
            exhausted.append(offset)
        elif len(waiting) >= room:
            crowded.append(offset)
        else:
            wait_ms = settings.backoff(count) if delay_ms is None else delay_ms
            waiting.append((offset, now_ms + wait_ms))
    found: list[Operation] = [ops.Postponed(waiting, error)] if waiting else []
    found += doom(exhausted, Reason.MAX_RETRIES_EXCEEDED, settings, now_ms, error)
    found += doom(crowded, Reason.BACKPRESSURE, settings, now_ms, error)
    return found


def release(
    queue: PartitionQueue,
    ranges: Iterable[Range],
    settings: QueueSettings,
    now_ms: int,
    error: str = "",
) -> list[Operation]:
    """What is in flight of these goes back at once, unless it has had its last delivery."""
    window = queue.window
    back: list[Range] = []
    exhausted: list[int] = []
    for range_ in ranges:
        for first, end in window.in_state(*range_, MessageState.IN_FLIGHT):
            counts = window.counts(first, end)
            if max(counts) < settings.max_deliveries:
                back.append((first, end))
                continue
            for offset, count in enumerate(counts, first):
                if count < settings.max_deliveries:
                    back.append((offset, offset + 1))
                else:
                    exhausted.append(offset)
    found: list[Operation] = [ops.Released(ops.joined(back))] if back else []
    return found + doom(exhausted, Reason.MAX_RETRIES_EXCEEDED, settings, now_ms, error)


def doom(
    offsets: Iterable[int], reason: Reason, settings: QueueSettings, now_ms: int, error: str = ""
) -> list[Operation]:
    """Messages are dead; where the group wants no dead letters, that is the end of them."""
    ranges = ops.ranges_of(offsets)
    if not ranges:
        return []
    if not settings.dead_letters:
        return [ops.Settled(ranges)]
    return [ops.Doomed(ranges, reason, now_ms, error)]


def extend(queue: PartitionQueue, ranges: Iterable[Range], deadline_ms: int) -> list[Operation]:
    """Let their members have messages until another deadline; one operation a lease."""
    by_lease: dict[int, list[Range]] = {}
    for range_ in ranges:
        for first, end, number in queue.window.flights(*range_):
            by_lease.setdefault(number, []).append((first, end))
    return [
        ops.Extended(number, deadline_ms, ops.joined(mine))
        for number, mine in zip(queue.lease_numbers(len(by_lease)), by_lease.values(), strict=True)
    ]

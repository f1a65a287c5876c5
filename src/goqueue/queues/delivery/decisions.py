"""What is to happen to messages of a queue: these look and decide, `PartitionQueue.apply` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.dead_letters import Reason
from goqueue.model.errors import ExpiredReceiptError, UnknownReceiptError
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.pages import MessageState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.model.errors import ReceiptError
    from goqueue.model.ranges import Range
    from goqueue.queues.delivery.operations import Operation
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.delivery.receipts import Receipt
    from goqueue.queues.delivery.settings import QueueSettings

TIMED_OUT = "the visibility timeout ran out"
_DONE: Final = (MessageState.SETTLED, MessageState.DOOMED)
_EXPIRED: Final = (
    "the receipt {} has expired: its visibility timeout ran out or its member left the group, and "
    "the message is redelivered or dead-lettered"
)


def is_open(queue: PartitionQueue, receipt: Receipt, now_ms: int) -> bool:
    """Whether a receipt counts."""
    delivery = queue.window.delivery(receipt.offset)
    return (
        delivery is not None
        and delivery.nonce == receipt.nonce
        and delivery.number == receipt.delivery_count
        and queue.window.leases[delivery.lease].deadline_ms > now_ms
    )


def refusal(queue: PartitionQueue, receipt: Receipt, now_ms: int) -> ReceiptError | None:
    """Why a receipt does not count; None when it does."""
    window = queue.window
    delivery = window.delivery(receipt.offset)
    if delivery is not None and delivery.number == receipt.delivery_count:
        if delivery.nonce != receipt.nonce:
            return UnknownReceiptError(f"no delivery has the receipt {receipt}")
        if window.leases[delivery.lease].deadline_ms > now_ms:
            return None
        return ExpiredReceiptError(_EXPIRED.format(receipt))
    if receipt.nonce in queue.expired:
        return ExpiredReceiptError(_EXPIRED.format(receipt))
    unknown = UnknownReceiptError(
        f"no open delivery has the receipt {receipt}: it was used already, or never given"
    )
    if window.state(receipt.offset) in _DONE:
        unknown.is_done = 1
    return unknown


def postpone(
    queue: PartitionQueue,
    offsets: Iterable[int],
    settings: QueueSettings,
    now_ms: int,
    *,
    delay_ms: int | None = None,
    error: str = "",
) -> list[Operation]:
    """Messages were handed back: they wait for their next delivery, or have had their last.

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


def extend(queue: PartitionQueue, offsets: Iterable[int], deadline_ms: int) -> list[Operation]:
    """Let their members have messages until another deadline; one operation a lease."""
    by_lease: dict[int, list[int]] = {}
    for offset in offsets:
        by_lease.setdefault(queue.window.lease_number(offset), []).append(offset)
    return [
        ops.Extended(number, deadline_ms, ops.ranges_of(mine))
        for number, mine in zip(queue.lease_numbers(len(by_lease)), by_lease.values(), strict=True)
    ]

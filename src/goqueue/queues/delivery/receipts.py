"""What a consumer is given with a message, and shows again to say what became of it.

A receipt names a partition and no group, and many groups may read that. In a cluster it names the
shard of its group as well, and is shown at once to the node that keeps it. One without that is from
before there was a cluster, and is shown to all nodes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    ExpiredReceiptError,
    ForeignReceiptError,
    MalformedReceiptError,
    ReceiptError,
    UnknownReceiptError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.queues.delivery.pages import MessageState

if TYPE_CHECKING:
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.queue import PartitionQueue

_FORMAT: Final = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<partition>0|[1-9]\d{0,9}):(?P<offset>0|[1-9]\d{0,18})"
    r":(?P<count>[1-9]\d{0,2}):(?P<nonce>[0-9a-f]{16})(?P<shard>[0-9a-f]{2,4})?",
    re.ASCII,
)
_LONGEST_SHOWN: Final = 80
_DONE: Final = (MessageState.SETTLED, MessageState.DOOMED)
_EXPIRED: Final = (
    "the receipt {} has expired: its visibility timeout ran out or its member left the group, and "
    "the message is redelivered or dead-lettered"
)
MOST_LOOKS: Final = 20_000
"""Into groups, before others have their turn: a request that needs more is taken in parts."""
_LOOKS_OF_A_REASON: Final = 10
"""To say why a receipt does not count costs as much as so many looks."""


class Receipt(NamedTuple):
    """One delivery of one message to one group: `topic:partition:offset:deliveryCount:nonce`.

    The nonce is 64 random bits: nobody acknowledges a delivery that was not made to them.
    """

    topic: str
    partition: int
    offset: int
    delivery_count: int
    nonce: int
    shard: int | None = None
    """The number of the partition of the queue state topic that keeps the group; digits behind
    those of the nonce."""

    def __str__(self) -> str:
        shard = "" if self.shard is None else f"{self.shard:02x}"
        place = f"{self.topic}:{self.partition}:{self.offset}"
        return f"{place}:{self.delivery_count}:{self.nonce:016x}{shard}"

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """The receipt that was written so.

        Raises:
            MalformedReceiptError: the text is no receipt.
        """
        match = _FORMAT.fullmatch(text)
        if match is None:
            raise MalformedReceiptError(
                f"{text[:_LONGEST_SHOWN]!r} is no receipt: expected "
                "topic:partition:offset:deliveryCount:nonce, as the poll gave it"
            )
        topic, partition, offset, count, nonce, shard = match.groups()
        number = None if shard is None else int(shard, 16)
        return cls(topic, int(partition), int(offset), int(count), int(nonce, 16), number)


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
    return _refusal_of_old(queue, receipt.offset, receipt.nonce, str(receipt))


def refusal_by_nonce(
    queue: PartitionQueue, place: TopicPartition, offset: int, nonce: int, now_ms: int
) -> ReceiptError | None:
    """`refusal`, for those who say no delivery count: the nonce alone tells deliveries apart."""
    delivery = queue.window.delivery(offset)
    shown = f"{place.topic}:{place.partition}:{offset}:*:{nonce:016x}"
    if delivery is None or delivery.nonce != nonce:
        return _refusal_of_old(queue, offset, nonce, shown)
    if queue.window.leases[delivery.lease].deadline_ms > now_ms:
        return None
    return ExpiredReceiptError(_EXPIRED.format(shown))


def _refusal_of_old(queue: PartitionQueue, offset: int, nonce: int, shown: str) -> ReceiptError:
    """Why the receipt of a delivery that is over does not count."""
    if nonce in queue.expired:
        return ExpiredReceiptError(_EXPIRED.format(shown))
    unknown = UnknownReceiptError(
        f"no open delivery has the receipt {shown}: it was used already, or never given"
    )
    if queue.window.state(offset) in _DONE:
        unknown.is_done = 1
    return unknown


def owner(
    readers: list[tuple[QueueGroup, TopicIdPartition]],
    receipt: Receipt,
    now_ms: int,
    group_id: str | None,
) -> tuple[tuple[QueueGroup, TopicIdPartition] | ReceiptError, int]:
    """The group and the queue in which a receipt counts, or why it counts in none.

    Says as well how often it had to look. The group that is found comes first from now on: the
    next receipt is most likely of the same one.
    """
    for at, reader in enumerate(readers):
        group, key = reader
        if is_open(group.queues[key], receipt, now_ms):
            readers[0], readers[at] = reader, readers[0]
            if group_id is not None and group.group_id != group_id:
                told = f"{receipt} is of a delivery to another group than {group_id!r}"
                return ForeignReceiptError(told), at + 1
            return reader, at + 1
    return _why_not(readers, receipt, now_ms, group_id), _LOOKS_OF_A_REASON * len(readers) + 1


def _why_not(
    readers: list[tuple[QueueGroup, TopicIdPartition]],
    receipt: Receipt,
    now_ms: int,
    group_id: str | None,
) -> ReceiptError:
    """Why a receipt counts in no group: it did in one of them once, or in none.

    Whether its message is done is for the group to say, or, where none is named, for all of them.
    """
    found: ReceiptError | None = None
    for group, key in readers:
        error = refusal(group.queues[key], receipt, now_ms)
        if isinstance(error, ExpiredReceiptError):
            return error
        if (
            found is None
            or group.group_id == group_id
            or (group_id is None and not _is_done(error))
        ):
            found = error
    return found or UnknownReceiptError(f"no group reads the partition of {receipt}")


def _is_done(error: ReceiptError | None) -> bool:
    return isinstance(error, UnknownReceiptError) and bool(error.is_done)

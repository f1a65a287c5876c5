"""Whose a receipt is: it names a partition and no group, and many groups may read that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import ExpiredReceiptError, ForeignReceiptError, UnknownReceiptError
from goqueue.queues.delivery.decisions import is_open, refusal

if TYPE_CHECKING:
    from goqueue.model.errors import ReceiptError
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.receipts import Receipt

MOST_LOOKS: Final = 20_000
"""Into groups, before others have their turn: a request that needs more is taken in parts."""
_LOOKS_OF_A_REASON: Final = 10
"""To say why a receipt does not count costs as much as so many looks."""


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

"""What share consumers say became of messages, out of their requests."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import InvalidGroupRequestError
from goqueue.queues.delivery.decisions import Verdict
from goqueue.queues.share.acknowledging import AcknowledgedOffsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goqueue.protocols.kafka.context import Struct

_RENEW: Final = 4
_VERDICTS: Final = {
    0: Verdict.ACK,  # a gap: there is no message at the offset, and so nothing left to do with it
    1: Verdict.ACK,
    2: Verdict.RELEASE,
    3: Verdict.REJECT,
    _RENEW: Verdict.EXTEND,
}


def acknowledged_offsets(
    batches: Sequence[Struct], *, can_renew: bool
) -> list[AcknowledgedOffsets]:
    """The verdicts on one partition: ranges in order, with one verdict each, or one an offset.

    Raises:
        InvalidGroupRequestError: they contradict themselves.
    """
    found: list[AcknowledgedOffsets] = []
    end = 0
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not end <= first <= last:
            raise InvalidGroupRequestError(
                f"offsets {first} to {last} overlap with those before {end}"
            )
        if len(types) not in {1, last - first + 1}:
            raise InvalidGroupRequestError(
                f"{len(types)} types for the offsets {first} to {last}: expected one, or one each"
            )
        for kind in set(types):
            if kind not in _VERDICTS or (kind == _RENEW and not can_renew):
                raise InvalidGroupRequestError(f"there is no acknowledgement of type {kind}")
        end = last + 1
        found += _runs(first, last, types)
    return found


def _runs(first: int, last: int, types: Sequence[int]) -> Iterator[AcknowledgedOffsets]:
    if len(types) == 1:
        yield AcknowledgedOffsets(first, last, _VERDICTS[types[0]])
        return
    for kind, same in groupby(types):
        end = first + sum(1 for _ in same)
        yield AcknowledgedOffsets(first, end - 1, _VERDICTS[kind])
        first = end

"""Fetched batches, cut into runs that decode in one go: no aborted records, one kind of flags.

What a row shows beside its bytes (the kind of its time stamp, whether it may have a priority) is
said once a batch. Runs of batches that say the same are decoded together, so that nothing is ever
looked up row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.records.batch import COMPRESSION_MASK, DELIVERY, LOG_APPEND_TIME, BatchInfo
from goqueue.records.committed import committed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_KIND: Final = LOG_APPEND_TIME | DELIVERY
_MAX_COMPRESSED_BYTES: Final = 1 << 20
"""Of one run: what is compressed grows by an unknown factor when it is opened."""


class Run(NamedTuple):
    """Batches that lie behind one another once aborted ones and markers are left out."""

    data: memoryview | bytes
    attributes: int

    @property
    def is_log_append_time(self) -> bool:
        """The log gave the time stamps, not the producers."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_delivery_headers(self) -> bool:
        """Some record says how it is to be delivered; in other runs none does."""
        return bool(self.attributes & DELIVERY)


def runs_of(
    data: memoryview,
    batches: Sequence[tuple[int, BatchInfo]],
    aborted: Sequence[tuple[int, int]],
) -> Iterator[Run]:
    """The runs of a fetched chunk.

    Args:
        data: What was fetched.
        batches: Where each whole batch in it starts, with its header.
        aborted: Producer id and first offset of aborted transactions, by rising offset.
    """
    pieces: list[tuple[int, int]] = []
    kind, compressed_bytes = 0, 0
    for position, info in committed(batches, aborted):
        end = position + info.size_bytes
        is_full = compressed_bytes > _MAX_COMPRESSED_BYTES
        if pieces and (info.attributes & _KIND != kind or is_full):
            yield Run(_joined(data, pieces), kind)
            pieces, compressed_bytes = [], 0
        kind = info.attributes & _KIND
        if info.attributes & COMPRESSION_MASK:
            compressed_bytes += info.size_bytes
        if pieces and pieces[-1][1] == position:
            pieces[-1] = (pieces[-1][0], end)
        else:
            pieces.append((position, end))
    if pieces:
        yield Run(_joined(data, pieces), kind)


def _joined(data: memoryview, pieces: Sequence[tuple[int, int]]) -> memoryview | bytes:
    if len(pieces) == 1:
        start, end = pieces[0]
        return data[start:end]
    return b"".join([data[start:end] for start, end in pieces])

"""The batches of a fetch, opened as far as a reader wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.model.errors import TruncatedBatchError
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import peek, validate
from goqueue.records.committed import CommittedFilter
from goqueue.records.opening import open_section

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.records.section import Section


class OpenedRun(NamedTuple):
    """Whole batches of a fetch, one after the other."""

    end: int
    """Where the next batch starts."""
    next_offset: int
    sections: Sequence[Section]
    """Of those that are wanted: no markers, no aborted records, offsets in the range."""
    size_bytes: int
    """Of the sections together."""


class OpenPlain(Protocol):
    """Opens batches that are whole, sound and not compressed, for as long as they are."""

    def __call__(  # noqa: PLR0917 - by position, as C takes it
        self,
        buffer: bytes | bytearray | memoryview,
        position: int,
        from_offset: int,
        until_offset: int,
        limit_bytes: int,
        check_crc: bool,  # noqa: FBT001 - likewise
        /,
    ) -> tuple[int, int, list[Section], int] | None:
        """The fields of an `OpenedRun` of at most `limit_bytes`; None without a batch."""


def open_plain(*_: object) -> None:
    """Leave every batch to the general way; `_native_fetched.c` does not."""


def open_fetched(
    buffer: bytes | bytearray | memoryview,
    from_offset: int,
    until_offset: int,
    aborted: Iterable[tuple[int, int]],
    plain: OpenPlain,
    *,
    limit_bytes: int,
    check_crc: bool,
) -> Iterator[OpenedRun]:
    """Every whole batch in `buffer`; one that is cut off at the end is no error.

    A run that is larger than what is left of `limit_bytes` is one batch.

    Raises:
        BatchError: each way in which bytes are not an acceptable batch has its own class.
    """
    aborted = tuple(aborted)
    is_visible = CommittedFilter(aborted).is_visible
    position = 0
    while position < len(buffer):
        if not aborted:
            found = plain(buffer, position, from_offset, until_offset, limit_bytes, check_crc)
            if found is not None:
                run = OpenedRun._make(found)
                yield run
                position = run.end
                limit_bytes -= run.size_bytes
                if position == len(buffer):
                    return
        try:
            info = peek(buffer, position)
        except TruncatedBatchError:
            return
        sections: list[Section] = []
        if is_visible(info) and info.last_offset >= from_offset and info.base_offset < until_offset:
            if check_crc:
                validate(buffer, position, info)
            sections.append(open_section(buffer, position, info))
        position += info.size_bytes
        run = OpenedRun(position, info.next_offset, sections, sum(map(_size, sections)))
        yield run
        limit_bytes -= run.size_bytes


def _size(section: Section) -> int:
    return len(section.data)

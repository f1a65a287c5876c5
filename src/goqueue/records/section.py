"""The records section of a batch, and what a codec of it must offer.

The header of a batch, its checksum and its compression are the same few Python calls for every
batch (`goqueue.records.codec`). What costs per record is the section after the header, so that is
what has two implementations: `reference` in readable Python and `_native` in C, held equal by
property tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.records.record import Record

I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1
I32_MAX: Final = 2**31 - 1

INTERFACE: Final = 6
"""Counts the changes of what is below; a compiled codec of another count is not used."""

LEAST_RECORD_BYTES: Final = 7
"""Length, attributes, two deltas, two lengths and the header count, one byte each."""

LEAST_HEADER_BYTES: Final = 2
"""The lengths of its name and its value."""


class Section(NamedTuple):
    """The decompressed records of one batch, with what its header says of them."""

    data: bytes | bytearray | memoryview
    record_count: int
    base_offset: int
    last_offset_delta: int
    base_timestamp: int
    append_time: int | None
    """The timestamp of every record, when the log and not the producer gave it."""
    max_headers: int
    """Of all records together; what holds more is not decoded."""


ColumnBuffers: TypeAlias = tuple[
    int,  # rows
    int,  # null keys
    int,  # null values
    int,  # headers in all rows
    int,  # null header values
    bytes,  # offset: i64 a row
    bytes,  # timestamp: i64 a row
    bytes,  # key: i32 a row and one more,
    bytes,  # the bytes themselves,
    bytes,  # and a bit a row that is set where there is a key
    bytes,  # value: the same three
    bytes,
    bytes,
    bytes,  # headers: i32 a row and one more, counting headers
    bytes,  # header name: i32 a header and one more
    bytes,  # and UTF-8
    bytes,  # header value: i32 a header and one more,
    bytes,  # the bytes,
    bytes,  # and the bits
]
"""What `fill_columns` returns; integers are in the byte order of the machine, as Arrow has them."""


class SectionCodec(Protocol):
    """What `reference` and `_native` both are."""

    def encode_records(
        self, records: Sequence[Record], base_offset: int, base_timestamp: int, room: int, /
    ) -> tuple[bytearray, int]:
        """`room` zero bytes and then the records; beside it the largest timestamp.

        Raises:
            MalformedRecordError: offsets do not rise, or a delta does not fit.
        """

    def decode_records(self, section: Section, /) -> list[Record]:
        """Every record of the section.

        Raises:
            MalformedRecordError: the section is not exactly `record_count` records.
            MalformedHeadersError: the headers of one do not parse.
            BatchTooLargeError: the records have more than `max_headers` headers.
        """

    def check_records(
        self, section: Section, max_value_bytes: int, max_headers_bytes: int, /
    ) -> None:
        """Raise as `decode_records` would, and for a record over a limit.

        Raises:
            BatchTooLargeError: a value is over its limit.
            MalformedHeadersError: the headers of a record are over theirs, counted as this codec
                writes them.
        """

    def fill_columns(
        self, sections: Sequence[Section], from_offset: int, until_offset: int, /
    ) -> ColumnBuffers:
        """The records of all sections from one offset up to, not including, another.

        Raises:
            MalformedRecordError: as `decode_records`, also for records outside the range.
            BatchTooLargeError: a column would need more than 2 GiB.
        """

    def find_records(
        self, data: bytes | memoryview, count: int, first: int, end: int, /
    ) -> tuple[int, int, int]:
        """Where the records with offset deltas from `first` up to, not including, `end` are.

        The position of the first, the position behind the last, and how many there are. Records
        behind them are not looked at, nor is what records hold.

        Raises:
            MalformedRecordError: a record does not parse as far as that.
        """

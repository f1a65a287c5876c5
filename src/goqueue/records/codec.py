"""Whole batches: the header, the checksum and the compression around a section codec."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.errors import (
    BatchError,
    BatchTooLargeError,
    MalformedBatchError,
)
from goqueue.model.ids import NO_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from goqueue.model.limits import MAX_HEADERS_BYTES, MAX_VALUE_BYTES
from goqueue.records import produced
from goqueue.records.batch import HEADER_BYTES, peek, validate
from goqueue.records.builder import builder_type
from goqueue.records.columns import Columns, wrap_columns
from goqueue.records.compression import Compression
from goqueue.records.fetched import open_fetched
from goqueue.records.messages import message_type
from goqueue.records.opening import Room, open_section
from goqueue.records.salvage import Fault, Readable, salvage
from goqueue.records.sealing import seal
from goqueue.records.section import I32_MAX, I64_MAX, I64_MIN, Section, SectionCodec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.records.batch import BatchInfo
    from goqueue.records.builder import SectionBuilder
    from goqueue.records.contents import Contents
    from goqueue.records.fetched import OpenedRun, OpenPlain
    from goqueue.records.messages import Messages, Row
    from goqueue.records.record import Record


class Implementation(SectionCodec, Protocol):
    """What `pure` and `_native` both are."""

    @property
    def SectionBuilder(self) -> type[SectionBuilder]:  # noqa: N802 - it is a class
        """See `goqueue.records.builder`."""

    @property
    def Row(self) -> type[Row]:  # noqa: N802 - it is a class
        """See `goqueue.records.messages`."""

    @property
    def Messages(self) -> type[Messages]:  # noqa: N802 - it is a class
        """See `goqueue.records.messages`."""

    @property
    def open_plain(self) -> OpenPlain:
        """See `goqueue.records.fetched`."""

    def key_hash(self, key: bytes | str, /) -> int:
        """See `goqueue.records.partitioning`."""

    def split_rows(
        self, keys: Contents, partition_count: int, unkeyed: int, partitioner: str = "mmh3", /
    ) -> list[bytes]:
        """See `goqueue.records.partitioning`."""


class Codec:
    """Encodes and decodes batches with one implementation of what costs per record."""

    def __init__(self, name: str, sections: Implementation) -> None:
        self.name: Final = name
        self._sections: Final = sections
        self.BatchBuilder: Final = builder_type(sections.SectionBuilder)
        self.Message: Final = message_type(sections.Row)
        self.Messages: Final = sections.Messages
        self.key_hash: Final = sections.key_hash
        self.split_rows: Final = sections.split_rows
        self.find_records: Final = sections.find_records
        # A compiled codec has none where the processor has no instruction for the checksum.
        self.plain_header: Final = getattr(sections, "plain_header", produced.plain_header)
        self.single_batch: Final = getattr(sections, "single_batch", produced.single_batch)

    def encode(
        self,
        records: Sequence[Record],
        *,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        attributes: int = 0,
        base_offset: int | None = None,
        last_offset_delta: int | None = None,
        base_timestamp: int | None = None,
        max_timestamp: int | None = None,
        leader_epoch: int = NO_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> bytearray:
        """One whole batch of records in the order of their offsets, which may have gaps.

        Args:
            records: What the batch holds; none is allowed (compaction keeps such batches).
            compression: Of the records; a batch without records is never compressed.
            level: How hard the compression tries; None is its usual level.
            attributes: Flags such as `TRANSACTIONAL | LOG_APPEND_TIME`; what it says about
                compression is ignored, so that the attributes of another batch can be given.
            base_offset: The first record's, unless compaction has removed that record; 0 without
                records.
            last_offset_delta: The last record's, unless compaction has removed that record.
            base_timestamp: The first record's, unless it is to be a delete horizon.
            max_timestamp: The largest of the records, unless the log gives its own time.
            leader_epoch: Stamped later by the log as a rule.
            producer_id: With the two below, of an idempotent or transactional producer.
            producer_epoch: See `producer_id`.
            base_sequence: See `producer_id`.

        Raises:
            MalformedRecordError: offsets do not rise, or a delta does not fit.
            MalformedBatchError: a field of the header does not fit.
            BatchTooLargeError: the batch would be larger than `MAX_BATCH_BYTES`.
        """
        if base_offset is None:
            base_offset = records[0].offset if records else 0
        if base_timestamp is None:
            base_timestamp = records[0].timestamp_ms if records else NO_TIMESTAMP
        least_delta = records[-1].offset - base_offset if records else 0
        if last_offset_delta is None:
            last_offset_delta = least_delta
        if (
            not I64_MIN <= base_offset <= I64_MAX - last_offset_delta
            or not I64_MIN <= base_timestamp <= I64_MAX
            or last_offset_delta < max(least_delta, 0)
        ):
            raise MalformedBatchError(
                f"a batch cannot have base offset {base_offset}, last offset delta "
                f"{last_offset_delta} and base timestamp {base_timestamp}"
            )
        batch, largest = self._sections.encode_records(
            records, base_offset, base_timestamp, HEADER_BYTES
        )
        return seal(
            batch,
            len(records),
            compression=compression,
            level=level,
            attributes=attributes,
            base_offset=base_offset,
            last_offset_delta=last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=largest if max_timestamp is None else max_timestamp,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )

    def decode_rows(
        self,
        buffer: bytes | bytearray | memoryview,
        position: int = 0,
        *,
        check_crc: bool = True,
        room: Room | None = None,
    ) -> list[Record]:
        """Every record of the one batch at `position`; control records are records too.

        Raises:
            BatchTooLargeError: there is more than in `room`, or than may be opened at all.
            BatchError: each way in which bytes are not an acceptable batch has its own class.
        """
        info = peek(buffer, position)
        if check_crc:
            validate(buffer, position, info)
        return self._sections.decode_records(open_section(buffer, position, info, room))

    def decode_readable(
        self,
        buffer: bytes | bytearray | memoryview,
        position: int = 0,
        *,
        room: Room | None = None,
    ) -> Readable:
        """The records of the one batch at `position` that decode, and the offsets that do not.

        For readers of stored batches: a bad record costs its neighbours nothing. What is larger
        than may be opened counts as one that does not decode.

        Raises:
            BatchTooLargeError: there is more than in `room`, which the caller chose.
            BatchError: there is no batch at `position`.
        """
        info = peek(buffer, position)
        try:
            section = open_section(buffer, position, info, room)
        except BatchError as error:
            if room is not None and isinstance(error, BatchTooLargeError):
                raise
            return Readable([], [Fault(info.base_offset, info.next_offset, str(error))])
        try:
            return Readable(self._sections.decode_records(section), [])
        except BatchError as error:
            if room is not None and isinstance(error, BatchTooLargeError):
                raise
            return salvage(section, self._sections.decode_records, str(error))

    def admit(
        self, buffer: bytes | bytearray | memoryview, *, room: Room | None = None
    ) -> list[Record]:
        """The records of a batch that comes from outside, held to the limits of the product.

        The checksum is `validate`'s job.

        Raises:
            BatchTooLargeError: there is more than in `room`, or than may be opened at all.
            BatchError: each way in which bytes are not an acceptable batch has its own class.
        """
        section = open_section(buffer, 0, peek(buffer), room)
        self._sections.check_records(section, MAX_VALUE_BYTES, MAX_HEADERS_BYTES)
        return self._sections.decode_records(section)

    def check_records(
        self,
        buffer: bytes | bytearray | memoryview,
        position: int = 0,
        *,
        info: BatchInfo | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
        max_headers_bytes: int = MAX_HEADERS_BYTES,
        room: Room | None = None,
    ) -> None:
        """Check that the batch at `position` decodes and keeps the limits; nothing is kept of it.

        The checksum is `validate`'s job. Who knows the header already gives it as `info`.

        Raises:
            BatchTooLargeError: there is more than in `room`, or than may be opened at all.
            BatchError: each way in which bytes are not an acceptable batch has its own class.
        """
        section = open_section(buffer, position, info or peek(buffer, position), room)
        self._sections.check_records(section, max_value_bytes, max_headers_bytes)

    def decode_columns(
        self,
        buffer: bytes | bytearray | memoryview,
        *,
        from_offset: int | None = None,
        until_offset: int | None = None,
        aborted: Iterable[tuple[int, int]] = (),
        check_crc: bool = True,
        limit_bytes: int = I32_MAX,
    ) -> Columns:
        """The records of all batches in `buffer`, as a fetch returns them, as columns.

        Control batches are left out. A batch that is cut off at the end is no error: the result
        says how long it is. Batches outside the range of offsets are not even decompressed.

        Args:
            buffer: Batches of one partition, one after the other.
            from_offset: Leave out records below it (a fetch starts with a whole batch).
            until_offset: Leave out records from it on.
            aborted: Transactions whose batches are left out, see `goqueue.records.committed`.
            check_crc: Whether to check the CRC32C of each batch.
            limit_bytes: How much the batches together may be, decompressed.

        Raises:
            BatchTooLargeError: there is more than `limit_bytes` in `buffer`.
            BatchError: each way in which bytes are not an acceptable batch has its own class.
        """
        first = I64_MIN if from_offset is None else from_offset
        end = I64_MAX if until_offset is None else until_offset
        sections: list[Section] = []
        next_offset: int | None = None
        position = total_bytes = 0
        for run in self._open(buffer, first, end, aborted, limit_bytes, check_crc=check_crc):
            total_bytes += run.size_bytes
            if total_bytes > limit_bytes:
                raise BatchTooLargeError(
                    f"more than {limit_bytes} bytes of records; decode fewer batches at a time"
                )
            sections += run.sections
            position, next_offset = run.end, min(run.next_offset, end)
        return wrap_columns(
            self._sections.fill_columns(sections, first, end),
            next_offset=next_offset,
            remainder_bytes=len(buffer) - position,
        )

    def decode_messages(
        self,
        topic: str,
        partition: int,
        buffer: bytes | bytearray | memoryview,
        *,
        from_offset: int | None = None,
        until_offset: int | None = None,
        aborted: Iterable[tuple[int, int]] = (),
        check_crc: bool = True,
        limit_bytes: int = I32_MAX,
    ) -> Messages:
        """The records of batches as a fetch returns them, to be decoded as they are asked for.

        As `decode_columns`, but what cannot be read ends the messages instead of costing those
        before it: a batch that is damaged or past `limit_bytes` raises where it is the first one,
        and `next_offset` is its own where it is not. The buffer is kept, and must stay as it is.

        Raises:
            BatchError: the first batch is not an acceptable one.
        """
        first = I64_MIN if from_offset is None else from_offset
        end = I64_MAX if until_offset is None else until_offset
        sections: list[Section] = []
        next_offset: int | None = None
        position = total_bytes = 0
        try:
            for run in self._open(buffer, first, end, aborted, limit_bytes, check_crc=check_crc):
                total_bytes += run.size_bytes
                if total_bytes > limit_bytes and sections:
                    break
                sections += run.sections
                position, next_offset = run.end, min(run.next_offset, end)
        except BatchError:
            if next_offset is None:
                raise
        remainder_bytes = len(buffer) - position
        new, message = self._sections.Messages, self.Message
        place = message, topic, partition
        try:
            return new(*place, sections, first, end, next_offset, remainder_bytes)
        except BatchError:
            sound = list(takewhile(self._is_sound, sections))
            if not sound:
                raise
            next_offset = sections[len(sound)].base_offset
            return new(*place, sound, first, end, next_offset, remainder_bytes)

    def _open(
        self,
        buffer: bytes | bytearray | memoryview,
        first: int,
        end: int,
        aborted: Iterable[tuple[int, int]],
        limit_bytes: int,
        *,
        check_crc: bool,
    ) -> Iterator[OpenedRun]:
        return open_fetched(
            buffer,
            first,
            end,
            aborted,
            self._sections.open_plain,
            limit_bytes=limit_bytes,
            check_crc=check_crc,
        )

    def _is_sound(self, section: Section) -> bool:
        try:
            self._sections.check_records(section, I32_MAX, I32_MAX)
        except BatchError:
            return False
        return True

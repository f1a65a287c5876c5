"""Whole batches: the header, the checksum and the compression around a section codec."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from goqueue.model.errors import (
    BatchError,
    BatchTooLargeError,
    MalformedBatchError,
    TruncatedBatchError,
)
from goqueue.model.ids import NO_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from goqueue.model.limits import MAX_BATCH_BYTES, MAX_HEADERS_BYTES, MAX_VALUE_BYTES
from goqueue.records.batch import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    peek,
    validate,
)
from goqueue.records.columns import Columns, wrap_columns
from goqueue.records.compression import Compression, compress
from goqueue.records.opening import Room, open_section
from goqueue.records.salvage import Fault, Readable, salvage
from goqueue.records.section import I32_MAX, I64_MAX, I64_MIN, Section, SectionCodec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.records.record import Record

_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = CRC_START - _CRC.size


class Codec:
    """Encodes and decodes batches with one implementation of the records section."""

    def __init__(self, name: str, sections: SectionCodec) -> None:
        self.name: Final = name
        self._sections: Final = sections

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
        _check_size(len(batch))
        if not records:
            compression = Compression.NONE
        if compression:
            section = compress(compression, memoryview(batch)[HEADER_BYTES:], level)
            batch = bytearray(HEADER_BYTES)
            batch += section
            _check_size(len(batch))
        try:
            HEADER.pack_into(
                batch,
                0,
                base_offset,
                len(batch) - LENGTH_PREFIX_BYTES,
                leader_epoch,
                MAGIC,
                0,
                attributes & ~COMPRESSION_MASK | compression,
                last_offset_delta,
                base_timestamp,
                largest if max_timestamp is None else max_timestamp,
                producer_id,
                producer_epoch,
                base_sequence,
                len(records),
            )
        except struct.error as error:
            raise MalformedBatchError(
                f"a field of the batch header does not fit: {error}"
            ) from None
        _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
        return batch

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
        max_value_bytes: int = MAX_VALUE_BYTES,
        max_headers_bytes: int = MAX_HEADERS_BYTES,
        room: Room | None = None,
    ) -> None:
        """Check that the batch at `position` decodes and keeps the limits; nothing is kept of it.

        The checksum is `validate`'s job.

        Raises:
            BatchTooLargeError: there is more than in `room`, or than may be opened at all.
            BatchError: each way in which bytes are not an acceptable batch has its own class.
        """
        section = open_section(buffer, position, peek(buffer, position), room)
        self._sections.check_records(section, max_value_bytes, max_headers_bytes)

    def decode_columns(
        self,
        buffer: bytes | bytearray | memoryview,
        *,
        from_offset: int | None = None,
        until_offset: int | None = None,
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
        while position < len(buffer):
            try:
                info = peek(buffer, position)
            except TruncatedBatchError:
                break
            next_offset = min(info.next_offset, end)
            if not info.is_control and info.last_offset >= first and info.base_offset < end:
                if check_crc:
                    validate(buffer, position, info)
                section = open_section(buffer, position, info)
                total_bytes += len(section.data)
                if total_bytes > limit_bytes:
                    raise BatchTooLargeError(
                        f"more than {limit_bytes} bytes of records; decode fewer batches at a time"
                    )
                sections.append(section)
            position += info.size_bytes
        return wrap_columns(
            self._sections.fill_columns(sections, first, end),
            next_offset=next_offset,
            remainder_bytes=len(buffer) - position,
        )


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_BATCH_BYTES:
        raise BatchTooLargeError(
            f"a batch of {size_bytes} bytes; at most {MAX_BATCH_BYTES} are allowed, before "
            "compression and after"
        )

"""How fast batches are encoded and decoded, against aiokafka's compiled codec in the same run.

A batch is 1000 records of 100-byte values, without keys and headers: what aiokafka's own figures
are about. Every way starts from the objects that a producer or consumer has, and ends with a
finished batch (checksum included) or with every record in hand.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c

from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark, best_of
from goqueue.records import Compression, Record
from goqueue.records.arrow import to_arrow, to_view
from goqueue.records.choice import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.records.codec import Codec
    from goqueue.records.contents import Contents

RECORDS: Final = [
    Record(i, 1_700_000_000_000 + i, None, b"%03d " % i + b"all happy families " * 5 + b"\n")
    for i in range(1000)
]
STAMPED_BYTES: Final = 16
FETCHED_BATCHES: Final = 20
TURNS: Final = 30
REPEATS: Final = 10
PLAIN: Final = "aiokafka"


@benchmark("encode", "1000 records of 100 bytes to a finished batch, against aiokafka's builder")
def encode(run: Run) -> None:
    ours, theirs = load("native").encode(RECORDS), _build()
    expect(ours[STAMPED_BYTES:] == theirs[STAMPED_BYTES:], "the batches differ")
    _race(
        run,
        "encode",
        {
            PLAIN: _build,
            "compiled": partial(load("native").encode, RECORDS),
            "pure": partial(load("reference").encode, RECORDS),
        },
    )


@benchmark(
    "build", "A batch filled message by message and many at a time, against aiokafka's builder"
)
def build(run: Run) -> None:
    values = [record.value for record in RECORDS]
    view = to_view(pa.array(values, pa.binary()))
    ways: dict[str, Callable[[], object]] = {PLAIN: _build}
    for name, codec in {"compiled": load("native"), "pure": load("reference")}.items():
        expect(_fill_one_by_one(codec)[STAMPED_BYTES:] == _build()[STAMPED_BYTES:], "they differ")
        ways |= {
            f"{name}, one by one": partial(_fill_one_by_one, codec),
            f"{name}, a list": partial(_fill, codec, values),
            f"{name}, an Arrow column": partial(_fill, codec, view),
        }
    _race(run, "build", ways)


@benchmark(
    "messages", "A fetch of 20 such batches, the value of each message read, against aiokafka"
)
def messages(run: Run) -> None:
    native, reference = load("native"), load("reference")
    response = bytes(native.encode(RECORDS)) * FETCHED_BATCHES
    ways: dict[str, Callable[[], object]] = {
        PLAIN: partial(_read_all, response),
        "compiled, one by one": partial(_read_values, native, response),
        "compiled, as a list": partial(_list_values, native, response),
        "pure, one by one": partial(_read_values, reference, response),
    }
    _race(run, "messages", ways, len(RECORDS) * FETCHED_BATCHES)
    run.note("Each checks the checksums.")


@benchmark("decode", "The same batch to rows and to columns, against aiokafka's iteration")
def decode(run: Run) -> None:
    native, reference = load("native"), load("reference")
    batch = bytes(native.encode(RECORDS))
    expect(len(_iterate(batch)) == len(RECORDS), "aiokafka skipped records")
    expect(to_arrow(native.decode_columns(batch)).num_rows == len(RECORDS), "rows are missing")
    _race(
        run,
        "decode",
        {
            PLAIN: partial(_iterate, batch),
            "compiled to Arrow": partial(_to_arrow, native, batch, check_crc=False),
            "compiled to columns": partial(native.decode_columns, batch, check_crc=False),
            "compiled to rows": partial(native.decode_rows, batch, check_crc=False),
            "pure to columns": partial(reference.decode_columns, batch, check_crc=False),
            "pure to rows": partial(reference.decode_rows, batch, check_crc=False),
        },
    )
    run.note("Checksums are off here, as aiokafka has them off while it iterates.")


@benchmark("decode-checked", "The same with the checksum of the batch checked by each")
def decode_checked(run: Run) -> None:
    native, reference = load("native"), load("reference")
    batch = bytes(native.encode(RECORDS))
    _race(
        run,
        "decode",
        {
            PLAIN: partial(_iterate, batch, check_crc=True),
            "compiled to Arrow": partial(_to_arrow, native, batch),
            "compiled to rows": partial(native.decode_rows, batch),
            "pure to rows": partial(reference.decode_rows, batch),
        },
    )


@benchmark("compressed", "Compressed batches to Arrow, against aiokafka's iteration")
def compressed(run: Run) -> None:
    native = load("native")
    for compression in Compression:
        if compression:
            batch = bytes(native.encode(RECORDS, compression=compression))
            _race(
                run,
                compression.name.lower(),
                {
                    PLAIN: partial(_iterate, batch),
                    "compiled to Arrow": partial(_to_arrow, native, batch, check_crc=False),
                },
            )


@benchmark("fetch", "A fetch of 20 such batches to Arrow, against aiokafka's iteration")
def fetch(run: Run) -> None:
    native = load("native")
    response = bytes(native.encode(RECORDS)) * FETCHED_BATCHES
    ways: dict[str, Callable[[], object]] = {
        PLAIN: partial(_iterate_all, response),
        "compiled to Arrow": partial(_to_arrow, native, response),
    }
    _race(run, "fetch", ways, len(RECORDS) * FETCHED_BATCHES)
    run.note("Each checks the checksums.")


@benchmark("crc32c", "The checksum alone, over 1 MiB")
def checksum(run: Run) -> None:
    block = bytes(1 << 20)
    seconds = best_of(TURNS, lambda: crc32c(block))
    run.row("crc32c", len(block) / seconds / 2**30, "GiB/s")


def _race(
    run: Run, name: str, ways: dict[str, Callable[[], Any]], records: int = len(RECORDS)
) -> None:
    turns = Turns(PLAIN)
    for _ in run.progress(TURNS, name):
        for way, function in ways.items():
            turns.call(way, partial(_repeat, function))
    turns.report_rates(run, name, records * REPEATS, "records/s")


def _repeat(function: Callable[[], object]) -> None:
    """Several times in a row: a way must not pay for the caches that the one before it left."""
    for _ in range(REPEATS):
        function()


def _build() -> bytearray:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    append = builder.append
    for offset, timestamp_ms, key, value, _ in RECORDS:
        append(offset, timestamp_ms, key, value, [])
    built: bytearray = builder.build()
    return built


def _fill_one_by_one(codec: Codec) -> bytearray:
    builder = codec.BatchBuilder(1 << 20)
    add = builder.add
    for _, timestamp_ms, key, value, headers in RECORDS:
        add(value, key, headers, timestamp_ms)
    return builder.finish()


def _fill(codec: Codec, values: Contents) -> bytearray:
    builder = codec.BatchBuilder(1 << 20)
    builder.add_many(values, None, RECORDS[0].timestamp_ms)
    return builder.finish()


def _read_values(codec: Codec, response: bytes) -> list[bytes | None]:
    return [message.value for message in codec.decode_messages("topic", 0, response)]


def _list_values(codec: Codec, response: bytes) -> list[bytes | None]:
    return codec.decode_messages("topic", 0, response).values()


def _read_all(response: bytes) -> list[bytes | None]:
    batches = MemoryRecords(response)
    values: list[bytes | None] = []
    while (batch := batches.next_batch()) is not None:
        expect(batch.validate_crc(), "a checksum is wrong")
        values += [record.value for record in batch]
    return values


def _iterate(batch: bytes, *, check_crc: bool = False) -> list[Any]:
    opened = DefaultRecordBatch(batch)
    if check_crc:
        opened.validate_crc()
    return list(opened)


def _iterate_all(response: bytes) -> int:
    batches = MemoryRecords(response)
    count = 0
    while (batch := batches.next_batch()) is not None:
        expect(batch.validate_crc(), "a checksum is wrong")
        for _ in batch:
            count += 1
    return count


def _to_arrow(codec: Codec, batch: bytes, *, check_crc: bool = True) -> pa.RecordBatch:
    return to_arrow(codec.decode_columns(batch, check_crc=check_crc))

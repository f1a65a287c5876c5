"""A few kilobytes that open to gigabytes, sent by a producer: refused, or skipped by every reader.

On a topic that opens no batches a bomb is stored like any batch, and costs each reader a bounded
amount: it counts as records that do not decode. Where the broker opens batches it is refused.
"""

from __future__ import annotations

import struct
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.records import Compression, Record, encode
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka, make_batch, produce_fields
from support.bombs import MIB, header_bomb, many_headers_bomb, packed_zeros, sealed, value_bomb
from support.http_api import HttpApi
from support.share import configure, open_consumer, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess

WAIT_S = 90.0
MESSAGE_TOO_LARGE = 10
INVALID_RECORD = 87
MOST_GROWN = 200 * MIB
"""What the broker may grow by when a bomb is opened: a tenth of what this one would take."""

BOMBS: dict[str, Callable[[], bytes]] = {
    "a record of 30 million headers": header_bomb,
    "records of 30 million headers together": many_headers_bomb,
    **{
        f"a gigabyte of zeros in {codec.name.lower()}": partial(value_bomb, codec)
        for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD)
    },
    # Snappy makes zeros smaller by 21 times at most: a larger one would not be taken at all.
    "150 MiB of zeros in snappy": partial(value_bomb, Compression.SNAPPY, megabytes=150),
}
each_bomb = pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)

OPENING = {
    "delivery headers": {"goqueue_kafka_headers": "true"},
    "another compression": {"compression_type": "lz4"},
    "append time": {"message_timestamp_type": "LogAppendTime"},
    "compaction": {"cleanup_policy": "compact"},
}
each_opening = pytest.mark.parametrize("settings", OPENING.values(), ids=OPENING)


@pytest.fixture
def api(broker: ServerProcess) -> Iterator[HttpApi]:
    made = HttpApi(broker.http_port)
    yield made
    made.close()


@pytest.fixture
def bounded(broker: ServerProcess) -> Iterator[None]:
    """The broker's memory stays within the bound while the test runs."""
    before = {pid: _status(pid, "VmRSS") for pid in broker.broker_pids}
    for pid in before:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is measured from here on
    yield
    assert all(_status(pid, "VmHWM") - used < MOST_GROWN for pid, used in before.items())


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


# --- Topics that open nothing: readers are on their guard ----------------------------------------


def _stored(raw: RawKafka, topic: str, bomb: Callable[[], bytes]) -> None:
    """A message, a bomb, and another message."""
    raw.create(topic, max_message_bytes=str(8 * MIB))
    for batch in (make_batch(b"before"), bomb(), make_batch(b"after")):
        assert raw.produce(topic, batch).error_code == 0


@each_bomb
@pytest.mark.usefixtures("bounded")
def test_readers_get_past_a_bomb(
    api: HttpApi, raw: RawKafka, name: Callable[[str], str], bomb: Callable[[], bytes]
) -> None:
    topic, group = name("bomb"), name("group")
    _stored(raw, topic, bomb)
    values: list[str] = []
    offset = 0
    while "after" not in values:
        found = api.get(f"/topics/{topic}/partitions/0/messages?offset={offset}&limit=1000")
        values += [each["value"] for each in found["messages"]]
        offset = found["next_offset"]
    assert values[0] == "before"
    joined = api.post(f"/groups/{group}/join", {"topics": [topic], "assignment": "shared"})
    path = f"/groups/{group}/poll?timeout=30s&limit=1000&member_id={joined['member_id']}"
    polled: list[str] = []
    while "after" not in polled:
        messages = api.get(path)["messages"]
        assert messages, polled
        polled += [each["value"] for each in messages]
    assert polled[0] == "before"
    letter = _letters(api, topic)[0]
    assert letter["reason"] == "POISON_MESSAGE"
    assert "do not decode" in letter["error"] or "does not decode" in letter["error"]
    searched = api.get(f"/topics/{topic}/search?text=after")["messages"]
    assert [each["value"] for each in searched] == ["after"]


def _letters(api: HttpApi, topic: str) -> list[dict[str, Any]]:
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        answer = api.ask("GET", f"/topics/{topic}/dlq")
        if answer.status == 200 and answer.json["letters"]:
            found: list[dict[str, Any]] = answer.json["letters"]
            return found
        time.sleep(0.05)
    raise AssertionError("there is no dead letter")


@pytest.mark.usefixtures("bounded")
def test_a_share_consumer_gets_past_a_bomb(
    broker: ServerProcess, raw: RawKafka, name: Callable[[str], str]
) -> None:
    topic, group = name("bomb"), name("group")
    _stored(raw, topic, header_bomb)
    configure(broker, group, auto_offset_reset="earliest")
    consumer = open_consumer(broker, group, topic)
    try:
        found: list[str] = []
        while len(found) < 2:
            messages = poll(consumer, WAIT_S)
            assert messages, f"{found} came"
            found += [each.value().decode() for each in messages]
    finally:
        consumer.close()
    assert found == ["before", "after"]


def test_a_batch_of_more_records_than_can_be_opened_is_refused_by_its_header(
    raw: RawKafka, name: Callable[[str], str]
) -> None:
    topic = name("counted")
    raw.create(topic)
    lie = sealed(packed_zeros(Compression.ZSTD, MIB), 300_000, Compression.ZSTD)
    refused = raw.produce(topic, lie)
    assert refused.error_code == MESSAGE_TOO_LARGE
    assert "300000 records" in refused.error_message
    assert raw.stored(topic) == []


# --- Topics that open batches --------------------------------------------------------------------


@each_opening
@each_bomb
@pytest.mark.usefixtures("bounded")
def test_a_bomb_is_refused_where_batches_are_opened(
    raw: RawKafka,
    name: Callable[[str], str],
    bomb: Callable[[], bytes],
    settings: dict[str, Any],
) -> None:
    topic = name("opened")
    if "compression_type" in settings and bomb is BOMBS["a gigabyte of zeros in lz4"]:
        settings = {"compression_type": "gzip"}  # what has its compression already is not opened
    raw.create(topic, max_message_bytes=str(8 * MIB), **settings)
    refused = raw.produce(topic, bomb())
    assert refused.error_code == MESSAGE_TOO_LARGE
    assert refused.error_message
    assert raw.stored(topic) == []
    good = encode([Record(0, 1000, b"key", b"good")])
    assert raw.produce(topic, bytes(good)).error_code == 0


@each_opening
def test_limits_of_values_and_headers_hold_where_batches_are_opened(
    raw: RawKafka, name: Callable[[str], str], settings: dict[str, Any]
) -> None:
    topic = name("limits")
    raw.create(topic, **settings)
    large = (("name", bytes(70_000)),)
    records = [Record(0, 1000, b"k", b"v"), Record(1, 1000, b"k", b"v", large)]
    refused = raw.produce(topic, bytes(encode(records, compression=Compression.GZIP)))
    assert refused.error_code == INVALID_RECORD
    assert [each.batch_index for each in refused.record_errors] == [1]


@each_opening
def test_a_large_batch_is_stored_in_its_turn(
    raw: RawKafka, name: Callable[[str], str], settings: dict[str, Any]
) -> None:
    """It is opened elsewhere meanwhile, and the batches behind it on the connection wait."""
    topic = name("large")
    raw.create(topic, **settings)
    value = b"a line of a log that says what all the others say\n" * 100_000
    large = encode([Record(0, 1000, b"k", value)] * 1, compression=Compression.GZIP)
    small = encode([Record(0, 1000, b"k", b"small")])
    sent = [small, large, small, large, small, small]
    for batch in sent:
        raw.send(ApiKey.PRODUCE, 9, **produce_fields(topic, bytes(batch)))
    answers = [raw.answer_bytes()[1] for _ in sent]
    offsets = [_base_offset(answer, topic) for answer in answers]
    assert offsets == list(range(len(sent)))


def _base_offset(answer: memoryview, topic: str) -> int:
    """Where a flexible Produce answer says that its batch went; the error code must be none."""
    at = bytes(answer).index(topic.encode()) + len(topic) + 1  # and the count of partitions
    index, error, offset = struct.unpack_from(">ihq", answer, at)
    assert (index, error) == (0, 0)
    return int(offset)

"""Search against a dumb twin: all messages in a list, looked at one by one."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.publishing.requests import PublishRequest
from goqueue.reading import search
from goqueue.reading.search import Search
from goqueue.reading.searching import SearchFilter
from goqueue.records import Record, encode
from goqueue.transactions.messages import InitRequest
from support.brokers import publish, read_all, running_broker
from support.effort import examples

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from goqueue.broker.broker import Broker
    from goqueue.reading.searching import Hit

Batches: TypeAlias = list[tuple[int, list[Record]]]

BUDGETS = (1, 2000, 1 << 23)
WORDS = (b"apple", b"APPLE pie", b"pear", b"\xff\xfeapp", b"", None)


class Stored(NamedTuple):
    partition: int
    offset: int
    record: Record


records = st.builds(
    Record,
    st.just(0),
    st.integers(1000, 1020),
    st.sampled_from(WORDS),
    st.one_of(st.sampled_from(WORDS), st.integers(0, 40_000).map(bytes)),
    st.sampled_from([(), (("h", b"apple"),), (("Apple", None),), (("x", b"\xff"), ("x", b""))]),
)
batches = st.lists(
    st.tuples(st.integers(0, 2), st.lists(records, min_size=1, max_size=8)), max_size=12
)
questions = st.builds(
    SearchFilter,
    key=st.sampled_from([None, b"apple", b"PEAR"]),
    key_is_whole=st.booleans(),
    text=st.sampled_from([None, b"apple", b"\xff"]),
    begin_ms=st.sampled_from([None, 1005]),
    end_ms=st.sampled_from([None, 1015]),
)


def expected(wanted: SearchFilter, record: Record) -> bool:
    """What the question means, in the plainest words."""
    if wanted.begin_ms is not None and record.timestamp_ms < wanted.begin_ms:
        return False
    if wanted.end_ms is not None and record.timestamp_ms >= wanted.end_ms:
        return False
    if wanted.key is not None:
        if record.key is None:
            return False
        if wanted.key_is_whole and record.key != wanted.key:
            return False
        if wanted.key.lower() not in record.key.lower():
            return False
    if wanted.text is None:
        return True
    places = [record.value, *(each for pair in record.headers for each in pair)]
    texts = [each.encode() if isinstance(each, str) else each for each in places]
    return any(each is not None and wanted.text.lower() in each.lower() for each in texts)


async def store(broker: Broker, topic: str, wished: Batches) -> list[Stored]:
    stored: list[Stored] = []
    for number, items in wished:
        log = broker.partitions.partition(TopicPartition(topic, number))
        first = log.log_end
        batch = encode([each._replace(offset=at) for at, each in enumerate(items)])
        broker.publisher.publish(PublishRequest(TopicPartition(topic, number), memoryview(batch)))
        stored += [Stored(number, first + at, each) for at, each in enumerate(items)]
    return stored


async def look_on(
    broker: Broker, topic: str, wanted: SearchFilter, limit: int, *, newest_first: bool
) -> tuple[list[Hit], int]:
    """Every page until the end."""
    spans = await broker.time_ranges.spans(topic, None, None)
    hits: list[Hit] = []
    pages = 0
    while spans or not pages:
        found = await Search(
            broker.looks,
            broker.clock,
            wanted,
            limit,
            newest_first=newest_first,
        ).run(topic, spans)
        assert len(found.hits) <= limit
        assert found.rest != spans or not spans
        hits += found.hits
        spans = found.rest
        pages += 1
    return hits, pages


def test_pages_together_hold_every_message_that_fits_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()

    async def compare(
        broker: Broker, wished: Batches, wanted: SearchFilter, limit: int, *, newest_first: bool
    ) -> None:
        topic = f"t{next(numbers)}"
        await broker.create_topic(topic, 3, {"internal.segment.bytes": "20000"})
        stored = await store(broker, topic, wished)
        hits, _ = await look_on(broker, topic, wanted, limit, newest_first=newest_first)
        found = [(each.partition, each.record.offset) for each in hits]
        fitting = [(e.partition, e.offset) for e in stored if expected(wanted, e.record)]
        assert sorted(found) == sorted(fitting)
        for number in range(3):
            mine = [offset for partition, offset in found if partition == number]
            assert mine == sorted(mine, reverse=newest_first)
        await broker.delete_topic(topic)

    with asyncio.Runner() as runner, ExitStack() as stack:
        opened = running_broker(tmp_path)
        broker = runner.run(opened.__aenter__())
        stack.callback(lambda: runner.run(opened.__aexit__(None, None, None)))

        @settings(max_examples=examples(50), suppress_health_check=list(HealthCheck))
        @given(batches, questions, st.integers(1, 20), st.booleans(), st.sampled_from(BUDGETS))
        def check(
            wished: Batches, wanted: SearchFilter, limit: int, newest_first: bool, budget: int
        ) -> None:
            monkeypatch.setattr(search, "_MAX_READ_BYTES", budget)
            runner.run(compare(broker, wished, wanted, limit, newest_first=newest_first))

        check()


def test_the_newest_messages_of_all_partitions_come_by_their_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 3)
            wished = [
                (number % 3, [Record(0, 1000 + number, None, b"%d" % number)])
                for number in range(300)
            ]
            await store(broker, "t", wished)
            for newest_first in (True, False):
                hits, pages = await look_on(
                    broker, "t", SearchFilter(), 50, newest_first=newest_first
                )
                times = [each.record.timestamp_ms for each in hits]
                assert times == sorted(times, reverse=newest_first)
                assert (len(times), pages) == (300, 6)

    asyncio.run(scenario())


def test_a_look_at_the_newest_reads_a_little_however_much_there_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            values = [b"x" * 100] * 10_000
            for _ in range(20):
                publish(broker, "t", *values[:500])
            for _ in range(3000):
                publish(broker, "t", b"y" * 100)
            reading = Search(broker.looks, broker.clock, SearchFilter(), 50, newest_first=True)
            found = await reading.run("t", await broker.time_ranges.spans("t", None, None))
            assert [each.record.offset for each in found.hits] == list(range(12_999, 12_949, -1))
            assert reading._read_bytes < 40_000
            assert found.scanned < 300

            rare = Search(
                broker.looks,
                broker.clock,
                SearchFilter(text=b"nowhere"),
                50,
                newest_first=True,
            )
            spans = await broker.time_ranges.spans("t", None, None)
            assert (await rare.run("t", spans)).scanned <= 13_000
            assert rare._read_bytes < search._MAX_READ_BYTES + 2_000_000

    asyncio.run(scenario())


def test_one_look_ends_at_its_bound_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MAX_READ_BYTES", 100_000)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", b"the needle")
            for _ in range(500):
                publish(broker, "t", b"x" * 2000)
            hits, pages = await look_on(
                broker, "t", SearchFilter(text=b"NEEDLE"), 50, newest_first=True
            )
            assert [each.record.offset for each in hits] == [0]
            assert pages > 3

    asyncio.run(scenario())


def test_large_messages_fill_an_answer_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MAX_PAGE_BYTES", 100_000)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            for _ in range(8):
                publish(broker, "t", b"x" * 500_000)
            spans: Any = await broker.time_ranges.spans("t", None, None)
            found = await Search(
                broker.looks, broker.clock, SearchFilter(), 50, newest_first=True
            ).run("t", spans)
            assert [each.record.offset for each in found.hits] == [7, 6]
            hits, _ = await look_on(broker, "t", SearchFilter(), 50, newest_first=True)
            assert [each.record.offset for each in hits] == list(range(7, -1, -1))

    asyncio.run(scenario())


def test_aborted_messages_are_not_found(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            for marker in (Marker.ABORT, Marker.COMMIT):
                identity = await broker.transactions.init_producer(
                    InitRequest(transactional_id="id", timeout_ms=60_000)
                )
                place = TopicPartition("t", 0)
                await broker.transactions.add_partitions("id", identity, [place])
                publish(
                    broker,
                    "t",
                    marker.name.encode(),
                    attributes=16,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    base_sequence=0,
                )
                await broker.transactions.end("id", identity, marker)
            for newest_first in (True, False):
                hits, _ = await look_on(broker, "t", SearchFilter(), 50, newest_first=newest_first)
                assert [each.record.value for each in hits] == [b"COMMIT"]

    asyncio.run(scenario())


def test_what_compaction_has_left_is_found_in_both_directions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            settings = {"cleanup.policy": "compact", "internal.segment.bytes": "2000"}
            await broker.create_topic("t", 1, settings)
            for number in range(300):
                publish(broker, "t", b"%d" % number, key=b"%d" % (number % 7))
            publish(broker, "t", b"last", key=b"none")
            await broker.maintenance().compact(TopicPartition("t", 0))
            kept = [each.offset for each in await read_all(broker, "t")]
            assert len(kept) < 60
            for newest_first in (True, False):
                hits, _ = await look_on(broker, "t", SearchFilter(), 5, newest_first=newest_first)
                found = [each.record.offset for each in hits]
                assert found == sorted(kept, reverse=newest_first)

    asyncio.run(scenario())

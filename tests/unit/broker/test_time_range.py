"""Merging partitions by time, against a twin that sorts everything."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from goqueue.publishing.new_messages import NewMessage
from goqueue.reading.stored_messages import StoredMessage
from goqueue.reading.time_range import Page, Span, merge
from goqueue.records import Record
from support.brokers import running_broker

if TYPE_CHECKING:
    from pathlib import Path

partitions = st.lists(st.lists(st.integers(0, 50), max_size=12).map(sorted), min_size=1, max_size=4)


def stored(partition: int, offset: int, at_ms: int) -> StoredMessage:
    return StoredMessage("t", partition, Record(offset, at_ms, None, b"", ()))


@given(partitions, st.integers(1, 10), st.integers(1, 5))
def test_pages_merged_one_after_the_other_are_everything_in_order(
    times: list[list[int]], limit: int, page_size: int
) -> None:
    logs = [[stored(n, at, ms) for at, ms in enumerate(log)] for n, log in enumerate(times)]
    spans = [Span(n, 0, len(log)) for n, log in enumerate(logs) if log]
    seen: list[StoredMessage] = []
    rounds = 0
    while spans:
        pages = [
            Page(
                span,
                logs[span.partition][span.start : span.start + page_size],
                min(span.start + page_size, span.end),
            )
            for span in spans
        ]
        merged = merge(pages, limit)
        assert len(merged.messages) <= limit
        assert merged.messages, "every round gets on"
        seen += merged.messages
        spans = merged.rest
        rounds += 1
        assert rounds <= sum(map(len, logs))
    everything = [message for log in logs for message in log]
    assert sorted(seen) == sorted(everything)
    assert [m.record.timestamp_ms for m in seen] == sorted(m.record.timestamp_ms for m in seen)


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_page_without_messages_still_gets_on(start: int, gap: int) -> None:
    merged = merge([Page(Span(0, start, start + gap + 1), [], start + 1)], 10)
    assert merged.messages == []
    assert all(span.start > start for span in merged.rest)


def test_a_topic_is_read_between_two_moments(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 3)
            for second in range(30):
                message = NewMessage(b"%d" % second, None, (), second % 3, second * 1000)
                await broker.writer.publish("t", [message])
            spans = await broker.time_ranges.spans("t", 5000, 21_000)
            found = await broker.time_ranges.read(
                "t", spans, limit=1000, begin_ms=5000, end_ms=21_000
            )
            assert [m.record.value for m in found.messages] == [b"%d" % n for n in range(5, 21)]
            assert found.rest == []
            assert await broker.time_ranges.spans("t", 90_000, None) == []

    asyncio.run(scenario())


def test_messages_with_clocks_of_their_own_are_left_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            for at_ms in (1000, 9000, 2000, 3000):
                await broker.writer.publish("t", [NewMessage(b"%d" % at_ms, None, (), 0, at_ms)])
            spans = await broker.time_ranges.spans("t", 1000, None)
            found = await broker.time_ranges.read("t", spans, limit=10, begin_ms=1000, end_ms=5000)
            assert [m.record.value for m in found.messages] == [b"1000", b"2000", b"3000"]

    asyncio.run(scenario())

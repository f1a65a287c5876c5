"""Entries on their way out."""

from __future__ import annotations

import asyncio
import io
import json
import threading

from goqueue.tracing.events import Entry, Event
from goqueue.tracing.feed import Feed, StdoutExporter


def entry(at, count=1):
    return Entry(Event.PERSISTED, at, "t", 0, at, count, "a" * 16)


class Kept:
    """An exporter that refuses when it is told to."""

    name = "kept"

    def __init__(self):
        self.entries, self.fails, self.is_closed = [], False, False
        self.came = threading.Event()

    def export(self, entries):
        if self.fails:
            raise OSError("no")
        self.entries += entries
        self.came.set()

    def close(self):
        self.is_closed = True


def test_what_waits_goes_out_in_order_and_all_of_it_at_the_end():
    async def scenario():
        kept = Kept()
        feed = Feed(kept, batch=3, flush_s=60)
        feed.start()
        feed.put_all([entry(0), entry(1)])
        feed.put(entry(2))
        feed.put(entry(3))
        await feed.stop()
        assert [each.at_ns for each in kept.entries] == [0, 1, 2, 3]
        assert (feed.exported, feed.dropped, kept.is_closed) == (4, 0, True)

    asyncio.run(scenario())


def test_a_full_batch_goes_out_without_waiting():
    async def scenario():
        kept = Kept()
        feed = Feed(kept, batch=2, flush_s=60)
        feed.start()
        feed.put_all([entry(0), entry(1), entry(2)])
        assert await asyncio.to_thread(kept.came.wait, 60)
        await feed.stop()

    asyncio.run(scenario())


def test_a_flush_waits_for_what_is_under_way():
    class Slow(Kept):
        def __init__(self):
            super().__init__()
            self.began, self.may_end = threading.Event(), threading.Event()

        def export(self, entries):
            self.began.set()
            assert self.may_end.wait(30)
            super().export(entries)

    async def scenario():
        slow = Slow()
        feed = Feed(slow, batch=1, flush_s=60)
        feed.start()
        feed.put(entry(0))
        assert await asyncio.to_thread(slow.began.wait, 30)
        flushing = asyncio.create_task(feed.flush())
        await asyncio.sleep(0)
        assert not flushing.done()
        slow.may_end.set()
        await flushing
        assert (feed.exported, slow.entries) == (1, [entry(0)])
        await feed.stop()

    asyncio.run(scenario())


def test_of_too_many_the_oldest_are_dropped_and_counted():
    async def scenario():
        kept = Kept()
        feed = Feed(kept, batch=100, flush_s=60, limit=5)
        feed.put_all([entry(at) for at in range(4)])
        feed.put(entry(4))
        feed.put(entry(5))
        feed.put_all([entry(6), entry(7)])
        feed.start()
        await feed.stop()
        assert [each.at_ns for each in kept.entries] == [3, 4, 5, 6, 7]
        assert feed.dropped == 3

    asyncio.run(scenario())


def test_an_exporter_that_fails_costs_what_it_was_given():
    async def scenario():
        kept = Kept()
        kept.fails = True
        feed = Feed(kept, batch=10, flush_s=60)
        feed.start()
        feed.put(entry(0))
        await feed.flush()
        kept.fails = False
        feed.put(entry(1))
        await feed.stop()
        assert (feed.exported, feed.dropped) == (1, 1)

    asyncio.run(scenario())


def test_standard_output_is_told_of_each_message():
    stream = io.StringIO()
    StdoutExporter(stream).export([entry(7, count=2)])
    spans = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [span["offset"] for span in spans] == [8, 7]
    assert len({span["trace_id"] for span in spans}) == 2

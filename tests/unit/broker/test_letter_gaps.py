"""Offsets that hold no letter, against a set of them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from hypothesis import given, strategies as st

from goqueue.model.errors import PeerUnavailableError
from goqueue.model.topic_partition import TopicPartition
from goqueue.queues.dead_letters import letter_gaps
from goqueue.queues.dead_letters.letter_gaps import Gaps, LetterGaps
from goqueue.reading.fetch import Fetched
from goqueue.reading.remote_source import RemoteSource
from goqueue.records import Record, encode

if TYPE_CHECKING:
    from goqueue.reading.fetch import FetchRequest, PartitionRead

SPANS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=20)
OFFSETS = st.integers(0, 120)


@given(SPANS, OFFSETS, OFFSETS, OFFSETS)
def test_gaps_say_what_a_set_of_offsets_says(
    spans: list[tuple[int, int]], log_start: int, first: int, end: int
) -> None:
    gaps, twin = Gaps(), set[int]()
    at = 0
    for before, length in spans:
        gaps.add(at + before, at + before + length)
        twin |= set(range(at + before, at + before + length))
        at += before + length
    gaps.forget_before(log_start)
    asked = range(max(first, log_start), end)
    assert gaps.covered(asked.start, asked.stop) == len(twin & set(asked))
    outside = [each for each in asked if each not in twin]
    assert gaps.last_outside(asked.start, asked.stop) == max(outside, default=None)


def test_a_gap_within_another_adds_nothing() -> None:
    gaps = Gaps()
    gaps.add(3, 9)
    gaps.add(4, 6)
    gaps.add(8, 11)
    assert (len(gaps), gaps.covered(0, 20)) == (1, 8)


def test_gaps_beyond_the_bound_are_not_kept(monkeypatch) -> None:
    monkeypatch.setattr(letter_gaps, "_MAX_GAPS", 2)
    gaps = Gaps()
    for at in (1, 3, 5):
        gaps.add(at, at + 1)
    assert (len(gaps), gaps.covered(0, 10)) == (2, 2)


PLACE, KEY = TopicPartition("t.dlq", 0), (UUID(int=1), 0)


class Leader:
    """The node that leads a partition; some offsets at its end this node has not heard of."""

    def __init__(self, *held: range) -> None:
        self.held = held
        self.end = held[-1].stop
        self.fetches = 0
        self.is_away = False

    def leader_of(self, _place: TopicPartition) -> int:
        return 2

    async def fetch(
        self, _node_id: int, _request: FetchRequest, reads: list[PartitionRead]
    ) -> list[Fetched]:
        self.fetches += 1
        if self.is_away:
            raise PeerUnavailableError("cut")
        (read,) = reads
        rest = [each for each in self.held if each.stop > read.offset][:2]
        data = b"".join(_batch(each) for each in rest)
        upto = rest[-1].stop if rest else read.offset
        return [Fetched(read, data, 0, upto, self.end, self.end, 0, None, [])]


def _batch(held: range) -> bytes:
    return bytes(encode([Record(offset, 0, None, b"x", ()) for offset in held]))


def _source(leader: Any, known: int) -> RemoteSource:
    source = RemoteSource(PLACE, KEY, leader, leader)
    told = {"leader_epoch": 1, "log_start": 0, "high_watermark": known, "last_stable": known}
    source.follow(SimpleNamespace(**told, lane_runs=b"", aborted=b""))  # type: ignore[arg-type]
    return source


def test_gaps_of_a_partition_on_another_node_are_fetched_once() -> None:
    async def scenario() -> None:
        leader = Leader(range(2), range(3, 5), range(9, 10), range(12, 14))
        leader.end = 15
        with ThreadPoolExecutor(1) as executor:
            known = LetterGaps(executor)
            gaps = await known.upto(_source(leader, 9), 9)
            assert [gaps.covered(at, at + 1) for at in range(9)] == [0, 0, 1, 0, 0, 1, 1, 1, 1]
            assert gaps.known_to == 9, "no further than what is known here to be committed"
            asked = leader.fetches
            again = _source(leader, 15)  # the other was not asked for, and is not followed any more
            assert await known.upto(again, 9) is gaps
            assert leader.fetches == asked
            await known.upto(again, 15)
            assert gaps.covered(0, 15) == 1 + 4 + 2 + 1
            leader.is_away = True
            longer = _source(leader, 20)
            assert await known.upto(longer, 20) is gaps, "what is known counts meanwhile"

    asyncio.run(scenario())


def test_gaps_of_partitions_beyond_the_bound_are_fetched_anew(monkeypatch) -> None:
    monkeypatch.setattr(letter_gaps, "_MAX_REMOTE", 1)

    async def scenario() -> None:
        leader = Leader(range(2))
        one, other = _source(leader, 2), _source(leader, 2)
        other.key = (UUID(int=2), 0)
        with ThreadPoolExecutor(1) as executor:
            known = LetterGaps(executor)
            for source in (one, one, other, one):
                await known.upto(source, 2)
        assert leader.fetches == 3

    asyncio.run(scenario())

"""The newest batches in memory, against a list of all that were ever added."""

from __future__ import annotations

import sys

from hypothesis import given, strategies as st

from goqueue.partitions.replication.tail import Tail, TailBudget, TailEntry

PER_PARTITION = 2000
PER_NODE = 5000

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(1, 4), st.integers(1, 1200)),
        st.tuples(st.just("skip"), st.integers(0, 3), st.integers(1, 4), st.just(0)),
        st.tuples(st.just("clear"), st.integers(0, 3), st.just(0), st.just(0)),
        st.tuples(st.just("find"), st.integers(0, 3), st.integers(0, 60), st.integers(1, 3000)),
    ),
    max_size=60,
)


class Twin:
    """Four tails, and of each every batch since it was last cleared."""

    def __init__(self) -> None:
        self.budget = TailBudget(PER_NODE)
        self.tails = [Tail(self.budget, PER_PARTITION) for _ in range(4)]
        self.added: list[list[TailEntry]] = [[] for _ in range(4)]
        self.ends = [0] * 4

    def add(self, which: int, count: int, size: int) -> None:
        first = self.ends[which]
        self.ends[which] = first + count
        entry = TailEntry(first, first + count, bytes([which]) * size, count)
        if self.added[which] and self.added[which][-1].end_offset != first:
            self.added[which].clear()
        self.added[which].append(entry)
        self.tails[which].add(entry)

    def skip(self, which: int, count: int, _: int) -> None:
        """Something was appended that the tail was not told of."""
        self.ends[which] += count

    def clear(self, which: int, *_: int) -> None:
        self.added[which].clear()
        self.tails[which].clear()

    def find(self, which: int, offset: int, max_bytes: int) -> None:
        tail, added = self.tails[which], self.added[which]
        for until in (offset, offset + 3, self.ends[which]):
            found = tail.find(offset, max_bytes, until)
            held = [each for each in added if each.first_offset >= tail.start_offset]
            expected: list[TailEntry] = []
            for each in (each for each in held if each.end_offset > offset):
                is_full = sum(len(e.data) for e in expected) + len(each.data) > max_bytes
                if each.end_offset > until or (expected and is_full):
                    break
                expected.append(each)
            if not held or offset < held[0].first_offset:
                expected = []
            assert (list(found.entries) if found is not None else []) == expected
            if found is not None:
                assert found.length == len(found.load().data)
                assert found.load().record_count == sum(each.record_count for each in expected)

    def check(self) -> None:
        assert self.budget.size_bytes == sum(each.size_bytes for each in self.tails) <= PER_NODE
        for tail, added in zip(self.tails, self.added, strict=True):
            assert tail.size_bytes <= PER_PARTITION
            held = [each for each in added if each.first_offset >= tail.start_offset]
            if tail.size_bytes:
                assert held[0].first_offset == tail.start_offset
                assert tail.end_offset == held[-1].end_offset
            else:
                assert tail.start_offset == tail.end_offset


@given(STEPS)
def test_a_tail_gives_what_was_added_last_within_its_bounds(
    steps: list[tuple[str, int, int, int]],
) -> None:
    twin = Twin()
    for what, *values in steps:
        getattr(twin, what)(*values)
        twin.check()


def test_many_small_batches_do_not_grow_the_list_for_ever() -> None:
    tail = Tail(TailBudget(), PER_PARTITION)
    for offset in range(10_000):
        tail.add(TailEntry(offset, offset + 1, b"x", 1))
    assert len(tail._entries) < 200
    assert tail.end_offset == 10_000


def test_the_partition_that_was_silent_for_longest_gives_way() -> None:
    budget = TailBudget(3000)
    quiet, busy = Tail(budget, 9000), Tail(budget, 9000)
    quiet.add(TailEntry(0, 1, bytes(700), 1))
    for offset in range(3):
        busy.add(TailEntry(offset, offset + 1, bytes(700), 1))
    assert quiet.find(0, 1, 1) is None
    assert busy.find(0, 1, 1) is not None


def test_a_dropped_batch_is_held_by_nobody() -> None:
    tail = Tail(TailBudget(), max_bytes=10_000)
    batches = [bytes([number]) * 4_000 for number in range(30)]
    unheld = sys.getrefcount(batches[0])
    for number, data in enumerate(batches):
        tail.add(TailEntry(number, number + 1, data, 1))
    del data
    held = [sys.getrefcount(batches[number]) > unheld for number in range(30)]
    assert held == [False] * 28 + [True] * 2

"""The filter of aborted transactions against a twin that remembers how each transaction ended."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings, strategies as st

from goqueue.model.topic_partition import TopicPartition
from goqueue.reading.fetch import Fetched, PartitionRead, visible_batches
from goqueue.records import CONTROL, TRANSACTIONAL, Record, encode, walk
from goqueue.records.committed import committed
from support.effort import examples

PRODUCERS = 3


class Step(NamedTuple):
    producer: int
    kind: str
    rows: int
    skipped: int
    """How far behind the base offset of its first batch a transaction is said to begin."""


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(0, PRODUCERS - 1),
        st.sampled_from(["data", "data", "data", "plain", "commit", "abort"]),
        st.integers(1, 3),
        st.integers(0, 2),
    ),
    max_size=30,
)


class Twin:
    """A log, and what became of each of its batches."""

    def __init__(self, steps):
        self.batches: list[bytes] = []
        self.fates: list[str] = []
        """Of each batch: `shown`, `hidden` or `marker`."""
        self.bases: list[int] = []
        self.aborted: list[tuple[int, int, int]] = []
        """Producer, first offset, and the offset of the marker."""
        self.end = 0
        self._open: dict[int, tuple[int, list[int]]] = {}
        for step in steps:
            self._do(step)
        for producer in list(self._open):
            self._do(Step(producer, "abort", 1, 0))

    def _append(self, producer, count, attributes, fate):
        records = [Record(self.end + at, 0, None, b"v") for at in range(count)]
        self.batches.append(
            bytes(
                encode(
                    records,
                    attributes=attributes,
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=0,
                )
            )
        )
        self.fates.append(fate)
        self.bases.append(self.end)
        self.end += count

    def _do(self, step):
        producer, kind, count, skipped = step
        opened = self._open.get(producer)
        if kind == "plain":
            self._append(-1, count, 0, "shown")
        elif kind == "data":
            if opened is None:
                first = self.end + min(skipped, count - 1)
                opened = self._open[producer] = (first, [])
            opened[1].append(len(self.batches))
            self._append(producer, count, TRANSACTIONAL, "shown")
        elif opened is not None:
            first, numbers = self._open.pop(producer)
            if kind == "abort":
                self.aborted.append((producer, first, self.end))
                for number in numbers:
                    self.fates[number] = "hidden"
            self._append(producer, 1, TRANSACTIONAL | CONTROL, "marker")


@settings(max_examples=examples(300))
@given(STEPS, st.data())
def test_a_reader_of_committed_records_sees_all_but_what_was_aborted(steps, data):
    twin = Twin(steps)
    begin = data.draw(st.integers(0, max(len(twin.batches) - 1, 0)))
    end = data.draw(st.integers(begin, len(twin.batches)))
    chunk = b"".join(twin.batches[begin:end])
    bases = [*twin.bases, twin.end]
    aborted = sorted(
        (
            (producer, first)
            for producer, first, marker in twin.aborted
            if marker >= bases[begin] and first < bases[end]
        ),
        key=lambda each: each[1],
    )
    wanted = [bases[at] for at in range(begin, end) if twin.fates[at] == "shown"]
    assert [info.base_offset for _, info in committed(walk(chunk), aborted)] == wanted
    read = PartitionRead(TopicPartition("t", 0), bases[begin], 1 << 20)
    fetched = Fetched(read, data=chunk, aborted=aborted)
    assert [info.base_offset for _, info in visible_batches(fetched)] == wanted


def test_without_aborted_transactions_only_markers_are_left_out():
    twin = Twin([Step(0, "data", 2, 0), Step(1, "plain", 1, 0), Step(0, "commit", 1, 0)])
    found = committed(walk(b"".join(twin.batches)), ())
    assert [info.base_offset for _, info in found] == [0, 2]

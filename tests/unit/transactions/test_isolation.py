"""What a partition knows of its transactions, held against a list of everything ever written."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.isolation import PartitionTransactions
from goqueue.partitions.markers import Marker, TransactionEnd, encode_marker, read_marker
from goqueue.reading.fetch import Fetched, PartitionRead, visible_batches
from goqueue.records import TRANSACTIONAL, Record, encode
from goqueue.records.batch import peek, stamp
from support.effort import examples

PRODUCERS = st.integers(0, 3)
PLACE = PartitionRead(TopicPartition("t", 0), 0, 1 << 20)


@dataclass
class Batch:
    """One batch in the twin: what it is, and what became of it in the end."""

    offset: int
    count: int
    producer: int | None
    is_marker: bool
    data: bytes
    outcome: Marker | None = None
    """Of a transactional batch; None while its transaction is open."""
    decided_at: int = -1

    @property
    def end(self) -> int:
        return self.offset + self.count


class TransactionsMachine(RuleBasedStateMachine):
    """Producers write in and outside of transactions; readers come at any offset."""

    @initialize()
    def begin(self):
        self.known = PartitionTransactions()
        self.log: list[Batch] = []
        self.end = 0
        self.flushed = 0
        self.start = 0

    def _store(self, batch: bytearray, producer: int | None, *, is_marker: bool) -> Batch:
        stamp(batch, 0, self.end, 0)
        info = peek(batch)
        stored = Batch(self.end, info.count, producer, is_marker, bytes(batch))
        self.log.append(stored)
        self.end += info.count
        if info.is_transactional:
            self.known.note(info, info.base_offset, batch)
        return stored

    @rule(producer=PRODUCERS, count=st.integers(1, 3))
    def write_in_a_transaction(self, producer, count):
        records = [Record(number, 1, None, b"v") for number in range(count)]
        batch = encode(records, attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0)
        self._store(batch, producer, is_marker=False)

    @rule(count=st.integers(1, 3))
    def write_outside(self, count):
        self._store(encode([Record(n, 1, None, b"v") for n in range(count)]), None, is_marker=False)

    @rule(producer=PRODUCERS, marker=st.sampled_from(Marker))
    def end_one(self, producer, marker):
        stored = self._store(encode_marker(marker, producer, 0, 0, 1), producer, is_marker=True)
        for batch in self.log:
            if batch.producer == producer and not batch.is_marker and batch.outcome is None:
                batch.outcome, batch.decided_at = marker, stored.offset

    @rule()
    def flush(self):
        self.flushed = self.end

    @rule(share=st.floats(0, 1))
    def trim(self, share):
        stable = self._stable(self.end)
        self.start = max(self.start, int(stable * share))
        self.known.forget_before(self.start)

    @rule()
    def restart(self):
        loaded = PartitionTransactions()
        loaded.load_open(list(self.known.dump_open()))
        loaded.load_aborted(self.known.dump_aborted())
        assert list(loaded.dump_open()) == list(self.known.dump_open())
        self.known = loaded
        self.flushed = self.end  # a start shows whatever the log has

    def _stable(self, high_watermark: int) -> int:
        undecided = [
            batch.offset
            for batch in self.log
            if batch.producer is not None
            and not batch.is_marker
            and (batch.outcome is None or batch.decided_at >= high_watermark)
        ]
        return min([high_watermark, *undecided])

    @invariant()
    def the_last_stable_offset_is_where_the_first_undecided_record_is(self):
        self.known.check_invariants()
        assert self.known.last_stable(self.flushed) == self._stable(self.flushed)

    @invariant()
    def a_batch_is_known_to_be_aborted_or_not(self):
        frozen = self.known.frozen()
        for batch in self.log:
            if batch.producer is not None and batch.offset >= self.start:
                expected = batch.outcome is Marker.ABORT
                info = peek(batch.data)
                assert self.known.is_aborted(info) == (expected and not batch.is_marker)
                if not batch.is_marker:
                    assert frozen(info) == expected

    @rule(share=st.floats(0, 1), size=st.integers(1, 8))
    def read_committed(self, share, size):
        """A reader gets whole batches from the one that holds its offset on."""
        stable = self._stable(self.flushed)
        offset = max(self.start, int(stable * share))
        first = bisect.bisect_right([batch.end for batch in self.log], offset)
        readable = [b for b in self.log[first : first + size] if b.end <= stable]
        if not readable:
            return
        found = Fetched(
            PLACE,
            b"".join(batch.data for batch in readable),
            aborted=self.known.aborted_between(offset, readable[-1].end),
        )
        seen = [info.base_offset for _, info in visible_batches(found)]
        assert seen == [
            batch.offset
            for batch in readable
            if not batch.is_marker and (batch.producer is None or batch.outcome is Marker.COMMIT)
        ]


TransactionsMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestTransactions = TransactionsMachine.TestCase


def test_a_marker_reads_as_it_was_written():
    for marker in Marker:
        batch = encode_marker(marker, 5, 3, 7, 1234)
        info = peek(batch)
        assert read_marker(batch) == TransactionEnd(marker, 7)
        assert (info.producer_id, info.producer_epoch, info.base_sequence) == (5, 3, -1)
        assert info.is_control
        assert info.is_transactional


def test_other_control_records_end_nothing():
    for key in (None, b"", b"\0\0", b"\0\0\0\5"):
        batch = encode([Record(0, 1, key, b"")], producer_id=1, producer_epoch=0)
        assert read_marker(batch) is None

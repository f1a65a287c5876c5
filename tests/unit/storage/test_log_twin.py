"""The log against a Python list, through every operation, restart, kill and power cut."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.model.errors import OffsetGapError
from goqueue.records import Compression, Record, decode_rows, encode, stamp
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.effort import examples
from support.logs import expire
from support.oracle import Oracle, Stored, split

SEGMENT_BYTES = 700
MEMORY = Path("/dev/shm")


class Plan(NamedTuple):
    """A batch to be; short to print, unlike its bytes."""

    times: list[int]
    size: int
    compression: Compression

    def encode(self) -> bytearray:
        return encode(
            [
                Record(n, time, b"k", bytes([65 + n]) * self.size)
                for n, time in enumerate(self.times)
            ],
            compression=self.compression,
        )


plans = st.builds(
    Plan,
    st.lists(st.integers(0, 60), min_size=1, max_size=5),
    st.one_of(st.integers(0, 60), st.sampled_from([500, 620, 640, 1500])),
    st.sampled_from(Compression),
)
appends = st.lists(plans, min_size=1, max_size=4)


def join(parts: list[Plan]) -> bytearray:
    return bytearray(b"".join(bytes(part.encode()) for part in parts))


class LogMachine(RuleBasedStateMachine):
    """Every rule does the same to the log and to the oracle's list of batches."""

    @initialize(seed=st.integers(0, 1 << 32), interval=st.sampled_from([1, 200, 4096]))
    def start(self, seed: int, interval: int) -> None:
        place = MEMORY if MEMORY.is_dir() else None
        self.root = Path(tempfile.mkdtemp(dir=place, prefix="goqueue-"))
        self.disk = FaultyDisk(self.root, seed=seed)
        self.clock = ManualClock(1000)
        self.config = LogConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=interval)
        self.oracle = Oracle()
        self.epoch = 0
        self.open()

    def teardown(self) -> None:
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    def open(self) -> None:
        self.log = Log(self.root / "log", self.config, disk=self.disk, clock=self.clock)

    # --- What the list says ----------------------------------------------------------------------

    @property
    def stored(self) -> list[Stored]:
        return self.oracle.batches

    def records(self) -> list[Record]:
        return [
            record
            for item in self.stored
            for record in decode_rows(item.data)
            if record.offset >= self.log.start_offset
        ]

    def offset(self, share: float) -> int:
        """Some offset, from a little before the start to a little after the end."""
        low, high = self.log.start_offset - 3, self.log.end_offset + 3
        return max(0, low + round(share * (high - low)))

    # --- Growing ---------------------------------------------------------------------------------

    @rule(parts=appends, new_leader=st.sampled_from([0, 0, 0, 1, 3]))
    def append(self, parts: list[Plan], new_leader: int) -> None:
        data = join(parts)
        self.epoch += new_leader
        end = self.log.end_offset
        appended = self.log.append(data, self.epoch)
        self.oracle.appended(data)
        assert appended == (end, self.stored[-1].end)

    @rule(parts=appends, known=st.integers(0, 2))
    def append_replica(self, parts: list[Plan], known: int) -> None:
        data = join(parts)
        next_offset = self.log.end_offset
        for item, position in _positions(data):
            stamp(data, position, next_offset, self.epoch)
            next_offset += item.end - item.first
        first = self.log.end_offset
        again = b"".join(item.data for item in self.stored[len(self.stored) - known :])
        appended = self.log.append_replica(again + bytes(data))
        self.oracle.appended(data)
        assert appended == (first, next_offset)

    @rule(part=plans, gap=st.integers(1, 5))
    def append_replica_with_a_gap_is_refused(self, part: Plan, gap: int) -> None:
        data = part.encode()
        stamp(data, 0, self.log.end_offset + gap, self.epoch)
        with pytest.raises(OffsetGapError):
            self.log.append_replica(bytes(data))

    @rule(checkpoint=st.booleans())
    def flush(self, checkpoint: bool) -> None:
        self.log.flush(checkpoint=checkpoint)
        self.oracle.flushed = self.log.end_offset
        assert self.log.flushed_offset == self.log.end_offset

    # --- Reading ---------------------------------------------------------------------------------

    @rule(
        share=st.floats(0, 1),
        max_bytes=st.sampled_from([0, 1, 100, 400, 1000, 1 << 20]),
        until=st.none() | st.floats(0, 1),
    )
    def read(self, share: float, max_bytes: int, until: float | None) -> None:
        offset = self.offset(share)
        limit = None if until is None else self.offset(until)
        end = self.log.end_offset if limit is None else min(limit, self.log.end_offset)
        first = max(offset, self.log.start_offset)
        expected = [item for item in self.stored if item.end > first and item.end <= end]
        holder = next((item for item in self.stored if item.end > first), None)
        region = self.log.read(offset, max_bytes, until=limit)
        if first >= end or holder is None or holder.end > end:
            assert region is None
            return
        assert region is not None
        chunk = region.load()
        got = split(chunk.data)
        assert got == expected[: len(got)]
        assert got
        assert chunk.next_offset == got[-1].end
        assert len(chunk.data) <= max(max_bytes, len(got[0].data))
        left = expected[len(got) :]
        if left and left[0].first not in {segment.base_offset for segment in self.log.segments}:
            assert len(chunk.data) + len(left[0].data) > max_bytes

    @rule(time=st.integers(-2, 62))
    def find_time(self, time: int) -> None:
        expected = next((r for r in self.records() if r.timestamp_ms >= time), None)
        assert self.log.find_time(time) == (expected and (expected.offset, expected.timestamp_ms))

    @rule()
    def find_latest_time(self) -> None:
        expected = max(self.records(), key=lambda r: (r.timestamp_ms, -r.offset), default=None)
        found = self.log.find_latest_time()
        assert found == (expected and (expected.offset, expected.timestamp_ms))

    @rule(share=st.floats(0, 1))
    def where_an_epoch_ended(self, share: float) -> None:
        """The table knows the leader of every offset, as the batches say."""
        for item in self.stored:
            assert self.log.epochs.epoch_at(item.first) == _epoch(item)

    # --- Removing --------------------------------------------------------------------------------

    @rule(share=st.floats(0, 1))
    def delete_before(self, share: float) -> None:
        offset = self.offset(share)
        start = max(self.log.start_offset, min(offset, self.log.end_offset))
        assert self.log.delete_before(offset) == start
        self.oracle.deleted_before(start)
        assert not [s for s in self.log.segments.sealed if s.end_offset <= start]

    @rule(
        advance_ms=st.integers(0, 50),
        retention_ms=st.none() | st.integers(940, 1100),
        retention_bytes=st.none() | st.integers(0, 4000),
    )
    def expire(
        self, advance_ms: int, retention_ms: int | None, retention_bytes: int | None
    ) -> None:
        self.clock.advance(advance_ms)
        before = self.log.start_offset
        size = sum(s.size_bytes for s in self.log.segments if s.end_offset > before)
        expire(self.log, retention_ms=retention_ms, retention_bytes=retention_bytes)
        start = self.log.start_offset
        gone = [item for item in self.stored if item.end <= start and item.end > before]
        self.oracle.deleted_before(start)
        for item in gone:
            newest = max(record.timestamp_ms for record in decode_rows(item.data))
            old = retention_ms is not None and newest < self.clock.now_ms() - retention_ms
            assert old or retention_bytes is not None
        if retention_bytes is not None and retention_ms is None:
            assert self.log.size_bytes >= min(retention_bytes, size)
        if retention_ms is not None:
            first = next(iter(self.log.segments.sealed), None)
            limit = self.clock.now_ms() - retention_ms
            newest_ms = limit if first is None else first.newest.timestamp_ms
            assert newest_ms >= limit or newest_ms < 0

    @rule(share=st.floats(0, 1))
    def truncate_to(self, share: float) -> None:
        offset = self.offset(share)
        if offset >= self.log.end_offset:
            expected = self.log.end_offset
        elif offset <= self.log.start_offset:
            expected = offset
        else:
            cut = next((item.first for item in self.stored if item.end > offset), offset)
            expected = min(offset, cut)
        assert self.log.truncate_to(offset) == expected
        self.oracle.truncated_to(expected)
        self.oracle.start = self.log.start_offset
        self.epoch = max(self.epoch, self.log.epochs.latest)

    # --- Stopping --------------------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        self.log.close()
        self.disk.kill()
        self.open()
        assert self.log.recovery.clean
        assert self.log.recovery.scanned_bytes == 0
        assert (self.log.start_offset, self.log.end_offset) == (start, end)
        self.oracle.flushed = self.log.end_offset

    @rule()
    def kill(self) -> None:
        """Everything appended is there: the page cache outlives the process."""
        start, end = self.log.start_offset, self.log.end_offset
        self.disk.kill()
        self.open()
        assert self.log.recovery.clean
        assert (self.log.start_offset, self.log.end_offset) == (start, end)

    @rule()
    def cut_the_power(self) -> None:
        """Everything flushed is there, under its own offset; of the rest, what is there is true."""
        start = self.log.start_offset
        self.disk.crash()
        self.open()
        assert self.log.start_offset == start
        self.oracle.judge(self.log, promised_end=self.oracle.flushed)
        self.oracle.adopt(self.log)
        self.cut_at_the_first_hole()

    def cut_at_the_first_hole(self) -> None:
        """What was not flushed may be gone here and there; the list knows no holes."""
        expected = self.log.start_offset
        for item in self.stored:
            if item.first > expected:
                break
            expected = item.end
        if expected < self.log.end_offset:
            assert self.log.truncate_to(expected) == expected
            self.oracle.adopt(self.log)

    @precondition(lambda self: self.log.end_offset > 0)
    @rule(name=st.sampled_from(["log.checkpoint", ".index", ".timeindex"]), pick=st.randoms())
    def lose_a_file_that_can_be_made_again(self, name: str, pick: object) -> None:
        whole = [s.base_offset for s in self.log.segments][:1] == [self.log.start_offset]
        self.log.close()
        self.disk.kill()
        paths = sorted(p for p in (self.root / "log").iterdir() if p.name.endswith(name))
        if name == "log.checkpoint" and not whole:
            paths = []  # where the log starts is only known to the checkpoint
        if paths:
            pick.choice(paths).unlink()  # type: ignore[attr-defined]  # a random.Random
        self.disk.settle()
        self.open()
        self.oracle.flushed = self.log.end_offset

    @invariant()
    def nothing_contradicts_itself(self) -> None:
        if not hasattr(self, "log"):
            return
        self.log.check_invariants()
        assert self.log.end_offset >= self.oracle.end
        assert self.log.flushed_offset <= self.log.end_offset


def _positions(data: bytearray) -> list[tuple[Stored, int]]:
    items = split(data)
    starts = [sum(len(item.data) for item in items[:number]) for number in range(len(items))]
    return list(zip(items, starts, strict=True))


def _epoch(item: Stored) -> int:
    return int.from_bytes(item.data[12:16], "big", signed=True)


LogMachine.TestCase.settings = settings(
    max_examples=examples(150),
    stateful_step_count=40,
    deadline=None,
    phases=[phase for phase in Phase if phase is not Phase.explain],  # it makes a failure slow
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestLogTwin = LogMachine.TestCase


def test_files_that_a_power_cut_brings_back_keep_nothing_from_expiring():
    machine = LogMachine()
    machine.start(seed=95, interval=1)
    none = Compression.NONE
    machine.append(new_leader=0, parts=[Plan([0, 0], 50, none), Plan([0, 0, 41], 41, none)])
    machine.restart()
    machine.append(new_leader=0, parts=[Plan([0, 0], 47, none)])
    machine.cut_the_power()
    machine.append(new_leader=0, parts=[Plan([0], 0, none), Plan([0, 0], 0, none)])
    machine.expire(advance_ms=0, retention_bytes=0, retention_ms=None)
    machine.cut_the_power()
    assert machine.log.segments.sealed, "the file that was removed is there again"
    machine.expire(advance_ms=0, retention_bytes=None, retention_ms=959)
    machine.teardown()

"""Any log, compacted in any way while it is written, cut and reopened, against a dumb twin."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from goqueue.records import CONTROL, TRANSACTIONAL, Compression, Record, decode_rows
from goqueue.storage.compaction.compaction import DAY_MS, Compaction
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from goqueue.storage.lookup import TimestampHit
from goqueue.storage.scan import Damage
from support.effort import examples
from unit.storage.compaction_twin import Draft, Twin, stored_batches

NOW = 1_700_000_000_000

keys = st.none() | st.sampled_from([b"", b"a", b"b", b"c", b"d", b"e"])
values = st.none() | st.binary(max_size=6) | st.just(b"x" * 80)
rows = st.tuples(keys, values, st.integers(0, 60))
flags = st.sampled_from([0, 0, TRANSACTIONAL])


class CompactedLog(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.sampled_from([1, 250, 700, 100_000]),
        index_bytes=st.sampled_from([1, 150, 4096]),
    )
    def begin(self, segment_bytes: int, index_bytes: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=index_bytes)
        self.log = Log(self.folder, self.config)
        self.twin = Twin()
        self.now_ms = NOW
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.pending: Compaction | None = None
        self.met: dict[int, int] = {}
        """When a pass first may have met a tombstone, by its offset."""
        self.expired: set[int] = set()
        self.due: dict[int, int] = {}
        """When a pass has certainly met a tombstone."""

    # --- Writing ---------------------------------------------------------------------------------

    @rule(
        batch=st.lists(rows, min_size=1, max_size=4),
        compression=st.sampled_from(Compression),
        flags=flags,
        producer=st.sampled_from([-1, -1, 1, 2]),
        abort=st.booleans(),
        new_epoch=st.sampled_from([False, False, False, True]),
    )
    def append(
        self,
        *,
        batch: list[Any],
        compression: Compression,
        flags: int,
        producer: int,
        abort: bool,
        new_epoch: bool,
    ) -> None:
        self.epoch += new_epoch
        identity = -1, -1, -1
        if producer >= 0 or flags:
            producer = max(producer, 1)
            identity = producer, 0, self.sequences.get(producer, 0)
            self.sequences[producer] = identity[2] + len(batch)
        draft = Draft(tuple(batch), compression, flags, identity, self.epoch)
        self.twin.append(self.log, draft, abort=bool(flags) and abort)

    @rule(producer=st.sampled_from([1, 2]))
    def mark(self, producer: int) -> None:
        marker = ((b"\0\0\0\1", b"\0\0\0\0\0\0", 30),)
        draft = Draft(
            marker, Compression.NONE, CONTROL | TRANSACTIONAL, (producer, 0, -1), self.epoch
        )
        self.twin.append(self.log, draft)

    @precondition(lambda self: self.log.size_bytes)
    @rule()
    def roll(self) -> None:
        active = self.log.segments.active
        if active is not None and active.size_bytes:
            self.log.store.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush(checkpoint=True)

    # --- Removing --------------------------------------------------------------------------------

    @rule(part=st.floats(0, 1))
    def delete_before(self, part: float) -> None:
        span = self.log.end_offset - self.log.start_offset
        self.log.delete_before(self.log.start_offset + int(span * part / 2))

    @rule(part=st.floats(0.5, 1))
    def cut(self, part: float) -> None:
        start = self.log.start_offset
        end = self.log.truncate_to(start + int((self.log.end_offset - start) * part))
        self.twin.adopt(self.log)
        for moments in (self.met, self.due):
            for offset in [offset for offset in moments if offset >= end]:
                del moments[offset]
        self.expired = {offset for offset in self.expired if offset < end}

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        if clean:
            self.log.close()
        self.pending = None
        self.log = Log(self.folder, self.config)
        assert self.log.recovery.clean, self.log.recovery
        left = [path.name for path in self.folder.iterdir()]
        assert not any(name.endswith((".cleaned", ".swap", ".tmp")) for name in left)

    # --- Compacting ------------------------------------------------------------------------------

    def tombstones(self, below: int) -> list[int]:
        return [
            record.offset
            for record in self.twin.records
            if record.key is not None and record.value is None and record.offset < below
        ]

    def build(self, **bounds: Any) -> Compaction:
        compaction = Compaction(self.log, self.now_ms, aborted=self.twin.is_aborted, **bounds)
        compaction.build()
        for offset in self.tombstones(self.log.end_offset):
            met = self.met.setdefault(offset, self.now_ms)
            if self.now_ms >= met + DAY_MS:
                self.expired.add(offset)
        return compaction

    @precondition(lambda self: self.pending is None)
    @rule(hours=st.sampled_from([0, 1, 23, 24]), same_config=st.booleans())
    def compact(self, hours: int, same_config: bool) -> None:
        self.now_ms += hours * 3_600_000
        if not same_config:
            self.log.configure(LogConfig(100_000, index_interval_bytes=1))
        counts = self.sealed_figures()
        compaction = self.build()
        stats = compaction.install()
        assert (stats.records_before, stats.bytes_before) == counts
        assert (stats.records_after, stats.bytes_after) == self.sealed_figures()
        sealed_end = self.log.segments.sealed[-1].end_offset if self.log.segments.sealed else 0
        assert self.log.store.checkpoint.clean_below >= sealed_end
        self.expect_tombstones_gone(sealed_end)
        self.log.configure(self.config)

    def expect_tombstones_gone(self, sealed_end: int) -> None:
        found = {
            record.offset for _, data in stored_batches(self.log) for record in decode_rows(data)
        }
        for offset in self.tombstones(sealed_end):
            due = self.due.setdefault(offset, self.now_ms + DAY_MS)
            if self.now_ms >= due:
                assert offset not in found, f"the tombstone at {offset} is still there"

    def sealed_figures(self) -> tuple[int, int]:
        records = size_bytes = 0
        for segment in self.log.segments.sealed:
            size_bytes += segment.size_bytes
            for item in segment.walk(self.log.store.context):
                assert not isinstance(item, Damage)
                records += 0 if item.info.is_control else item.info.count
        return records, size_bytes

    @precondition(lambda self: self.pending is None)
    @rule(
        max_keys=st.sampled_from([1, 2, 4, 1000]),
        until=st.none() | st.floats(0, 1),
        hours=st.sampled_from([0, 24]),
    )
    def build_only(self, max_keys: int, until: float | None, hours: int) -> None:
        self.now_ms += hours * 3_600_000
        stop = None if until is None else int(self.log.end_offset * until)
        self.pending = self.build(max_keys=max_keys, until=stop)

    @precondition(lambda self: self.pending is not None)
    @rule()
    def install(self) -> None:
        assert self.pending is not None
        before = self.log.store.checkpoint.clean_below
        self.pending.install()
        self.pending = None
        assert self.log.store.checkpoint.clean_below >= before

    # --- Judging ---------------------------------------------------------------------------------

    @invariant()
    def everything_that_must_be_there_is(self) -> None:
        self.twin.judge(self.log, expired=frozenset(self.expired))

    @invariant()
    def reads_find_what_is_left(self) -> None:
        log = self.log
        infos = [info for info, _ in stored_batches(log)]
        for offset in range(log.start_offset, log.end_offset):
            expected = next((i.base_offset for i in infos if i.last_offset >= offset), None)
            region = log.read(offset, 1)
            assert (region.first_offset if region else None) == expected

    @invariant()
    def times_find_what_is_left(self) -> None:
        log = self.log
        left = [
            record
            for _, data in stored_batches(log)
            for record in decode_rows(data)
            if record.offset >= log.start_offset
        ]
        for moment in (0, 20, 30, 31, 59, 61):
            first = next((r for r in left if r.timestamp_ms >= moment), None)
            assert log.find_time(moment) == _hit(first)
        latest = max(left, key=lambda r: (r.timestamp_ms, -r.offset), default=None)
        assert log.find_latest_time() == _hit(latest)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


def _hit(record: Record | None) -> TimestampHit | None:
    return None if record is None else TimestampHit(record.offset, record.timestamp_ms)


TestCompactedLog = CompactedLog.TestCase
TestCompactedLog.settings = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

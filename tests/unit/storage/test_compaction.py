"""Compaction, one promise at a time."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from crc32c import crc32c

from goqueue.model.errors import (
    CompactionCancelledError,
    DamagedRangeError,
    DiskError,
    LogFailedError,
)
from goqueue.records import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Compression,
    Record,
    decode_rows,
    encode,
)
from goqueue.storage import lookup
from goqueue.storage.compaction.cleanable import dirty_ratio
from goqueue.storage.compaction.compaction import DAY_MS, Compaction, compact
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.logs import expire
from unit.storage.compaction_twin import Draft, Twin, stored_batches, stored_records

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=1, index_interval_bytes=1)
"""Every batch is a segment of its own; nothing merges."""
ROOMY = LogConfig(segment_bytes=100_000, index_interval_bytes=64)


def put(log: Log, *rows: tuple[bytes | None, bytes | None], **rest: object) -> int:
    """Append one batch; returns its first offset."""
    stamped = tuple((key, value, 1000 + log.end_offset + n) for n, (key, value) in enumerate(rows))
    return Twin().append(log, Draft(stamped, **rest))  # type: ignore[arg-type]  # fields of a Draft


def seal(log: Log) -> None:
    """Close the active segment, so that compaction may look at it."""
    log.store.roll()


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in stored_records(log)]


def names(log: Log) -> list[str]:
    return sorted(path.name for path in log.folder.iterdir())


def crashed(log: Log, config: LogConfig = ROOMY) -> Log:
    """The log as a process that took over after a kill finds it."""
    return Log(log.folder, config)


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


# --- What stays and what goes -------------------------------------------------------------------


def test_the_newest_value_of_each_key_stays_at_its_offset(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"b", b"2"), (b"c", b"1"))
    seal(log)
    put(log, (b"c", b"2"))
    stats = compact(log, NOW)
    assert contents(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1"), (5, b"c", b"2")]
    assert (stats.records_before, stats.records_after, stats.unique_keys) == (5, 3, 3)
    assert stats.bytes_after == log.segments.sealed[0].size_bytes < stats.bytes_before
    assert stats.dirty_ratio == 1.0
    assert stats.duration_s > 0
    assert dirty_ratio(log) == 0.0
    log.check_invariants()


def test_records_without_a_key_are_never_merged(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (None, b"1"), (None, b"1"), (None, None))
    put(log, (None, b"1"))
    seal(log)
    compact(log, NOW)
    compact(log, NOW + 2 * DAY_MS)
    assert [offset for offset, _, _ in contents(log)] == [0, 1, 2, 3]


def test_an_empty_key_is_a_key(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"", b"1"), (b"", b"2"))
    seal(log)
    compact(log, NOW)
    assert contents(log) == [(1, b"", b"2")]


def test_a_batch_that_survives_whole_keeps_its_bytes(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    for codec in Compression:
        put(log, (b"%d" % codec, b"x" * 50), compression=codec)
    before = stored_batches(log)
    seal(log)
    compact(log, NOW)
    assert stored_batches(log) == before


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_that_shrinks_keeps_everything_else_of_its_header(
    tmp_path: Path, codec: Compression
) -> None:
    log = Log(tmp_path, ROOMY)
    rows = (b"a", b"1"), (b"b", b"x" * 90), (b"a", b"2"), (b"c", b"3"), (b"c", b"4")
    put(log, *rows, compression=codec, producer=(7, 3, 20), attributes=TRANSACTIONAL, epoch=5)
    put(log, (b"c", b"5"), epoch=5)
    (before, _), _ = stored_batches(log)
    seal(log)
    compact(log, NOW)
    after, data = stored_batches(log)[0]
    different = {"length", "crc", "count", "max_timestamp"}
    assert {name for name in before._fields if getattr(before, name) != getattr(after, name)} == (
        different
    )
    assert after.max_timestamp == 1002
    assert [record.offset for record in decode_rows(data)] == [1, 2]


def test_control_batches_stay(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    marker = Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\0")
    for _ in range(3):
        log.append(encode([marker], attributes=CONTROL | TRANSACTIONAL, producer_id=9))
    seal(log)
    stats = compact(log, NOW)
    assert [info.base_offset for info, _ in stored_batches(log)] == [0, 1, 2]
    assert (stats.records_before, stats.unique_keys) == (0, 0)


def test_aborted_records_go_and_replace_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"kept"))
    put(log, (b"a", b"aborted"), attributes=TRANSACTIONAL, producer=(1, 0, 0))
    put(log, (b"b", b"committed"), attributes=TRANSACTIONAL, producer=(1, 0, 1))
    seal(log)
    compaction = Compaction(log, NOW, aborted=lambda info: info.base_offset == 1)
    compaction.build()
    compaction.install()
    assert contents(log) == [(0, b"a", b"kept"), (2, b"b", b"committed")]


def test_only_transactional_batches_are_asked_about_aborts(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"))
    seal(log)
    compaction = Compaction(log, NOW, aborted=lambda _: True)
    compaction.build()
    compaction.install()
    assert contents(log) == [(0, b"a", b"1")]


def test_segments_that_reach_past_until_are_left_alone(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for value in (b"1", b"2", b"3", b"4"):
        put(log, (b"a", value))
    compaction = Compaction(log, NOW, until=2)
    compaction.build()
    compaction.install()
    assert contents(log) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]
    assert log.store.checkpoint.clean_below == 2


def test_a_batch_whose_records_do_not_parse_stays_as_it_is(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    odd = encode([Record(0, 1, b"a", b"x" * 20)])
    odd[-1] = 0xFF  # where the count of the headers was
    odd[17:21] = crc32c(memoryview(odd)[21:]).to_bytes(4, "big")
    put(log, (b"b", b"1"))
    log.append(odd)
    put(log, (b"b", b"2"))
    seal(log)
    stats = compact(log, NOW)
    assert [info.base_offset for info, _ in stored_batches(log)] == [1, 2]
    assert (stats.records_before, stats.records_after) == (3, 2)


# --- Tombstones ---------------------------------------------------------------------------------


def test_tombstones_stay_for_a_day_after_the_first_pass_and_then_go(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"b", b"2"))
    seal(log)
    written = stored_records(log)
    compact(log, NOW)
    assert contents(log) == [(2, b"a", None), (3, b"b", b"2")]
    assert stored_records(log) == written[2:], "timestamps are the records' own"
    info, data = stored_batches(log)[-1]
    assert info.has_delete_horizon
    assert info.base_timestamp == NOW + DAY_MS
    put(log, (b"z", b"1"))
    seal(log)
    early = compact(log, NOW + DAY_MS - 1)
    assert early.tombstones_removed == 0
    assert stored_batches(log)[0] == (info, data), "a second pass does not start a new day"
    late = compact(log, NOW + DAY_MS)
    assert late.tombstones_removed == 1
    assert contents(log) == [(3, b"b", b"2"), (4, b"z", b"1")]


def test_a_tombstone_that_was_replaced_goes_at_once(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", None), (b"a", b"again"))
    seal(log)
    stats = compact(log, NOW)
    assert contents(log) == [(1, b"a", b"again")]
    assert stats.tombstones_removed == 0


def test_the_time_of_the_append_survives_a_delete_horizon(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    records = [Record(0, 0, b"a", None), Record(1, 0, b"b", b"1"), Record(2, 0, b"b", b"2")]
    log.append(encode(records, attributes=LOG_APPEND_TIME, max_timestamp=5000))
    seal(log)
    compact(log, NOW)
    assert [record.timestamp_ms for record in stored_records(log)] == [5000, 5000]
    assert stored_batches(log)[0][0].attributes & (DELETE_HORIZON | LOG_APPEND_TIME)


def test_a_tombstone_beyond_the_keys_of_a_pass_does_not_start_its_day(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"gone", b"old"))
    put(log, (b"k1", b"1"))
    put(log, (b"k2", b"1"))
    put(log, (b"gone", None))
    seal(log)
    for days in range(3):
        compaction = Compaction(log, NOW + days * DAY_MS, max_keys=1)
        compaction.build()
        compaction.install()
        assert (3, b"gone", None) in contents(log), "the value would come back to life"
    compact(log, NOW + 3 * DAY_MS)
    assert contents(log) == [(1, b"k1", b"1"), (2, b"k2", b"1"), (3, b"gone", None)]


# --- Producers ----------------------------------------------------------------------------------


def producers(log: Log) -> list[tuple[int, int, int, int]]:
    return [
        (info.base_offset, info.producer_id, info.base_sequence, info.count)
        for info, _ in stored_batches(log)
        if not info.is_control
    ]


def test_the_last_batch_of_a_producer_stays_without_its_records(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"), producer=(7, 0, 10))
    put(log, (b"a", b"2"), (b"a", b"3"), producer=(7, 0, 11))
    put(log, (b"a", b"4"))
    seal(log)
    for _ in range(3):
        compact(log, NOW)
        assert producers(log) == [(1, 7, 11, 0), (3, -1, -1, 1)]
    info, _ = stored_batches(log)[0]
    assert info.last_offset_delta == 1


def test_the_last_batch_of_a_replica_stays_so_that_a_copy_reaches_the_end(tmp_path: Path) -> None:
    """The segment behind it is empty: it was begun when the one before had become too old."""
    log = Log(tmp_path / "leader", ROOMY, is_replica=True)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"b", None))
    seal(log)
    for days in range(3):
        compact(log, NOW + days * DAY_MS)
    assert contents(log) == []
    copy = Log(tmp_path / "follower", ROOMY, is_replica=True)
    for chunk in log.chunks(0):
        copy.append_replica(chunk.data, gaps=True)
    assert copy.end_offset == log.end_offset == 4
    put(log, (b"c", b"1"))
    seal(log)
    compact(log, NOW + 4 * DAY_MS)
    assert [info.base_offset for info, _ in stored_batches(log)] == [4]


def test_the_last_batch_of_a_producer_stays_in_later_passes(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"), producer=(7, 0, 10))
    seal(log)
    compact(log, NOW)
    put(log, (b"a", b"2"))
    seal(log)
    compact(log, NOW)
    assert producers(log) == [(0, 7, 10, 0), (1, -1, -1, 1)]


def test_a_transaction_marker_is_not_the_last_batch_of_its_producer(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"), producer=(7, 0, 10), attributes=TRANSACTIONAL)
    marker = Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\0")
    log.append(encode([marker], attributes=CONTROL | TRANSACTIONAL, producer_id=7))
    put(log, (b"a", b"2"))
    seal(log)
    compact(log, NOW)
    assert producers(log)[0] == (0, 7, 10, 0)


def test_an_empty_batch_goes_once_its_producer_has_sent_more(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"), producer=(7, 0, 10))
    put(log, (b"a", b"2"))
    seal(log)
    compact(log, NOW)
    put(log, (b"b", b"1"), producer=(7, 0, 11))
    seal(log)
    compact(log, NOW)
    assert producers(log) == [(1, -1, -1, 1), (2, 7, 11, 1)]


# --- The bound on keys --------------------------------------------------------------------------


def test_passes_go_on_where_the_keys_ran_out(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    for turn in range(2):
        for number in range(6):
            put(log, (b"k%d" % number, b"%d" % turn))
    seal(log)
    reached = []
    for _ in range(8):
        compaction = Compaction(log, NOW, max_keys=2)
        compaction.build()
        compaction.install()
        reached.append(log.store.checkpoint.clean_below)
    assert reached == sorted(reached)
    assert reached[-1] == 12
    assert contents(log) == [(6 + n, b"k%d" % n, b"1") for n in range(6)]
    assert crashed(log).recovery.clean


def test_a_gap_right_before_the_end_of_a_pass_is_no_damage(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"0"), (b"b", b"0"), (b"b", b"1"))
    put(log, (b"c", b"aborted"), attributes=TRANSACTIONAL)
    put(log, (b"c", b"3"))
    put(log, (b"d", b"4"))
    seal(log)
    compaction = Compaction(log, NOW, max_keys=3, aborted=lambda _: True)
    compaction.build()
    compaction.install()
    for again in (log, crashed(log)):
        assert again.store.checkpoint.clean_below in {4, 5}
        region = again.read(3, 1000)
        assert region is not None
        assert region.first_offset == 4
        assert [record.offset for record in stored_records(again)] == [0, 2, 4, 5]


# --- Reading meanwhile and afterwards -----------------------------------------------------------


def test_reads_by_offset_skip_the_gaps(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for number in range(6):
        put(log, (b"k%d" % (number % 2), b"%d" % number))
    compact(log, NOW)
    for again in (log, crashed(log, SMALL)):
        for offset, expected in enumerate([3, 3, 3, 3, 4, 5]):
            region = again.read(offset, 1)
            assert region is not None
            assert region.first_offset == expected, offset
        assert again.read(6, 1) is None


def test_a_region_found_before_is_readable_after(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"))
    seal(log)
    put(log, (b"a", b"2"))
    seal(log)
    regions = [log.read(0, 1000), log.read(1, 1000)]
    before = [region.load() for region in regions if region is not None]
    compact(log, NOW)
    assert [region.load() for region in regions if region is not None] == before
    assert contents(log) == [(1, b"a", b"2")]


def test_times_are_those_of_the_records_that_are_left(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    log.append(encode([Record(0, 900, b"a", b"1"), Record(1, 300, b"b", b"1")]))
    log.append(encode([Record(0, 700, b"a", b"2")]))
    log.append(encode([Record(0, 600, b"c", b"1")]))
    seal(log)
    compact(log, NOW)
    for again in (log, crashed(log)):
        assert again.find_latest_time() == (2, 700)
        assert again.find_time(500) == (2, 700)
        assert again.find_time(701) is None
        assert again.find_time(0) == (1, 300)


def test_an_empty_batch_has_no_time_that_could_be_found(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    log.append(encode([Record(0, 900, b"a", b"1")], producer_id=4, base_sequence=0))
    log.append(encode([Record(0, 700, b"b", b"1")]))
    log.append(encode([Record(0, 500, b"a", b"2")]))
    log.append(encode([Record(0, 100, b"c", b"2")]))
    compact(log, NOW)
    assert producers(log)[0] == (0, 4, 0, 0)
    for again in (log, crashed(log, SMALL)):
        assert again.find_latest_time() == (1, 700)
        assert again.find_time(800) is None


def test_a_log_of_which_nothing_sealed_is_left_reads_on(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    put(log, (b"b", b"1"))
    compact(log, NOW)
    compact(log, NOW + DAY_MS)
    assert sum(segment.size_bytes for segment in log.segments.sealed) == 0
    for again in (log, crashed(log, SMALL)):
        assert contents(again) == [(2, b"b", b"1")]
        assert again.find_time(0) == (2, 1002)
    put(log, (b"b", b"2"))
    compact(log, NOW + DAY_MS)
    assert contents(log) == [(2, b"b", b"1"), (3, b"b", b"2")]
    assert len(log.segments.sealed) == 1, "empty segments merge with what follows"


def test_small_neighbours_merge_into_one_segment(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for number in range(6):
        put(log, (b"k%d" % number, b"v"))
    log.configure(ROOMY)
    compact(log, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 5]
    assert names(log)[:3] == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
    ]
    assert sum(name.endswith(".log") for name in names(log)) == 2
    assert not any("cleaned" in name or "swap" in name for name in names(log))
    assert [offset for offset, _, _ in contents(crashed(log))] == list(range(6))


def test_a_lost_checkpoint_does_not_turn_gaps_into_damage(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for number in range(8):
        put(log, (b"k%d" % (number // 3), b"%d" % number))
    log.configure(LogConfig(segment_bytes=300))
    compact(log, NOW)
    left = contents(log)
    log.flush()
    (tmp_path / "log.checkpoint").unlink()
    again = crashed(log, SMALL)
    assert again.recovery.damage == []
    assert contents(again) == left
    for offset in range(8):
        assert again.read(offset, 1) is not None


# --- What happens between building and installing -----------------------------------------------


def test_appends_between_the_halves_stay(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for value in (b"1", b"2", b"3"):
        put(log, (b"a", value))
    compaction = Compaction(log, NOW)
    compaction.build()
    put(log, (b"a", b"4"))
    put(log, (b"b", b"5"))
    compaction.install()
    assert contents(log) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4"), (4, b"b", b"5")]
    compact(log, NOW)
    assert contents(log) == [(3, b"a", b"4"), (4, b"b", b"5")]


def test_segments_that_were_deleted_meanwhile_do_not_come_back(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for value in range(5):
        put(log, (b"k%d" % value, b"v"))
    compaction = Compaction(log, NOW)
    compaction.build()
    log.delete_before(2)
    compaction.install()
    assert [offset for offset, _, _ in contents(log)] == [2, 3, 4]
    assert log.store.checkpoint.clean_below == 4
    assert not any("cleaned" in name for name in names(log))
    assert log.segments.sealed[0].base_offset == 2


def test_a_group_of_which_retention_took_a_part_is_done_by_the_next_pass(tmp_path: Path) -> None:
    clock = ManualClock(10_000)
    log = Log(tmp_path, SMALL, clock=clock)
    put(log, (b"x", b"expires"))
    put(log, (b"a", b"old"), (b"k", b"v"))
    put(log, (b"a", None), (b"l", b"v"))
    put(log, (b"m", b"v"))
    log.configure(ROOMY)
    compaction = Compaction(log, NOW)
    compaction.build()
    clock.advance(1)
    assert expire(log, retention_bytes=log.size_bytes - log.segments.sealed[0].size_bytes) == 1
    stats = compaction.install()
    assert (stats.records_before, stats.bytes_before) == (0, 0), "nothing was done"
    assert (1, b"a", b"old") in contents(log)
    for days in range(3):
        compact(log, NOW + days * DAY_MS)
        assert (1, b"a", b"old") not in contents(log)
    assert contents(log) == [(2, b"k", b"v"), (4, b"l", b"v"), (5, b"m", b"v")]


def test_copies_behind_one_that_came_too_late_wait_as_well(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for number in range(3):
        put(log, (b"k%d" % number, b"v"))
    put(log, (b"k2", None))
    put(log, (b"z", b"v"))
    compact(log, NOW)
    log.configure(LogConfig(segment_bytes=2 * log.segments.sealed[0].size_bytes))
    late = Compaction(log, NOW + DAY_MS)
    late.build()
    log.delete_before(1)
    late.install()
    assert (3, b"k2", None) in contents(log)
    compact(log, NOW + DAY_MS)
    assert contents(log) == [(1, b"k1", b"v"), (4, b"z", b"v")]


def test_a_log_that_was_closed_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for value in (b"1", b"2", b"3"):
        put(log, (b"a", value))
    compaction = Compaction(log, NOW)
    compaction.build()
    log.close()
    compaction.install()
    again = crashed(log, SMALL)
    assert again.store.checkpoint.clean_below == 0
    assert len(contents(again)) == 3
    assert not any("cleaned" in name for name in names(log))


def test_a_pass_that_is_called_off_leaves_the_log_and_no_leftovers(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for value in (b"1", b"2", b"3"):
        put(log, (b"a", value))
    before = names(log), contents(log)
    compaction = Compaction(log, NOW)
    compaction.cancel()
    with pytest.raises(CompactionCancelledError):
        compaction.build()
    assert (names(log), contents(log)) == before
    assert log.store.checkpoint.clean_below == 0


def test_a_log_that_was_cut_meanwhile_is_compacted_anew(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for value in (b"1", b"2", b"3", b"4"):
        put(log, (b"a", value))
    compaction = Compaction(log, NOW)
    compaction.build()
    log.truncate_to(2)
    compaction.install()
    assert [offset for offset, _, _ in contents(log)] == [0, 1]
    put(log, (b"a", b"new 3"))
    put(log, (b"a", b"new 4"))
    compact(log, NOW)
    assert contents(log) == [(2, b"a", b"new 3"), (3, b"a", b"new 4")]


@pytest.mark.parametrize("hurt", [False, True])
def test_a_pass_with_nothing_to_install_does_not_call_a_cut_log_clean(
    tmp_path: Path, hurt: bool
) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"))
    put(log, (b"b", b"1"))
    seal(log)
    if hurt:
        log.close()
        flip(tmp_path / f"{0:020d}.log", -1)
        log = Log(tmp_path, ROOMY)
    else:
        compact(log, NOW)
    compaction = Compaction(log, NOW, until=None if hurt else 0)
    compaction.build()
    log.truncate_to(1)
    put(log, (b"a", b"2"))
    compaction.install()
    assert log.store.checkpoint.clean_below <= 1


@pytest.mark.parametrize("killed", [False, True])
def test_what_is_written_after_a_cut_is_not_clean(tmp_path: Path, killed: bool) -> None:
    log = Log(tmp_path, SMALL)
    for number in range(4):
        put(log, (b"k%d" % number, b"v"))
    compact(log, NOW)
    log.truncate_to(1)
    for value in (b"1", b"2", b"3"):
        put(log, (b"k0", value))
    if killed:
        log = crashed(log, SMALL)
    compact(log, NOW)
    assert contents(log) == [(2, b"k0", b"2"), (3, b"k0", b"3")]


# --- Damage -------------------------------------------------------------------------------------


def test_a_damaged_segment_is_left_alone_and_its_neighbours_are_cleaned(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for number in range(6):
        put(log, (b"k%d" % (number % 2), b"%d" % number))
    log.close()
    hurt = tmp_path / f"{2:020d}.log"
    flip(hurt, 65)
    before = hurt.read_bytes()
    log = Log(tmp_path, SMALL)
    compact(log, NOW)
    assert hurt.read_bytes() == before
    with pytest.raises(DamagedRangeError):
        log.read(2, 1).load()
    assert contents(log) == [(3, b"k1", b"3"), (4, b"k0", b"4"), (5, b"k1", b"5")]


def test_no_tombstone_goes_while_damage_may_hide_what_it_deletes(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"alive"), (b"x", b"1"))
    put(log, (b"y", b"1"))
    seal(log)
    put(log, (b"a", None))
    seal(log)
    put(log, (b"z", b"1"))
    log.close()
    flip(tmp_path / f"{0:020d}.log", -1)
    log = Log(tmp_path, SMALL)
    for days in range(3):
        compact(log, NOW + days * DAY_MS)
        assert (0, b"a", b"alive") in contents(log)
        assert (3, b"a", None) in contents(log), "the deleted value would come back to life"


def test_records_deleted_below_the_start_do_not_stop_a_pass(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"1"), epoch=1)
    put(log, (b"a", b"2"), epoch=2)
    put(log, (b"a", b"3"), epoch=2)
    seal(log)
    put(log, (b"b", b"1"), epoch=2)
    log.delete_before(2)
    stats = compact(log, NOW)
    assert stats.records_before == 3
    assert contents(log) == [(2, b"a", b"3"), (3, b"b", b"1")]


# --- The disk refuses ---------------------------------------------------------------------------


def test_a_full_disk_while_building_leaves_the_log_and_no_leftovers(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    log = Log(tmp_path / "log", SMALL, disk=disk)
    for value in (b"1", b"2", b"3"):
        put(log, (b"a", value))
    before = names(log), contents(log)
    disk.fail_next("write", errno.ENOSPC, ending=".cleaned", skip=2)
    with pytest.raises(DiskError):
        compact(log, NOW)
    assert (names(log), contents(log)) == before
    assert log.failure is None
    compact(log, NOW)
    assert contents(log) == [(1, b"a", b"2"), (2, b"a", b"3")]


@pytest.mark.parametrize("operation", ["rename", "remove", "sync_folder"])
@pytest.mark.parametrize("skip", range(6))
def test_a_refused_step_of_the_installation_is_made_good_by_recovery(
    tmp_path: Path, operation: str, skip: int
) -> None:
    disk = FaultyDisk(tmp_path)
    log = Log(tmp_path / "log", SMALL, disk=disk)
    for number in range(5):
        put(log, (b"k%d" % (number % 2), b"%d" % number))
    log.configure(ROOMY)
    compaction = Compaction(log, NOW)
    compaction.build()
    fault = disk.fail_next(operation, skip=skip)
    try:
        compaction.install()
    except DiskError:
        with pytest.raises(LogFailedError):
            put(log, (b"b", b"refused"))
        with pytest.raises(LogFailedError):
            compact(log, NOW)
        log.recover()
    else:
        assert fault.times == 1, "an error was swallowed"
        disk.faults.clear()
    put(log, (b"c", b"5"))
    compact(log, NOW)
    assert contents(log)[-3:] == [(3, b"k1", b"3"), (4, b"k0", b"4"), (5, b"c", b"5")]
    assert {record.key: record.value for record in stored_records(log)}[b"k1"] == b"3"
    assert not any("swap" in name or "cleaned" in name for name in names(log))


def test_a_checkpoint_inside_a_segment_that_was_replaced_misleads_nobody(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    for number in range(9):
        put(log, (b"k%d" % number, b"v" * number))
    log.flush(checkpoint=True)
    put(log, (b"k2", b"again"))
    put(log, (b"k3", b"again"))
    seal(log)
    put(log, (b"tail", b"v"))
    compact(log, NOW)
    left = contents(log)
    again = crashed(log)
    assert again.recovery.damage == []
    assert again.recovery.clean
    assert contents(again) == left
    assert again.find_time(0) == (0, 1000)


def test_a_search_that_began_before_the_installation_reads_the_old_files(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    put(log, (b"a", b"." * 500))
    put(log, (b"b", b"1"))
    put(log, (b"a", b"2"))
    seal(log)
    put(log, (b"c", b"1"))
    log.close()
    log = Log(tmp_path, ROOMY)
    before, context = log.segments, log.store.context  # as a thread has them that has read nothing
    compaction = Compaction(log, NOW)
    compaction.build()
    for segment in before.sealed:
        segment.rest()
    compaction.install()
    assert contents(log)[0] == (1, b"b", b"1")
    region = lookup.find_region(before, 1, log.end_offset, 1, context)
    assert region is not None
    assert [record.key for record in decode_rows(region.load().data)] == [b"b"]
    assert lookup.find_time(before, 0, 0, context) == lookup.TimestampHit(0, 1000)


def test_the_log_is_used_between_the_steps_of_an_installation(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for number in range(6):
        put(log, (b"k%d" % (number % 3), b"%d" % number))
    compaction = Compaction(log, NOW)
    compaction.build()
    steps = compaction.steps()
    next(steps)()
    work = next(steps)  # the first copy is in place
    assert put(log, (b"new", b"1")) == 6
    log.delete_before(3)  # one that is installed, and two that are not
    assert contents(log) == [
        (3, b"k0", b"3"),
        (4, b"k1", b"4"),
        (5, b"k2", b"5"),
        (6, b"new", b"1"),
    ]
    work()
    for work in steps:
        work()
    assert contents(log) == [
        (3, b"k0", b"3"),
        (4, b"k1", b"4"),
        (5, b"k2", b"5"),
        (6, b"new", b"1"),
    ]
    assert not [name for name in names(log) if "cleaned" in name]
    log.check_invariants()
    assert contents(crashed(log, SMALL)) == contents(log)


def test_an_installation_that_is_called_off_leaves_no_copies(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for number in range(4):
        put(log, (b"k", b"%d" % number))
    compaction = Compaction(log, NOW)
    compaction.build()
    steps = compaction.steps()
    next(steps)()
    next(steps)
    steps.close()
    assert not [name for name in names(log) if "cleaned" in name]
    assert log.store.checkpoint.clean_below == 0, "the next pass looks at everything again"
    assert contents(log)[-1] == (3, b"k", b"3")


def test_segments_that_compaction_replaces_are_counted(tmp_path: Path) -> None:
    log = Log(tmp_path, ROOMY)
    for _ in range(4):
        put(log, (b"k", b"v"))
        seal(log)
    stats, present = log.stats, len(log.segments)
    created, deleted = stats.segments_created, stats.segments_deleted
    compact(log, now_ms=NOW)
    assert len(log.segments) < present
    made, gone = stats.segments_created - created, stats.segments_deleted - deleted
    assert made >= 1
    assert present + made - gone == len(log.segments)
    log.close()

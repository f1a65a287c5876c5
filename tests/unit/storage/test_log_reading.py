"""Reads: batches as they were stored, from any offset, as regions that outlive their segment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import ChecksumMismatchError, MalformedBatchError, OffsetGapError
from goqueue.records import Compression, decode_rows, encode, stamp
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.batches import batch, fill, values
from support.disks import HastyDisk
from support.oracle import readable, split

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = LogConfig(segment_bytes=600)


@pytest.fixture
def log(memory_path: Path) -> Log:
    return Log(memory_path, CONFIG, disk=HastyDisk())


def test_a_segment_is_rolled_before_a_batch_that_would_pass_the_limit(log: Log) -> None:
    sizes = [len(data) for data in fill(log, 7)]
    assert [s.size_bytes for s in log.segments] == [sizes[0] * 2] * 3 + [sizes[0]]
    assert all(s.size_bytes <= 600 for s in log.segments)
    names = sorted(path.name for path in log.folder.glob("*.log"))
    assert names == [f"{base:020d}.log" for base in (0, 6, 12, 18)]


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(log: Log) -> None:
    fill(log, 1)
    log.append(batch(value=b"x" * 5000))
    fill(log, 1)
    assert [s.base_offset for s in log.segments] == [0, 3, 4]
    assert len(values(log)) == 7


def test_one_append_of_many_batches_is_stored_in_one_segment_with_rising_offsets(log: Log) -> None:
    data = bytearray(b"".join(bytes(batch(count, value=b"y" * 90)) for count in (1, 3, 2, 4)))
    assert log.append(data) == (0, 10)
    assert [(item.first, item.end) for item in split(data)] == [(0, 1), (1, 4), (4, 6), (6, 10)]
    assert len(log.segments) == 1
    assert list(readable(log)) == split(data)


def test_a_read_only_buffer_is_copied_and_a_writable_one_stamped_in_place(log: Log) -> None:
    fill(log, 1)
    frozen = bytes(batch())
    log.append(frozen, leader_epoch=5)
    assert split(frozen)[0].first == 0
    data = bytearray(frozen)
    log.append(memoryview(data), leader_epoch=5)
    assert split(data)[0].first == 4
    assert [item.first for item in readable(log)] == [0, 3, 4]


@pytest.mark.parametrize("compression", list(Compression))
def test_what_is_read_is_byte_for_byte_what_was_stored(log: Log, compression: Compression) -> None:
    data = batch(20, value=os.urandom(40), compression=compression)
    log.append(data)
    chunk = log.read(0, 1 << 20).load()
    assert bytes(chunk.data) == bytes(data)
    assert decode_rows(chunk.data)[19].offset == 19


def test_at_least_one_batch_is_found_however_little_was_asked_for(log: Log) -> None:
    stored = fill(log, 3)
    chunk = log.read(4, 0).load()
    assert (bytes(chunk.data), chunk.next_offset) == (stored[1], 6)


def test_a_last_batch_that_does_not_fit_is_left_for_the_next_read(log: Log) -> None:
    stored = fill(log, 2)
    region = log.read(0, len(stored[0]) + 10)
    assert region.length == len(stored[0]) + 10
    assert bytes(region.load().data) == stored[0]


def test_an_offset_before_the_start_reads_from_the_start_and_one_past_the_end_nothing(
    log: Log,
) -> None:
    fill(log, 5)
    log.delete_before(7)
    assert log.read(0, 1).first_offset == 6
    assert log.read(15, 1) is None
    assert log.read(99, 1) is None


def test_nothing_is_read_past_a_limit(log: Log) -> None:
    stored = fill(log, 2)
    assert bytes(log.read(0, 1 << 20, until=3).load().data) == stored[0]
    assert bytes(log.read(0, 1 << 20, until=5).load().data) == stored[0]
    assert log.read(0, 1 << 20, until=2) is None
    assert log.read(3, 1 << 20, until=3) is None
    assert log.read(0, 1 << 20, until=0) is None


def test_a_region_outlives_the_deletion_of_its_segment(log: Log) -> None:
    stored = fill(log, 8)
    region = log.read(0, 1 << 20)
    log.delete_before(18)
    assert not (log.folder / f"{0:020d}.log").exists()
    assert bytes(region.load().data) == stored[0] + stored[1]
    assert os.pread(region.file.fileno(), region.length, region.position) == stored[0] + stored[1]


def test_a_region_outlives_its_log(log: Log) -> None:
    stored = fill(log, 1)
    region = log.read(0, 1 << 20)
    log.close()
    log.delete()
    assert bytes(region.load().data) == stored[0]


def test_a_region_found_before_more_was_appended_does_not_grow(log: Log) -> None:
    stored = fill(log, 1)
    region = log.read(0, 1 << 20)
    fill(log, 1)
    chunk = region.load()
    assert (bytes(chunk.data), chunk.next_offset) == (stored[0], 3)


def test_a_region_can_be_sent_without_reading_it(log: Log) -> None:
    stored = fill(log, 1)
    region = log.read(0, 1 << 20)
    reader, writer = os.pipe()
    try:
        sent = os.sendfile(writer, region.file.fileno(), region.position, region.length)
        assert os.read(reader, sent) == stored[0]
    finally:
        os.close(reader)
        os.close(writer)


def test_cached_bytes_are_read_without_waiting(log: Log) -> None:
    stored = fill(log, 1)
    chunk = log.read(0, 1 << 20).load_cached()
    assert chunk is None or bytes(chunk.data) == stored[0]


def test_a_follower_takes_only_what_it_does_not_have(log: Log, tmp_path: Path) -> None:
    stored = fill(log, 4)
    follower = Log(tmp_path, CONFIG, disk=HastyDisk())
    assert follower.append_replica(b"".join(stored[:2])) == (0, 6)
    assert follower.append_replica(b"".join(stored[:3])) == (6, 9)
    assert follower.append_replica(b"".join(stored[1:3])) == (9, 9)
    with pytest.raises(OffsetGapError) as caught:
        follower.append_replica(bytes(_stamped(batch(), 12)))
    assert (caught.value.expected, caught.value.found) == (9, 12)
    assert follower.append_replica(stored[3]) == (9, 12)
    assert list(readable(follower)) == list(readable(log))


def test_a_follower_of_a_compacted_log_takes_gaps_as_they_are(tmp_path: Path) -> None:
    follower = Log(tmp_path, CONFIG, disk=HastyDisk())
    stored = [bytes(_stamped(batch(2), base)) for base in (5, 9, 30)]
    assert follower.append_replica(b"".join(stored), gaps=True) == (5, 32)
    for _ in range(2):
        assert [item.data for item in readable(follower)] == stored
        assert follower.read(12, 1).first_offset == 30
        assert follower.end_offset == 32
        follower = Log(tmp_path, CONFIG, disk=HastyDisk())
        assert follower.recovery.clean
    assert follower.append(batch()).first_offset == 32


def test_a_batch_that_overlaps_what_is_there_is_no_continuation(tmp_path: Path) -> None:
    follower = Log(tmp_path, CONFIG, disk=HastyDisk())
    follower.append_replica(bytes(_stamped(batch(3), 0)))
    with pytest.raises(OffsetGapError):
        follower.append_replica(bytes(_stamped(batch(3), 2)))


def test_a_damaged_replica_is_refused(tmp_path: Path) -> None:
    follower = Log(tmp_path, CONFIG, disk=HastyDisk())
    data = bytearray(batch(3))
    data[-1] ^= 1
    with pytest.raises(ChecksumMismatchError):
        follower.append_replica(bytes(data))
    assert follower.end_offset == 0


def test_an_append_of_nothing_is_refused(log: Log) -> None:
    with pytest.raises(MalformedBatchError):
        log.append(b"")


def test_a_batch_without_records_takes_an_offset(log: Log) -> None:
    """Compaction leaves such batches behind, and a follower copies them."""
    log.append(encode([], last_offset_delta=4))
    assert log.end_offset == 5
    assert log.find_time(0) is None
    fill(log, 1)
    assert values(log)[0][0] == 5


def _stamped(data: bytearray, base_offset: int) -> bytearray:
    stamp(data, 0, base_offset, 0)
    return data

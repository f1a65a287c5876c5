"""The indexes are hints: whatever happens to their files, every lookup stays right."""

from __future__ import annotations

import shutil
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from goqueue.records import decode_rows
from goqueue.storage.config import LogConfig
from goqueue.storage.index import SparseIndex
from goqueue.storage.log import Log
from support.batches import batch
from support.disks import HastyDisk
from support.oracle import readable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = LogConfig(segment_bytes=2500, index_interval_bytes=200)
TIMES = [100, 105, 103, 120, 90, 130, 131, 129, 140, 140, 20, 150]


def open_log(folder: Path) -> Log:
    return Log(folder, CONFIG, disk=HastyDisk())


def write_log(folder: Path, *, batches: int = 60) -> None:
    """Several segments, with times that mostly rise."""
    log = open_log(folder)
    for number in range(batches):
        base = number * 7
        log.append(batch(2, timestamps=[base + TIMES[number % 12], base], value=b"v" * 30))
    assert len(log.segments) >= 3
    log.close()


def assert_lookups_right(log: Log) -> None:
    records = [r for item in readable(log) for r in decode_rows(item.data)]
    assert [record.offset for record in records] == list(range(log.end_offset))
    for offset in range(0, log.end_offset, 3):
        region = log.read(offset, 1)
        assert region is not None
        assert region.first_offset == offset - offset % 2
    for time in range(0, 600, 5):
        expected = next((r for r in records if r.timestamp_ms >= time), None)
        found = log.find_time(time)
        assert found == (expected and (expected.offset, expected.timestamp_ms))
    newest = max(records, key=lambda record: (record.timestamp_ms, -record.offset))
    assert log.find_latest_time() == (newest.offset, newest.timestamp_ms)


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def cut_at_an_entry(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 32 * 16])


def drop_the_last_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-16])


def flip_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + 7] ^= 4
    path.write_bytes(data)


def fill_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


def take_another_segments(path: Path) -> None:
    others = sorted(path.parent.glob(f"*{path.suffix}"))
    data = next(other for other in others if other != path).read_bytes()
    path.write_bytes(data)


def take_the_other_kind(path: Path) -> None:
    other = ".timeindex" if path.suffix == ".index" else ".index"
    path.write_bytes(path.with_suffix(other).read_bytes())


def write_nonsense(path: Path) -> None:
    path.write_bytes(b"nonsense" * 20)


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


RUINS = [
    cut,
    cut_at_an_entry,
    drop_the_last_entry,
    flip_in_the_middle,
    fill_with_zeros,
    take_another_segments,
    take_the_other_kind,
    write_nonsense,
    remove,
    empty,
]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("which", [0, 1, -1], ids=["first", "second", "active"])
@pytest.mark.parametrize("ruin", RUINS)
def test_a_ruined_index_is_built_again_and_lookups_stay_right(
    memory_path: Path, ruin: Callable[[Path], None], which: int, suffix: str
) -> None:
    write_log(memory_path)
    ruin(sorted(memory_path.glob(f"*{suffix}"))[which])
    log = open_log(memory_path)
    assert log.recovery.clean
    assert_lookups_right(log)
    assert sum(segment.index_rebuilds for segment in log.segments) == 1
    log.close()
    log = open_log(memory_path)
    assert_lookups_right(log)
    assert sum(segment.index_rebuilds for segment in log.segments) == 0, "and stored again"


def test_rebuilt_indexes_stay_counted_when_their_segments_go(memory_path: Path) -> None:
    write_log(memory_path)
    for path in memory_path.glob("*.index"):
        path.unlink()
    log = open_log(memory_path)
    assert_lookups_right(log)

    def count() -> int:
        return log.stats.index_rebuilds + sum(each.index_rebuilds for each in log.segments)

    before, segments = count(), len(log.segments)
    assert before >= 3
    log.delete_before(log.segments.sealed[1].end_offset)
    assert len(log.segments) == segments - 2
    assert count() == before
    log.close()


def test_any_flipped_bit_of_an_index_leaves_lookups_right(memory_path: Path) -> None:
    write_log(memory_path / "good", batches=40)
    moment = open_log(memory_path / "good").find_time(130)
    for suffix in (".index", ".timeindex"):
        size = (memory_path / "good" / f"{0:020d}{suffix}").stat().st_size
        for byte in range(size):
            folder = memory_path / f"{suffix}{byte}"
            shutil.copytree(memory_path / "good", folder)
            path = folder / f"{0:020d}{suffix}"
            data = bytearray(path.read_bytes())
            data[byte] ^= 1 << byte % 8
            path.write_bytes(data)
            log = open_log(folder)
            first = next(iter(log.segments))
            assert log.find_time(130) == moment
            assert log.read(9, 1).first_offset == 8
            assert first.index_rebuilds == 1
            shutil.rmtree(folder)


def test_a_log_that_lost_every_index_is_as_right_as_before(memory_path: Path) -> None:
    write_log(memory_path)
    for path in memory_path.glob("*index"):
        path.unlink()
    assert_lookups_right(open_log(memory_path))


def test_lookups_are_right_while_the_log_grows(memory_path: Path) -> None:
    log = open_log(memory_path)
    for number in range(30):
        log.append(batch(2, timestamps=[number * 7 + TIMES[number % 12], number * 7]))
        if number % 6 == 0:
            assert_lookups_right(log)


def test_records_of_the_same_time_are_found_at_the_first(memory_path: Path) -> None:
    log = open_log(memory_path)
    for _ in range(40):
        log.append(batch(3, timestamps=[500, 500, 500]))
    assert log.find_time(500) == (0, 500)
    assert log.find_time(1) == (0, 500)
    assert log.find_time(501) is None
    assert log.find_latest_time() == (0, 500)


def test_an_entry_is_made_for_every_interval_and_the_first_batch(memory_path: Path) -> None:
    write_log(memory_path)
    log = open_log(memory_path)
    for segment in log.segments:
        offsets = segment.indexes.offsets
        entries = [offsets[number] for number in range(len(offsets))]
        assert entries[0] == (segment.base_offset, 0)
        gaps = [b.value - a.value for a, b in pairwise(entries)]
        assert all(200 <= gap < 400 for gap in gaps)


def test_an_empty_log_has_no_times(memory_path: Path) -> None:
    log = open_log(memory_path)
    assert log.find_time(0) is None
    assert log.find_latest_time() is None
    assert log.read(0, 100) is None


@given(
    keys=st.lists(st.integers(0, 1000), unique=True, max_size=40).map(sorted),
    wanted=st.integers(-1, 1001),
    sealed=st.booleans(),
)
def test_a_sparse_index_finds_what_a_list_finds(
    keys: list[int], wanted: int, sealed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("index") / f"{0:020d}.index"
    index = SparseIndex(HastyDisk(), path)
    for key in keys:
        index.append(key, key * 2)
        index.append(key, 99)  # a key that does not grow is left out
    file = index.save(77)
    if sealed:
        index.seal(file)
    loaded = SparseIndex.load(HastyDisk(), path, 77, sealed=sealed)
    assert SparseIndex.load(HastyDisk(), path, 78, sealed=sealed) is None
    assert loaded is not None
    for one in (index, loaded):
        assert len(one) == len(keys)
        below = [key for key in keys if key < wanted]
        upto = [key for key in keys if key <= wanted]
        assert one.before(wanted) == ((below[-1], below[-1] * 2) if below else None)
        assert one.at_or_before(wanted) == ((upto[-1], upto[-1] * 2) if upto else None)
        assert one.last == ((keys[-1], keys[-1] * 2) if keys else None)

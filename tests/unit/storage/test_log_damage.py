"""Torn tails, lost and foreign files: what is damaged is reported, what is not stays readable."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import DamagedRangeError, ForeignFileError
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.batches import batch, fill, values
from support.disks import HastyDisk
from support.oracle import Stored, readable, split

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = LogConfig(segment_bytes=600)
WHOLE = LogConfig()


def open_log(folder: Path, config: LogConfig = CONFIG) -> Log:
    return Log(folder, config, disk=HastyDisk())


def segment(folder: Path, base: int, suffix: str = ".log") -> Path:
    return folder / f"{base:020d}{suffix}"


def one_segment(folder: Path, *, checkpoint_after: int = 0) -> list[Stored]:
    """Four batches of three records; the checkpoint vouches for the first few."""
    log = open_log(folder, WHOLE)
    stored = []
    for number in range(4):
        stored += split(fill(log, 1)[0])
        if number + 1 == checkpoint_after:
            log.flush(checkpoint=True)
    return stored


def many_segments(folder: Path, *, close: bool = True) -> list[Stored]:
    log = open_log(folder)
    stored = [item for data in fill(log, 12) for item in split(data)]
    assert len(log.segments) > 3
    if close:
        log.close()
    return stored


# --- The tail -------------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint_after", [0, 2, 3])
@pytest.mark.parametrize("checkpoint", ["kept", "lost"])
def test_a_tail_torn_at_any_byte_is_cut_and_reported(
    memory_path: Path, checkpoint_after: int, checkpoint: str
) -> None:
    stored = one_segment(memory_path, checkpoint_after=checkpoint_after)
    good = {path: path.read_bytes() for path in memory_path.iterdir()}
    path = segment(memory_path, 0)
    start = sum(len(item.data) for item in stored[:3])
    for length in range(start, len(good[path])):
        for name, data in good.items():
            name.unlink(missing_ok=True)
            name.write_bytes(data)
        path.write_bytes(good[path][:length])
        if checkpoint == "lost":
            (memory_path / "log.checkpoint").unlink(missing_ok=True)
        log = open_log(memory_path, WHOLE)
        assert list(readable(log)) == stored[:3]
        assert log.end_offset == stored[3].first
        assert log.recovery.cut_bytes == length - start
        assert (log.recovery.cut_reason is None) == (length == start)
        assert not log.recovery.damage
        assert path.stat().st_size == start
        new = batch(value=b"new")
        assert log.append(new).first_offset == stored[3].first
        assert list(readable(log)) == [*stored[:3], *split(new)]


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 61,
        b"\0" * 5000,
        b"\xff" * 300,
        b"\x02" * 300,
        bytes(range(256)) * 8,
        struct.pack(">qi", 12, 1 << 30) + b"\0\0\0\0\x02" + b"\0" * 60,
        struct.pack(">qi", 12, -1) + b"\0\0\0\0\x02" + b"\0" * 60,
    ],
    ids=["zero header", "zeros", "ones", "twos", "all bytes", "huge length", "negative length"],
)
def test_garbage_behind_the_last_batch_is_cut(memory_path: Path, tail: bytes) -> None:
    stored = one_segment(memory_path)
    with segment(memory_path, 0).open("ab") as file:
        file.write(tail)
    log = open_log(memory_path, WHOLE)
    assert list(readable(log)) == stored
    assert log.recovery.cut_bytes == len(tail)
    assert log.end_offset == 12


def test_garbage_between_batches_is_skipped_and_what_follows_it_is_kept(memory_path: Path) -> None:
    stored = one_segment(memory_path)
    parts = [item.data for item in stored]
    segment(memory_path, 0).write_bytes(b"".join([*parts[:2], b"\x02" * 700, *parts[2:]]))
    log = open_log(memory_path, WHOLE)
    assert list(readable(log)) == stored
    assert len(log.recovery.damage) == 1
    assert not log.recovery.cut_bytes


def test_an_old_copy_of_a_batch_inside_damage_is_not_taken_for_the_next_one(
    memory_path: Path,
) -> None:
    """A value may itself hold the bytes of a batch, or a torn write may bring back older ones."""
    stored = one_segment(memory_path)
    parts = [item.data for item in stored]
    ruin = b"?" * 80 + parts[0] + b"?" * 9
    segment(memory_path, 0).write_bytes(parts[0] + parts[1] + ruin + parts[3])
    log = open_log(memory_path, WHOLE)
    assert list(readable(log)) == [stored[0], stored[1], stored[3]]
    with pytest.raises(DamagedRangeError) as caught:
        log.read(7, 1)
    assert caught.value.resume_at == 9


@pytest.mark.parametrize("length", [0, 48, 49, 1000, 1 << 26, (1 << 31) - 1, -5])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_damaged_length_costs_its_own_batch_only(
    memory_path: Path, number: int, length: int
) -> None:
    stored = one_segment(memory_path, checkpoint_after=4)
    data = bytearray(b"".join(item.data for item in stored))
    start = sum(len(item.data) for item in stored[:number])
    struct.pack_into(">i", data, start + 8, length)
    segment(memory_path, 0).write_bytes(data)
    log = open_log(memory_path, WHOLE)
    assert list(readable(log)) == [item for item in stored if item is not stored[number]]
    assert log.end_offset == 12


def test_a_file_shorter_than_the_checkpoint_says_keeps_its_offsets_taken(
    memory_path: Path,
) -> None:
    """They were given out and acknowledged: they are missing, not free."""
    stored = one_segment(memory_path, checkpoint_after=4)
    path = segment(memory_path, 0)
    path.write_bytes(path.read_bytes()[: len(stored[0].data)])
    log = open_log(memory_path, WHOLE)
    assert log.recovery.missing_below_checkpoint == 9
    assert not log.recovery.clean
    assert log.end_offset == 12
    with pytest.raises(DamagedRangeError) as caught:
        log.read(5, 1)
    assert caught.value.resume_at == 12
    data = batch(value=b"new")
    assert log.append(data).first_offset == 12
    assert list(readable(log)) == [stored[0], *split(data)]
    log.close()
    log = open_log(memory_path, WHOLE)
    assert log.recovery.clean
    assert list(readable(log)) == [stored[0], *split(data)]


# --- Whole files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("close", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_missing_segment_is_told_to_readers_and_costs_no_other(
    memory_path: Path, which: int, close: bool
) -> None:
    stored = many_segments(memory_path, close=close)
    bases = sorted(int(path.stem) for path in memory_path.glob("*.log"))
    segment(memory_path, bases[which]).unlink()
    log = open_log(memory_path)
    gone = range(bases[which], bases[which + 1])
    assert list(readable(log)) == [item for item in stored if item.first not in gone]
    for offset in (gone.start, gone.stop - 1):
        with pytest.raises(DamagedRangeError) as caught:
            log.read(offset, 1)
        assert caught.value.resume_at == gone.stop
    assert log.end_offset == stored[-1].end


def test_the_last_segment_missing_keeps_its_offsets_taken(memory_path: Path) -> None:
    stored = many_segments(memory_path)
    last = max(int(path.stem) for path in memory_path.glob("*.log"))
    segment(memory_path, last).unlink()
    log = open_log(memory_path)
    assert log.recovery.missing_below_checkpoint == stored[-1].end - last
    assert log.end_offset == stored[-1].end
    assert list(readable(log)) == [item for item in stored if item.first < last]


def test_a_log_that_lost_all_segments_goes_on_where_it_was(memory_path: Path) -> None:
    stored = many_segments(memory_path)
    for path in memory_path.glob("*.log"):
        path.unlink()
    log = open_log(memory_path)
    assert log.end_offset == stored[-1].end
    log.append(batch(value=b"new"))
    assert values(log) == [(36, b"new")]
    with pytest.raises(DamagedRangeError) as caught:
        log.read(0, 1)
    assert caught.value.resume_at == 36


def test_a_sealed_segment_cut_short_is_reported_and_its_neighbours_stay(
    memory_path: Path,
) -> None:
    stored = many_segments(memory_path, close=False)
    path = segment(memory_path, 0)
    path.write_bytes(path.read_bytes()[:-30])
    log = open_log(memory_path)
    assert log.recovery.damage
    assert list(readable(log)) == [item for item in stored if item is not stored[1]]


def test_foreign_files_are_left_alone_and_reported(memory_path: Path) -> None:
    stored = many_segments(memory_path)
    (memory_path / "README").write_text("hello")
    (memory_path / "lost+found").mkdir()
    log = open_log(memory_path)
    assert log.recovery.foreign_files == ["README", "lost+found"]
    assert list(readable(log)) == stored
    assert (memory_path / "README").read_text() == "hello"


@pytest.mark.parametrize("name", ["copy.log", "0.log", "00000000000000000000.log.log", "-1.index"])
def test_a_file_that_could_be_taken_for_a_segment_is_refused(memory_path: Path, name: str) -> None:
    many_segments(memory_path)
    (memory_path / name).write_bytes(b"?")
    with pytest.raises(ForeignFileError, match="move the file away"):
        open_log(memory_path)


def test_segment_files_of_another_product_are_refused_and_not_cut(memory_path: Path) -> None:
    segment(memory_path, 0).write_bytes(b"something else entirely" * 20)
    with pytest.raises(ForeignFileError, match="move it away"):
        open_log(memory_path)
    assert segment(memory_path, 0).stat().st_size == 23 * 20


def test_leftovers_of_an_interrupted_write_are_removed(memory_path: Path) -> None:
    stored = many_segments(memory_path)
    for name in ("log.checkpoint.tmp", f"{99:020d}.index", f"{0:020d}.log.cleaned"):
        (memory_path / name).write_bytes(b"?")
    log = open_log(memory_path)
    assert len(log.recovery.removed_leftovers) == 3
    assert list(readable(log)) == stored


def test_reading_a_region_of_a_tail_that_was_cut_meanwhile_ends(memory_path: Path) -> None:
    log = open_log(memory_path, WHOLE)
    fill(log, 4)
    region = log.read(6, 1 << 20)
    assert region is not None
    with segment(memory_path, 0).open("r+b") as file:
        file.truncate(region.position + 20)
    with pytest.raises(DamagedRangeError):
        region.load()

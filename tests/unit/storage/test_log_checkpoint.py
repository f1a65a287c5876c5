"""The checkpoint: small, whole or not there, never from the future."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import UnsupportedFormatError
from goqueue.storage.checkpoints.checkpoint import FORMAT_VERSION, Checkpoint
from goqueue.storage.config import LogConfig
from goqueue.storage.epochs import EpochStart
from goqueue.storage.log import Log
from support.batches import batch, fill
from support.disks import HastyDisk
from support.oracle import readable

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = LogConfig(segment_bytes=600)
numbers = st.integers(0, 1 << 62)


def open_log(folder: Path) -> Log:
    return Log(folder, CONFIG, disk=HastyDisk())


@given(
    st.builds(
        Checkpoint,
        *[numbers] * 6,
        st.sampled_from([(), (EpochStart(1, 0),), (EpochStart(1, 0), EpochStart(5, 9))]),
    )
)
def test_a_checkpoint_survives_being_stored(checkpoint: Checkpoint) -> None:
    assert Checkpoint.decode(checkpoint.encode()) == checkpoint


def test_any_flipped_bit_of_a_checkpoint_is_noticed() -> None:
    checkpoint = Checkpoint(3, 17, 10, 900, 4, 2, (EpochStart(1, 0), EpochStart(5, 9)))
    data = checkpoint.encode()
    for byte in range(len(data) - 1):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[byte] ^= 1 << bit
            try:
                assert Checkpoint.decode(bytes(damaged)) in {None, checkpoint}
            except UnsupportedFormatError:
                assert b'"format"' in data[max(byte - 12, 0) : byte]


def test_a_torn_checkpoint_is_noticed() -> None:
    data = Checkpoint(3, 17, 10, 900).encode()
    for length in range(len(data) - 2):
        assert Checkpoint.decode(data[:length]) is None


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b"7", b"\xff", b'{"format": 1}'])
def test_something_else_is_no_checkpoint(data: bytes) -> None:
    assert Checkpoint.decode(data) is None


def test_a_checkpoint_of_a_newer_version_is_refused_by_name(memory_path: Path) -> None:
    log = open_log(memory_path)
    fill(log, 2)
    log.close()
    path = memory_path / "log.checkpoint"
    body = json.loads(path.read_bytes())
    path.write_text(json.dumps({**body, "format": FORMAT_VERSION + 1, "more": "fields"}))
    before = {file: file.read_bytes() for file in memory_path.iterdir()}
    with pytest.raises(UnsupportedFormatError, match="start the newer version"):
        open_log(memory_path)
    assert {file: file.read_bytes() for file in memory_path.iterdir()} == before


@pytest.mark.parametrize("ruin", ["remove", "damage", "empty"])
def test_a_lost_checkpoint_costs_a_full_scan_and_no_record(memory_path: Path, ruin: str) -> None:
    log = open_log(memory_path)
    fill(log, 9)
    log.append(batch(value=b"later"), leader_epoch=3)
    stored, size, epochs = list(readable(log)), log.size_bytes, log.epochs
    log.close()
    path = memory_path / "log.checkpoint"
    if ruin == "remove":
        path.unlink()
    else:
        path.write_bytes(b"" if ruin == "empty" else path.read_bytes().replace(b"0", b"1", 1))
    log = open_log(memory_path)
    assert log.recovery.checkpoint_missing
    assert log.recovery.scanned_bytes == size
    assert not log.recovery.cut_bytes
    assert list(readable(log)) == stored
    assert log.epochs == epochs
    assert log.append(batch(), leader_epoch=3).first_offset == stored[-1].end
    log.close()
    log = open_log(memory_path)
    assert not log.recovery.checkpoint_missing
    assert log.recovery.scanned_bytes == 0


def test_a_log_that_was_trimmed_starts_at_its_first_segment_when_the_checkpoint_is_lost(
    memory_path: Path,
) -> None:
    log = open_log(memory_path)
    fill(log, 9)
    log.delete_before(13)
    log.close()
    (memory_path / "log.checkpoint").unlink()
    log = open_log(memory_path)
    assert log.start_offset == 12
    assert log.end_offset == 27


def test_a_clean_stop_makes_the_next_start_instant_and_one_more_byte_does_not(
    memory_path: Path,
) -> None:
    log = open_log(memory_path)
    fill(log, 9)
    log.close()
    log = open_log(memory_path)
    assert log.recovery.scanned_bytes == 0
    data = batch()
    log.append(data)
    log = open_log(memory_path)
    assert log.recovery.scanned_bytes == len(data)
    assert log.end_offset == 28

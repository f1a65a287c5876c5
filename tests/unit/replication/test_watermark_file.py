from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import DiskError
from goqueue.partitions.replication.watermark_file import WatermarkFile, _decoded
from goqueue.runtime.disk import SystemDisk
from support.disks import FaultyDisk

if TYPE_CHECKING:
    from pathlib import Path

WATERMARKS = {"a/0": 17, "b/1": 0}


def test_watermarks_are_read_as_they_were_kept(tmp_path: Path):
    path = tmp_path / "high-watermarks"
    assert WatermarkFile(SystemDisk(), path).load() == {}
    WatermarkFile(SystemDisk(), path).save(WATERMARKS)
    assert WatermarkFile(SystemDisk(), path).load() == WATERMARKS


def test_a_torn_file_counts_as_none(tmp_path: Path):
    path = tmp_path / "high-watermarks"
    WatermarkFile(SystemDisk(), path).save(WATERMARKS)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert WatermarkFile(SystemDisk(), path).load() == {}
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert WatermarkFile(SystemDisk(), path).load() == {}


@given(st.binary(max_size=60))
def test_a_file_of_anything_is_no_surprise(data: bytes):
    assert _decoded(data) is None


def test_what_has_not_changed_is_not_written_again(tmp_path: Path):
    disk = FaultyDisk(tmp_path)
    file = WatermarkFile(disk, tmp_path / "high-watermarks")
    file.save(WATERMARKS)
    disk.fail_next("write")
    file.save(dict(WATERMARKS))
    with pytest.raises(DiskError):
        file.save({"a/0": 18})
    assert WatermarkFile(disk, tmp_path / "high-watermarks").load() == WATERMARKS

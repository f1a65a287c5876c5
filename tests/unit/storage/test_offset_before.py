"""Where to begin to read backwards: near enough, and never past the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.records import Record, encode
from goqueue.records.batch import walk
from goqueue.runtime.disk import SystemDisk
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from goqueue.storage.segment import UNINDEXED_ENTRIES
from support.clocks import ManualClock
from support.effort import examples

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

INTERVAL = 200


def filled(folder: Path, sizes: list[int]) -> Log:
    config = LogConfig(segment_bytes=4000, index_interval_bytes=INTERVAL)
    log = Log(folder, config, disk=SystemDisk(), clock=ManualClock())
    for size in sizes:
        log.append(encode([Record(0, 1000, None, bytes(size))]))
    return log


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.integers(0, 900), min_size=1, max_size=60),
    st.integers(0, 5000),
    st.data(),
)
def test_about_as_many_bytes_lie_between_as_were_asked_for(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], wanted: int, data: st.DataObject
) -> None:
    log = filled(tmp_path_factory.mktemp("log"), sizes)
    end = data.draw(st.integers(1, len(sizes)))
    start = log.offset_before(end, wanted)
    assert 0 <= start < end
    stored = [
        (info.base_offset, info.size_bytes)
        for chunk in log.chunks(0)
        for _, info in walk(chunk.data)
    ]
    between = sum(size for offset, size in stored if start <= offset < end)
    largest = max(size for _, size in stored)
    unindexed = UNINDEXED_ENTRIES * INTERVAL + largest
    assert between <= max(wanted + INTERVAL + 2 * largest, unindexed)
    bases = [segment.base_offset for segment in log.segments]
    if start not in bases:  # a segment's beginning is as far as one look goes
        assert between + INTERVAL + 2 * largest >= wanted
    log.close()


def test_nothing_is_before_the_start_of_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path, [100] * 50)
    log.delete_before(40)
    assert log.offset_before(45, 1 << 20) == 40
    assert log.offset_before(41, 0) == 40
    log.close()

"""Which leader wrote which offsets: the table, and how it follows the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import InvariantError
from goqueue.storage.config import LogConfig
from goqueue.storage.epochs import EpochStart, LeaderEpochs
from goqueue.storage.log import Log
from support.batches import batch
from support.disks import HastyDisk

if TYPE_CHECKING:
    from pathlib import Path

histories = st.lists(st.integers(0, 2), min_size=1, max_size=30).map(
    lambda steps: [sum(steps[: number + 1]) for number in range(len(steps))]
)
"""The epoch of each of a number of one-record batches."""


def table(history: list[int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for offset, epoch in enumerate(history):
        if epoch != epochs.latest:
            epochs = epochs.with_epoch(epoch, offset)
    return epochs


@given(histories)
def test_the_epoch_of_every_offset_is_known(history: list[int]) -> None:
    epochs = table(history)
    assert [epochs.epoch_at(offset) for offset in range(len(history))] == history
    assert epochs.epoch_at(len(history) + 5) == history[-1] == epochs.latest


@given(histories, st.integers(0, 60))
def test_the_end_of_an_epoch_is_where_the_next_one_began(history: list[int], asked: int) -> None:
    known = [epoch for epoch in history if epoch <= asked]
    found = table(history).end_of(asked, len(history))
    if not known:
        assert found is None
    else:
        assert found == (max(known), len(known))


@given(histories, st.integers(0, 30))
def test_a_cut_forgets_the_epochs_behind_it(history: list[int], end: int) -> None:
    assert table(history).ending_at(end) == table(history[:end])


@given(histories, st.integers(0, 29))
def test_a_later_start_forgets_the_epochs_before_it(history: list[int], start: int) -> None:
    start = min(start, len(history) - 1)
    epochs = table(history).starting_at(start)
    assert [epochs.epoch_at(offset) for offset in range(start, len(history))] == history[start:]
    assert [s.epoch for s in epochs.starts] == sorted(set(history[start:]))


@given(histories)
def test_the_table_can_be_learnt_from_the_batches(history: list[int]) -> None:
    batches = [EpochStart(epoch, offset) for offset, epoch in enumerate(history)]
    assert LeaderEpochs.learnt(batches) == table(history)


@given(histories.filter(lambda history: len(history) > 4), st.data())
def test_one_damaged_epoch_is_outvoted(history: list[int], data: st.DataObject) -> None:
    """A rise that the next two batches deny was none."""
    hit = data.draw(st.integers(0, len(history) - 3))
    history = [*history[: hit + 1], *[history[hit]] * (len(history) - hit - 1)]
    batches = [EpochStart(epoch, offset) for offset, epoch in enumerate(history)]
    batches[hit] = EpochStart(history[hit] + data.draw(st.integers(1, 1 << 30)), hit)
    learnt = LeaderEpochs.learnt(batches)
    assert [learnt.epoch_at(o) for o in range(hit + 1, len(history))] == history[hit + 1 :]
    assert learnt.epoch_at(hit) != batches[hit].epoch


def test_an_epoch_does_not_come_back() -> None:
    epochs = table([1, 1, 3])
    for epoch in (0, 1, 2, 3):
        with pytest.raises(InvariantError):
            epochs.with_epoch(epoch, 9)
    with pytest.raises(InvariantError):
        LeaderEpochs((EpochStart(2, 0), EpochStart(1, 5)))
    with pytest.raises(InvariantError):
        LeaderEpochs((EpochStart(1, 5), EpochStart(2, 5)))


def test_an_epoch_that_wrote_nothing_leaves_no_trace() -> None:
    assert table([1]).with_epoch(2, 4).with_epoch(5, 4).starts == ((1, 0), (5, 4))


def test_a_leader_that_wrote_nothing_gives_way_to_batches_of_an_earlier_epoch() -> None:
    """A node that led in epoch 5 at offset 4 lacks what others have of epochs 3 and 4."""
    led = table([3, 3, 3, 3]).with_epoch(5, 4)
    assert led.with_epoch(4, 4).starts == ((3, 0), (4, 4))
    assert led.with_epoch(3, 4).starts == ((3, 0),)
    with pytest.raises(InvariantError):
        led.with_epoch(2, 4)


def open_log(folder: Path) -> Log:
    return Log(folder, LogConfig(segment_bytes=300), disk=HastyDisk())


def test_a_log_remembers_its_leaders_across_restart_trim_and_cut(memory_path: Path) -> None:
    log = open_log(memory_path)
    for epoch in (1, 1, 4, 4, 4, 9, 9, 9):
        log.append(batch(2), leader_epoch=epoch)
    assert log.epochs.starts == ((1, 0), (4, 4), (9, 10))
    assert log.epochs.end_of(5, log.end_offset) == (4, 10)
    log.close()
    log = open_log(memory_path)
    assert log.epochs.starts == ((1, 0), (4, 4), (9, 10))
    log.delete_before(6)
    assert log.epochs.epoch_at(6) == 4
    log.truncate_to(11)
    assert log.end_offset == 10
    assert log.epochs.starts[-1] == (4, 4)
    log.append(batch(), leader_epoch=5)
    log = open_log(memory_path)
    assert log.recovery.clean
    assert log.epochs.starts[-2:] == ((4, 4), (5, 10))


def test_an_old_leader_cannot_write_behind_a_new_one(memory_path: Path) -> None:
    log = open_log(memory_path)
    log.append(batch(), leader_epoch=3)
    with pytest.raises(InvariantError):
        log.append(batch(), leader_epoch=2)
    assert log.end_offset == 1
    log.append(batch(), leader_epoch=3)
    assert log.end_offset == 2

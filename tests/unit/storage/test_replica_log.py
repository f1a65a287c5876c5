"""A log that other nodes hold too: it keeps no hole, and no snapshot of what was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.model.errors import BatchError, DiskError
from goqueue.records.batch import walk
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from goqueue.storage.naming import CHECKPOINT, DAMAGED
from goqueue.storage.open_files import SharedFiles
from goqueue.storage.snapshot import Entry, Snapshot, SnapshotFolder
from goqueue.storage.snapshot_kinds import SnapshotKind
from support.batches import batch
from support.disks import FaultyDisk, HastyDisk
from support.effort import examples

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.storage.lookup import Cut

CONFIG = LogConfig(segment_bytes=400)


def _open(folder: Path, *, is_replica: bool = False) -> Log:
    return Log(folder, CONFIG, disk=HastyDisk(), is_replica=is_replica)


def _filled(folder: Path, count: int = 12, *, epochs: int = 1) -> Log:
    log = _open(folder)
    for number in range(count):
        log.append(batch(2), leader_epoch=1 + number * epochs // count)
    return log


def _stored(log: Log) -> bytes:
    return b"".join(bytes(chunk.data) for chunk in log.chunks(log.start_offset))


def _snapshot(folder: Path, kind: SnapshotKind, last_offset: int) -> None:
    SnapshotFolder(HastyDisk(), folder, kind).save(
        Snapshot(kind, last_offset, 1, (Entry(0, b"k", b"v"),))
    )


def _offsets(folder: Path, kind: SnapshotKind) -> list[int]:
    names = (path.name.split("-") for path in folder.glob("snapshot-*.bin"))
    return sorted(int(parts[2]) for parts in names if int(parts[1]) == kind)


# --- Snapshots ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(SnapshotKind))
def test_a_cut_removes_the_snapshots_of_every_kind_that_know_what_goes(
    memory_path: Path, kind: SnapshotKind
) -> None:
    """Once the log has grown again, one that stayed would be taken for theirs."""
    log = _filled(memory_path)
    for last in (3, 9, 15):
        _snapshot(memory_path, kind, last)
    assert log.truncate_to(10) == 10
    assert _offsets(memory_path, kind) == [3, 9]
    for _ in range(10):
        log.append(batch(2), leader_epoch=7)
    loaded = SnapshotFolder(HastyDisk(), memory_path, kind).load(log.end_offset)
    assert loaded is not None
    assert loaded.last_offset == 9
    log.restart_at(50)
    assert _offsets(memory_path, kind) == []


def test_a_cut_that_falls_within_a_batch_removes_by_where_the_log_really_ends(
    memory_path: Path,
) -> None:
    log = _open(memory_path)
    log.append(batch(4))
    log.append(batch(4))
    _snapshot(memory_path, SnapshotKind.GROUPS, 3)
    _snapshot(memory_path, SnapshotKind.GROUPS, 4)
    assert log.truncate_to(6) == 4
    assert _offsets(memory_path, SnapshotKind.GROUPS) == [3]


def test_snapshots_are_gone_before_the_log_is_cut(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in between, the log is longer than needed, and no snapshot lies about it."""
    _filled(memory_path).flush(checkpoint=True)
    _snapshot(memory_path, SnapshotKind.GROUPS, 20)
    log = _open(memory_path)
    removed: list[bool] = []
    cut = log.store.cut

    def look_and_cut(at: Cut) -> None:
        removed.append(not _offsets(memory_path, SnapshotKind.GROUPS))
        cut(at)

    monkeypatch.setattr(log.store, "cut", look_and_cut)
    log.truncate_to(4)
    assert removed == [True]


def test_recovery_removes_the_snapshots_of_what_it_has_cut(memory_path: Path) -> None:
    _filled(memory_path).close()
    _snapshot(memory_path, SnapshotKind.TRANSACTIONS, 5)
    _snapshot(memory_path, SnapshotKind.TRANSACTIONS, 23)
    last = max(memory_path.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-5])
    log = _open(memory_path, is_replica=True)
    assert log.end_offset == 22
    assert _offsets(memory_path, SnapshotKind.TRANSACTIONS) == [5]


# --- Recovery -------------------------------------------------------------------------------------


def test_damage_in_the_middle_is_cut_off_with_everything_behind_it(memory_path: Path) -> None:
    whole = _stored(_filled(memory_path, epochs=3))
    (memory_path / CHECKPOINT).unlink(missing_ok=True)
    second = sorted(memory_path.glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[-3] ^= 0xFF
    second.write_bytes(data)
    log = _open(memory_path, is_replica=True)
    report = log.recovery
    assert report.lost_from == log.end_offset
    assert report.has_lost
    assert not report.clean
    kept = _stored(log)
    assert whole.startswith(kept)
    assert 0 < len(kept) < len(whole)
    log.check_invariants()
    assert log.epochs.starts[-1].start_offset < log.end_offset
    again = _open(memory_path, is_replica=True)
    assert again.recovery.clean
    assert not again.recovery.has_lost
    assert _stored(again) == kept
    rest = [whole[at : at + info.size_bytes] for at, info in walk(whole)]
    again.append_replica(b"".join(rest), gaps=True)
    assert _stored(again) == whole


def test_a_segment_of_which_nothing_is_left_is_a_hole(memory_path: Path) -> None:
    log = _filled(memory_path, 1)
    log.flush(checkpoint=True)
    for _ in range(11):
        log.append(batch(2), leader_epoch=1)
    second = sorted(memory_path.glob("*.log"))[1]
    second.write_bytes(b"")  # as a power cut may leave what was not synced
    replica = _open(memory_path, is_replica=True)
    start = int(second.stem)
    assert (replica.end_offset, replica.recovery.lost_from) == (start, start)


def test_the_only_copy_of_a_log_keeps_what_lies_behind_the_damage(memory_path: Path) -> None:
    _filled(memory_path)
    (memory_path / CHECKPOINT).unlink(missing_ok=True)
    second = sorted(memory_path.glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[-3] ^= 0xFF
    second.write_bytes(data)
    log = _open(memory_path)
    assert log.end_offset == 24
    assert log.recovery.damage
    assert log.recovery.lost_from is None


def test_segments_that_are_missing_are_not_numbered_over(memory_path: Path) -> None:
    log = _filled(memory_path)
    whole = _stored(log)
    log.close()
    files = sorted(memory_path.glob("*.log"))
    base = int(files[-1].stem)
    for suffix in ("log", "index", "timeindex"):
        (memory_path / f"{files[-1].stem}.{suffix}").unlink(missing_ok=True)
    replica = _open(memory_path, is_replica=True)
    assert replica.end_offset == replica.recovery.lost_from == base
    assert replica.recovery.has_lost
    replica.append_replica(whole, gaps=True)
    assert _stored(replica) == whole
    replica.close()
    assert _open(memory_path, is_replica=True).recovery.clean


def test_a_torn_append_is_nothing_that_was_ever_promised(memory_path: Path) -> None:
    log = _filled(memory_path)
    log.flush(checkpoint=True)
    log.append(batch(2), leader_epoch=1)
    last = max(memory_path.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-5])
    replica = _open(memory_path, is_replica=True)
    assert replica.end_offset == 24
    assert replica.recovery.cut_bytes
    assert not replica.recovery.has_lost


@given(
    hits=st.lists(st.tuples(st.integers(0, 5), st.floats(0, 0.999), st.booleans()), max_size=3),
    has_checkpoint=st.booleans(),
)
@settings(
    deadline=None,
    max_examples=examples(80),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_is_damaged_a_replica_is_a_prefix_that_can_be_continued(
    memory_path: Path, hits: list[tuple[int, float, bool]], has_checkpoint: bool
) -> None:
    folder = memory_path / f"{len(list(memory_path.iterdir()))}"
    log = _filled(folder, 10, epochs=2)
    whole = _stored(log)
    if has_checkpoint:
        log.flush(checkpoint=True)
        for _ in range(3):
            log.append(batch(2), leader_epoch=2)
        whole = _stored(log)
    else:
        (folder / CHECKPOINT).unlink(missing_ok=True)
    files = sorted(folder.glob("*.log"))
    for number, share, is_torn in hits:
        path = files[number % len(files)]
        data = bytearray(path.read_bytes())
        if not data:
            continue
        at = int(len(data) * share)
        if is_torn and path == files[-1]:
            del data[at:]
        else:
            data[at] ^= 0x5A
        path.write_bytes(data)
    replica = _open(folder, is_replica=True)
    replica.check_invariants()
    _patch_or_cut(replica, whole)
    kept = b""
    for chunk in replica.chunks(replica.start_offset):
        kept += bytes(chunk.data)
    if not has_checkpoint:  # what a checkpoint vouches for is not scanned; readers meet it
        assert whole.startswith(kept)
        parts = [whole[at : at + info.size_bytes] for at, info in walk(whole)]
        replica.append_replica(b"".join(parts), gaps=True)
        assert _stored(replica) == whole
    replica.close()


def _patch_or_cut(replica: Log, whole: bytes) -> None:
    """Put in place what another replica has, where a start has found damage."""
    for first in list(replica.damaged):
        stretch = replica.damaged_stretch(first)
        if stretch is None:
            continue  # a cut has taken it along
        wanted = range(stretch.first_offset, stretch.end_offset)
        found = [(at, info) for at, info in walk(whole) if info.base_offset in wanted]
        try:
            replica.patch(stretch, b"".join(whole[at : at + i.size_bytes] for at, i in found))
        except BatchError:  # the epoch that began there is not known without a checkpoint
            replica.truncate_to(first)
    replica.settle_damage()
    assert not replica.damaged


def _damage_the_middle(folder: Path) -> bytes:
    """Flip a bit in the first batch of the second segment; returns all as it was."""
    log = _filled(folder)
    whole = _stored(log)
    log.let_go()
    second = sorted(folder.glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[90] ^= 1
    second.write_bytes(data)
    return whole


def test_damage_with_intact_batches_behind_it_stays_until_it_is_patched(memory_path: Path) -> None:
    whole = _damage_the_middle(memory_path)
    log = _open(memory_path, is_replica=True)
    first = int(sorted(memory_path.glob("*.log"))[1].stem)
    assert log.damaged == [first]
    assert log.recovery.has_lost
    assert log.recovery.lost_from == first
    assert log.end_offset == 24
    _patch_or_cut(log, whole)
    assert _stored(log) == whole
    log.let_go()
    again = _open(memory_path, is_replica=True)
    assert not again.damaged
    assert not again.recovery.has_lost
    assert not (memory_path / DAMAGED).exists()


def test_damage_is_found_again_by_every_start_until_it_is_patched(memory_path: Path) -> None:
    """A checkpoint vouches for what lies behind it, and nothing else would be scanned."""
    whole = _damage_the_middle(memory_path)
    for _ in range(3):
        log = _open(memory_path, is_replica=True)
        log.append_replica(b"", gaps=True)
        log.flush(checkpoint=True)
        assert log.damaged
        assert log.recovery.has_lost
        log.close()
    log = _open(memory_path, is_replica=True)
    _patch_or_cut(log, whole)
    assert _stored(log) == whole


def test_a_cut_takes_the_damage_along(memory_path: Path) -> None:
    _damage_the_middle(memory_path)
    log = _open(memory_path, is_replica=True)
    log.truncate_to(log.damaged[0])
    assert not log.damaged
    log.let_go()
    assert not _open(memory_path, is_replica=True).recovery.has_lost


def test_snapshots_that_were_made_over_damage_go_when_it_is_patched(memory_path: Path) -> None:
    whole = _damage_the_middle(memory_path)
    log = _open(memory_path, is_replica=True)
    kind = next(iter(SnapshotKind))
    _snapshot(memory_path, kind, log.damaged[0] - 1)
    _snapshot(memory_path, kind, log.end_offset - 1)
    kept = log.damaged[0] - 1
    _patch_or_cut(log, whole)
    assert _offsets(memory_path, kind) == [kept]


@pytest.mark.parametrize("at", [0.3, 0.999])
def test_a_loss_is_told_before_anything_is_cut(memory_path: Path, at: float) -> None:
    """After a kill in between, the next start finds a shorter log and nothing wrong with it."""
    log = _filled(memory_path)
    log.let_go()
    files = sorted(memory_path.glob("*.log"))
    damaged = files[int(at * len(files))]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    before = {path: path.read_bytes() for path in memory_path.iterdir()}
    told: list[Path] = []

    def lost(folder: Path) -> None:
        told.append(folder)
        assert {path: path.read_bytes() for path in memory_path.iterdir()} == before

    shared = SharedFiles(HastyDisk())
    shared.on_loss = lost
    replica = Log(memory_path, CONFIG, shared=shared, is_replica=True)
    assert told[0] == memory_path
    assert replica.recovery.has_lost
    assert replica.end_offset < log.end_offset


@pytest.mark.parametrize("refused", range(8))
def test_a_cut_that_the_disk_refuses_halfway_can_be_tried_again(
    memory_path: Path, refused: int
) -> None:
    disk = FaultyDisk(memory_path)
    log = Log(memory_path / "log", LogConfig(index_interval_bytes=1), disk=disk, is_replica=True)
    for _ in range(3):
        log.append(batch(2), leader_epoch=1)
    log.flush()
    for _ in range(3):
        log.append(batch(2), leader_epoch=1)
    disk.fail_next("sync", ending=".log")
    with pytest.raises(DiskError):
        log.flush()
    disk.fail_next("sync", skip=refused)
    for _ in range(3):
        try:
            log.cut_unsynced()
        except DiskError:
            continue
        break
    assert log.end_offset == 6
    log._failure = None
    log.append(batch(2), leader_epoch=1)
    assert log.end_offset == 8
    log.check_invariants()


# --- Copying --------------------------------------------------------------------------------------


def test_only_an_append_with_a_gap_writes_a_checkpoint(memory_path: Path) -> None:
    leader = _filled(memory_path / "leader")
    parts = [_stored(leader)[at : at + info.size_bytes] for at, info in walk(_stored(leader))]
    follower = _open(memory_path / "follower")
    follower.append_replica(parts[0])
    follower.flush(checkpoint=True)
    generation = follower.store.checkpoint.generation
    follower.append_replica(b"".join(parts[1:3]), gaps=True)
    assert follower.store.checkpoint.generation == generation
    follower.append_replica(b"".join(parts[4:6]), gaps=True)
    assert follower.store.checkpoint.generation == generation + 1
    assert follower.store.checkpoint.gaps_below == 10  # behind the batch that follows the gap
    follower.append_replica(b"".join(parts[6:8]), gaps=True)
    assert follower.store.checkpoint.generation == generation + 1
    again = _open(memory_path / "follower")
    assert again.recovery.clean
    assert _stored(again) == b"".join([*parts[:3], *parts[4:8]])


def test_the_epochs_of_an_append_are_noted_once_for_all_of_them(memory_path: Path) -> None:
    leader = _filled(memory_path / "leader", epochs=4)
    follower = _open(memory_path / "follower")
    follower.append_replica(_stored(leader))
    assert follower.epochs == leader.epochs
    follower.flush(checkpoint=True)
    for epoch in (8, 9):
        leader.append(batch(1), leader_epoch=epoch)
    generation = follower.store.checkpoint.generation
    plan = follower.plan_replica(_stored(leader))
    assert plan.note is not None
    plan.note()
    follower.append_planned(plan)
    assert follower.store.checkpoint.generation == generation + 1
    assert follower.epochs == leader.epochs
    assert _open(memory_path / "follower").epochs == leader.epochs


def test_an_epoch_without_records_is_forgotten_for_good(memory_path: Path) -> None:
    log = _filled(memory_path)
    log.note_epoch(9)
    assert _open(memory_path).epochs.latest == 1  # nothing was written in it
    assert log.epochs.latest == 9
    log.forget_epochs()
    assert log.epochs.starts == ((1, 0),)
    leader = _filled(memory_path / "leader", 14)
    log.append_replica(_stored(leader))
    assert _stored(_open(memory_path)) == _stored(leader)

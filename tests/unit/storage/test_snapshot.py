"""Snapshots of state built from a log: the newest whole one, or an older one, or none."""

from __future__ import annotations

import errno
import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from goqueue.runtime.disk import SystemDisk
from goqueue.storage.snapshot import Entry, Snapshot, SnapshotFolder, snapshot_due
from support.disks import FaultyDisk, SimulatedCrash

if TYPE_CHECKING:
    from pathlib import Path

GROUPS, TRANSACTIONS = 1, 2
FAR = 1_000_000
"""The end of a log that has everything."""


def state(offset: int, *, kind: int = GROUPS, stamp: int = 5) -> Snapshot:
    entries = Entry(1, b"group", b"%d" % offset), Entry(2, b"", b"")
    return Snapshot(kind, offset, stamp, entries)


def folder_of(path: Path, kind: int = GROUPS) -> SnapshotFolder:
    return SnapshotFolder(SystemDisk(), path, kind)


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


# --- The bytes -------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    kind=st.integers(0, 2**16 - 1),
    offset=st.integers(-1, 2**63 - 1),
    stamp=st.integers(-1, 2**63 - 1),
    entries=st.lists(
        st.builds(Entry, st.integers(0, 255), st.binary(max_size=40), st.binary(max_size=40))
    ),
)
def test_what_was_encoded_is_decoded(
    kind: int, offset: int, stamp: int, entries: list[Entry]
) -> None:
    snapshot = Snapshot(kind, offset, stamp, tuple(entries))
    assert Snapshot.decode(snapshot.encode()) == snapshot


def test_the_header_is_laid_out_as_documented() -> None:
    data = Snapshot(TRANSACTIONS, 77, 88, (Entry(9, b"key", b"value!"),)).encode()
    assert data[:4] == b"GQSP"
    assert struct.unpack(">HH", data[4:8]) == (1, TRANSACTIONS)
    assert struct.unpack(">I", data[8:12]) == (zlib.crc32(data[12:]),)
    assert struct.unpack(">qqI", data[12:32]) == (77, 88, 1)
    assert data[32:] == b"\x09\0\0\0\x03key\0\0\0\x06value!"


def test_no_cut_off_snapshot_is_taken_for_a_whole_one() -> None:
    data = state(7).encode()
    assert all(Snapshot.decode(data[:length]) is None for length in range(len(data)))
    assert Snapshot.decode(data + b"\0") is None


def test_entries_that_do_not_fit_their_count_are_damage_even_with_a_fitting_checksum() -> None:
    for count in (1, 3):
        data = bytearray(state(7).encode())
        data[28:32] = count.to_bytes(4, "big")
        data[8:12] = zlib.crc32(data[12:]).to_bytes(4, "big")
        assert Snapshot.decode(bytes(data)) is None


# --- The folder ------------------------------------------------------------------------------


def test_the_newest_is_loaded_and_three_are_kept(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    assert folder.load(FAR) is None
    for offset in (10, 20, 30, 40, 50):
        assert folder.save(state(offset)).is_file()
    assert names(tmp_path) == [f"snapshot-1-{offset:020d}-5.bin" for offset in (30, 40, 50)]
    assert folder_of(tmp_path).load(FAR) == state(50)


def test_the_same_offset_at_a_later_time_is_newer(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    folder.save(state(10, stamp=9))
    folder.save(state(10, stamp=10))
    assert folder.load(FAR) == state(10, stamp=10)


def test_kinds_do_not_mix(tmp_path: Path) -> None:
    groups, transactions = folder_of(tmp_path), folder_of(tmp_path, TRANSACTIONS)
    for offset in (1, 2, 3, 4):
        transactions.save(state(offset, kind=TRANSACTIONS))
    groups.save(state(2))
    assert len(names(tmp_path)) == 4
    assert groups.load(FAR) == state(2)
    assert transactions.load(FAR) == state(4, kind=TRANSACTIONS)


def test_a_file_of_another_kind_under_our_name_is_damage(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    folder.save(state(1))
    folder.save(state(2)).write_bytes(state(2, kind=TRANSACTIONS).encode())
    assert folder.load(FAR) == state(1)
    assert len(folder.damaged) == 1


def test_other_files_are_neither_read_nor_removed(tmp_path: Path) -> None:
    foreign = ["notes.txt", "snapshot-1-7-5.bin", "00000000000000000000.log"]
    for name in foreign:
        (tmp_path / name).write_bytes(b"mine")
    folder = folder_of(tmp_path)
    for offset in (1, 2, 3, 4):
        folder.save(state(offset))
    assert folder.load(FAR) == state(4)
    assert set(foreign) <= set(names(tmp_path))


def test_every_flipped_bit_makes_it_fall_back_to_the_one_before(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    folder.save(state(1))
    path = folder.save(state(2))
    data = path.read_bytes()
    for byte in range(len(data)):
        for bit in range(8):
            path.write_bytes(data[:byte] + bytes([data[byte] ^ 1 << bit]) + data[byte + 1 :])
            assert folder.load(FAR) == state(1), f"bit {bit} of byte {byte}"
            assert folder.damaged == [path.name]
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert folder.load(FAR) == state(1), f"cut to {length}"


def test_when_all_are_damaged_there_is_none(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    for offset in (1, 2, 3):
        folder.save(state(offset)).write_bytes(b"GQSP")
    assert folder.load(FAR) is None
    assert len(folder.damaged) == 3


def test_a_sector_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    folder = SnapshotFolder(disk, tmp_path, GROUPS)
    folder.save(state(1))
    folder.save(state(2))
    disk.fail_next("read", errno.EIO)
    assert folder.load(FAR) == state(1)
    assert len(folder.damaged) == 1


def test_one_that_reaches_the_end_of_the_log_or_past_it_is_not_used(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    for offset in (10, 20, 30):
        folder.save(state(offset))
    assert folder.load(31) == state(30)
    assert folder.load(30) == state(20)
    assert folder.load(5) is None


def test_one_of_a_past_that_was_cut_off_never_comes_back(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    for offset in (100, 200, 300):
        folder.save(state(offset))
    assert folder.load(150) == state(100)
    assert folder.load(FAR) == state(100), "the log has grown again, with other records"


def test_saving_after_the_log_was_cut_keeps_the_new_one(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    for offset in (100, 200, 300):
        folder.save(state(offset))
    path = folder.save(state(50))
    assert path.is_file()
    assert folder.load(FAR) == state(50)


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_crash_at_any_step_of_saving_leaves_the_older_or_the_new_one(
    tmp_path: Path, power_cut: bool
) -> None:
    crashes = 0
    for seed in range(5 if power_cut else 1):
        for step in range(100):
            root = tmp_path / f"{seed}-{step}"
            root.mkdir()
            disk = FaultyDisk(root, seed=seed)
            folder = SnapshotFolder(disk, root, GROUPS)
            for offset in (1, 2, 3):
                folder.save(state(offset))
            disk.crash_after(step)
            try:
                folder.save(state(4))
            except SimulatedCrash:
                crashes += 1
            else:
                assert folder.load(FAR) == state(4)
                break
            disk.crash() if power_cut else disk.kill()
            folder = SnapshotFolder(disk, root, GROUPS)
            assert folder.load(FAR) in {state(3), state(4)}
            assert folder.damaged == []
            assert not any(name.endswith(".tmp") for name in names(root))
            folder.save(state(5))
            assert len(names(root)) == 3
    assert crashes >= 5


def test_a_snapshot_is_due_after_enough_records_or_enough_time() -> None:
    assert not snapshot_due(9_999, 299_999)
    assert snapshot_due(10_000, 0)
    assert snapshot_due(1, 300_000)
    assert not snapshot_due(0, 10**9), "nothing has changed"

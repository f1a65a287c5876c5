"""Which file systems can be synced at once, and that it can be asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.runtime.disk import SystemDisk
from goqueue.runtime.sync_all import SyncAll, file_system_of, kernel_version

MOUNTS = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
30 22 0:30 / /data rw shared:1 - xfs /dev/vdb rw
31 30 0:31 / /data/far rw - nfs4 server:/x rw
32 30 0:32 / /data/far rw - fuse.sshfs server:/y rw
33 22 0:33 / /with\040space rw - btrfs /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/data", "xfs"),
        ("/data/goqueue/topics", "xfs"),
        ("/database", "ext4"),
        ("/data/far/away", "fuse.sshfs"),
        ("/with space/x", "btrfs"),
    ],
)
def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert file_system_of(Path(folder), MOUNTS) == kind


def test_the_kernel_has_a_version() -> None:
    assert kernel_version() > (2, 0)


def test_a_disk_says_whether_it_could_sync_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    possible = SyncAll.of(tmp_path) is not None
    disk = SystemDisk()
    assert disk.sync_all(tmp_path) is possible
    assert disk.sync_all(tmp_path) is possible


def test_memory_is_not_synced(memory_path: Path) -> None:
    if not memory_path.is_relative_to("/dev/shm"):
        pytest.skip("there is no folder in memory")
    assert SyncAll.of(memory_path) is None

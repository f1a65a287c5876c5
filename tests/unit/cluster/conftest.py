from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.etcd import EtcdMembers, etcd_members
from unit.cluster.backends import Backend, EtcdBackend, SqliteBackend

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A folder whose syncs are free, where the machine has one: these tests are not about disks."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdMembers]:
    """One member, for all tests of a file."""
    with etcd_members(1) as members:
        yield members


@pytest.fixture(params=["sqlite", "etcd"])
def backend(request: pytest.FixtureRequest, memory_folder: Path) -> Backend:
    """Each kind of store in turn."""
    if request.param == "sqlite":
        return SqliteBackend(memory_folder)
    members: EtcdMembers = request.getfixturevalue("etcd")
    return EtcdBackend(members.endpoints)

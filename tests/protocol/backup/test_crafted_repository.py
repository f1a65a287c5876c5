"""A repository that somebody has written by hand: no name in it leads out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pytest
from blake3 import blake3
from obstore.store import S3Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.testing import Broker
    from support.backups import BackupApi

PRECIOUS = b"not of the repository"


class Folder:
    """The files of a repository in a folder, and one beside it."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path
        self.destination = str(tmp_path / "backups")
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "precious").write_bytes(PRECIOUS)
        self.names = ["../outside/precious", str(tmp_path / "outside" / "precious")]

    def read(self, name: str) -> bytes:
        return Path(self.destination, name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        Path(self.destination, name).write_bytes(data)

    def outside(self) -> dict[str, bytes]:
        """Every file that is not of the repository."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and not path.is_relative_to(self.destination)
        }


class Bucket:
    """The same in S3."""

    def __init__(self, destination: str) -> None:
        self.destination = destination
        self._store = S3Store.from_url("s3://backups", client_options={"allow_http": True})
        obstore.put(self._store, "outside/precious", PRECIOUS)
        self.names = ["../outside/precious", "/outside/precious"]

    def read(self, name: str) -> bytes:
        return bytes(obstore.get(self._store, f"goqueue/{name}").bytes())

    def write(self, name: str, data: bytes) -> None:
        obstore.put(self._store, f"goqueue/{name}", data)

    def outside(self) -> dict[str, bytes]:
        keys = [each["path"] for page in obstore.list(self._store) for each in page]
        return {
            key: bytes(obstore.get(self._store, key).bytes())
            for key in keys
            if not key.startswith("goqueue/")
        }


@pytest.fixture(params=["folder", "s3"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Folder | Bucket:
    if request.param == "folder":
        return Folder(tmp_path)
    return Bucket(request.getfixturevalue("bucket"))


def craft(repository: Folder | Bucket, backup_id: str, name: str) -> None:
    """Let the manifest and the summary of a backup name a file elsewhere, with right checksums."""
    head, _, body = repository.read(f"backups/{backup_id}/manifest").partition(b"\n")
    assert head.startswith(b"goqueue-backup ")
    manifest = json.loads(body)
    file = manifest["topics"][-1]["partitions"][0]["parts"][0]["file"]
    was, file["name"] = file["name"], name
    file["size_bytes"], file["blake3"] = len(PRECIOUS), blake3(PRECIOUS).hexdigest()
    data = json.dumps(manifest).encode()
    sum_line = b"goqueue-backup " + blake3(data).hexdigest().encode() + b"\n"
    repository.write(f"backups/{backup_id}/manifest", sum_line + data)
    summary = json.loads(repository.read(f"backups/{backup_id}/summary"))
    assert was in summary["files"]
    summary["files"] = [name if each == was else each for each in summary["files"]]
    repository.write(f"backups/{backup_id}/summary", json.dumps(summary).encode())


@pytest.mark.parametrize("which", [0, 1], ids=["relative", "absolute"])
def test_a_name_that_leads_out_of_a_repository_is_neither_read_nor_written_nor_deleted(
    source: Broker,
    target: Broker,
    backups: Callable[..., BackupApi],
    repository: Folder | Bucket,
    which: int,
) -> None:
    source.create_topic("orders", partitions=1)
    made = backups(source, repository.destination)
    for number in range(3):
        source.publish("orders", str(number))
        made.done(made.create())
    ids = sorted(each["id"] for each in made.list())
    outside = repository.outside()
    assert PRECIOUS in outside.values()
    craft(repository, ids[1], repository.names[which])

    for job in (made.verify(ids[1]), backups(target, repository.destination).restore(ids[1])):
        assert job["state"] == "failed", job
        assert "cannot be one of its own" in job["error"]
    assert target.topics() == []
    assert repository.outside() == outside
    # the crafted one is kept, then removed, then followed by another
    for body in ({"keep": 2}, {"keep": 1}):
        asked = {"destination": repository.destination, **body}
        made.api.ask("POST", "/admin/backup/prune", asked)
        assert repository.outside() == outside
    path = f"/admin/backup/{ids[1]}?destination={repository.destination}"
    made.api.ask("DELETE", path)
    made.create()
    assert repository.outside() == outside
    assert made.verify(ids[2])["state"] == "done", "the whole one beside it is still there"

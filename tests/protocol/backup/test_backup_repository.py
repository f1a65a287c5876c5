"""What is in a repository: only what is new, nothing that is damaged, nobody without the key."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from blake3 import blake3

from goqueue.backup.manifest import Manifest, TopicCopy, decode_manifest, encode_manifest
from goqueue.backup.planning import RestoreRequest, plan_restore
from goqueue.model.errors import BackupError, DamagedBackupError
from goqueue.topics.catalogue import Catalogue
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goqueue.testing import Broker
    from support.backups import BackupApi


def _fill(broker: Broker, count: int, size: int = 2000) -> None:
    for number in range(count):
        broker.publish("orders", f"{number} ".ljust(size, "x"), key=str(number))


def _parts(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "parts").rglob("*") if path.is_file())


def test_the_second_backup_copies_what_is_new_and_pruning_keeps_what_is_needed(
    source: Broker, target: Broker, backups: Callable[..., BackupApi], tmp_path: Path
) -> None:
    source.create_topic("orders", partitions=2)
    source.create_topic("newest", partitions=1, settings={"cleanup.policy": "compact"})
    _fill(source, 200)
    source.publish("newest", "1", key="k")
    made = backups(source)
    first = made.done(made.create())
    again = made.done(made.create())
    assert again["copied_bytes"] == 0
    assert again["total_bytes"] == first["total_bytes"]
    _fill(source, 20)
    source.publish("newest", "2", key="k")
    third = made.done(made.create())
    assert 0 < third["copied_bytes"] < 60_000 < first["copied_bytes"]
    full = made.done(made.create(full=True, topics=["orders"]))
    assert full["copied_bytes"] > first["copied_bytes"] * 0.9
    assert [each["since"] is None for each in made.list()] == [True, False, False, True]
    ids = [each["id"] for each in made.list()]
    body = {"destination": made.destination, "keep": 2}
    pruned = made.api.ask("POST", "/admin/backup/prune", body)
    assert pruned.json["removed"] == sorted(ids[2:])
    for backup_id in ids[:2]:
        assert made.verify(backup_id)["state"] == "done"
    restored = backups(target)
    restored.done(restored.restore(ids[1]))
    assert len(target.messages("orders")) == 220
    deleted = made.api.ask("DELETE", f"/admin/backup/{ids[0]}?destination={made.destination}")
    assert deleted.json["files"] > 2
    assert made.verify()["state"] == "done"
    assert tmp_path.joinpath("backups", "repository.json").stat().st_mode & 0o777 == 0o600


def _flip(folder: Path) -> None:
    path = _parts(folder)[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _lose(folder: Path) -> None:
    _parts(folder)[0].unlink()


def _flip_manifest(folder: Path) -> None:
    (path,) = folder.glob("backups/*/manifest")
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)


def _escape(folder: Path) -> None:
    """A manifest whose checksum is right, and which names a file elsewhere."""
    (path,) = folder.glob("backups/*/manifest")
    head, _, body = path.read_bytes().partition(b"\n")
    assert head.startswith(b"goqueue-backup ")
    changed = json.loads(body)
    file = changed["topics"][-1]["partitions"][0]["parts"][0]["file"]
    file["name"] = "parts/../../../etc/passwd"
    data = json.dumps(changed).encode()
    path.write_bytes(b"goqueue-backup " + blake3(data).hexdigest().encode() + b"\n" + data)


@pytest.mark.parametrize(
    "harm_said",
    [
        (_flip, "its BLAKE3 does not match"),
        (_lose, "is missing"),
        (_flip_manifest, "the manifest is damaged"),
        (_escape, "cannot be one of its own"),
    ],
)
def test_a_damaged_backup_is_found_and_nothing_of_it_is_restored(
    source: Broker,
    target: Broker,
    backups: Callable[..., BackupApi],
    tmp_path: Path,
    harm_said: tuple[Callable[[Path], None], str],
) -> None:
    harm, said = harm_said
    source.create_topic("orders", partitions=1)
    _fill(source, 20)
    made = backups(source)
    made.done(made.create())
    harm(tmp_path / "backups")
    verified = made.verify()
    assert verified["state"] == "failed"
    assert said in verified["error"]
    restored = backups(target).restore()
    assert restored["state"] == "failed"
    assert said in restored["error"]
    assert target.topics() == []


def test_names_that_leave_the_repository_are_refused() -> None:
    for name in ("../x", "parts/../../x", "/etc/passwd", "parts//x", "parts/.x", "parts\\x", ""):
        data = (
            '{"id":"i","created_ms":1,"version":"","cluster_id":"","topics":[],"is_whole":true,'
            f'"metadata":{json.dumps({"name": name, "size_bytes": 1, "blake3": ""})},"format":1}}'
        )
        head = b"goqueue-backup " + blake3(data.encode()).hexdigest().encode() + b"\n"
        with pytest.raises(DamagedBackupError, match="cannot be one of its own"):
            decode_manifest(head + data.encode())


def test_an_encrypted_backup_needs_its_key_and_shows_no_names(
    source: Broker, target: Broker, backups: Callable[..., BackupApi], tmp_path: Path
) -> None:
    source.create_topic("orders", partitions=1)
    _fill(source, 20)
    made = backups(source, passphrase="correct horse")
    made.done(made.create())
    stored = b"".join(p.read_bytes() for p in (tmp_path / "backups").rglob("*") if p.is_file())
    assert b"orders" not in stored
    assert b"xxxx" not in stored
    assert [each["encrypted"] for each in made.list()] == [True]
    for wrong in (backups(target), backups(target, passphrase="wrong")):
        refused = wrong.restore()
        assert refused["state"] == "failed", refused
        assert "key" in refused["error"]
        assert wrong.verify()["state"] == "failed"
    assert target.topics() == []
    right = backups(target, passphrase="correct horse")
    right.done(right.verify())
    right.done(right.restore())
    assert len(target.messages("orders")) == 20
    _flip(tmp_path / "backups")
    assert right.verify()["state"] == "failed"


def test_a_key_file_encrypts_and_a_plain_repository_takes_no_key(
    source: Broker, backups: Callable[..., BackupApi], tmp_path: Path
) -> None:
    source.create_topic("orders", partitions=1)
    _fill(source, 3)
    key = tmp_path / "key"
    key.write_text(os.urandom(32).hex() + "\n")
    made = backups(source, key_file=str(key))
    made.done(made.create())
    made.done(made.verify())
    plain = backups(source, str(tmp_path / "plain"))
    plain.done(plain.create())
    refused = backups(source, str(tmp_path / "plain"), key_file=str(key)).create()
    assert "is not encrypted" in refused["error"]


def test_destinations_that_would_be_lost_or_overwritten_are_refused(
    source: Broker, backups: Callable[..., BackupApi], tmp_path: Path
) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("mine")
    for destination, said in (
        ("relative", "relative path"),
        (str(source.data_dir / "backups"), "lies in the data folder"),
        (str(tmp_path / "used"), "no backups"),
        ("gs://bucket/x", "is no destination"),
    ):
        refused = backups(source, destination).create()
        assert refused["state"] == "failed"
        assert said in refused["error"]
    assert (tmp_path / "used" / "file").read_text() == "mine"


def test_a_backup_goes_to_s3_and_comes_back(
    source: Broker, target: Broker, backups: Callable[..., BackupApi], bucket: str
) -> None:
    source.create_topic("orders", partitions=2)
    _fill(source, 50)
    made = backups(source, bucket)
    made.done(made.create())
    _fill(source, 5)
    assert made.done(made.create())["copied_bytes"] < 20_000
    assert len(made.list()) == 2
    made.done(made.verify())
    restored = backups(target, bucket)
    restored.done(restored.restore())
    assert len(target.messages("orders")) == 55
    body = {"destination": bucket, "keep": 1}
    assert len(made.api.ask("POST", "/admin/backup/prune", body).json["removed"]) == 1
    made.done(made.verify())


def test_manifests_are_read_as_they_were_written() -> None:
    manifest = Manifest("20260101T000000Z-1", 1, "1", "c", (), is_whole=True)
    assert decode_manifest(encode_manifest(manifest)) == manifest


def test_the_audit_topic_of_another_broker_is_restored_under_another_name_alone() -> None:
    copies = tuple(
        TopicCopy(name, uuid4().hex, {}, is_internal=False, is_compacted=False, partitions=())
        for name in ("orders", "__audit")
    )
    manifest = Manifest("20260101T000000Z-1", 1, "1", "c", copies, is_whole=True)
    whole = plan_restore(RestoreRequest("/b"), manifest, Catalogue())
    assert list(whole.topics) == ["orders"]
    assert whole.with_state
    request = RestoreRequest("/b", topics=("__audit",), rename={"__audit": "old-audit"})
    assert list(plan_restore(request, manifest, Catalogue()).topics) == ["old-audit"]
    clash = RestoreRequest("/b", rename={"orders": "__audit"})
    with pytest.raises(BackupError):
        plan_restore(clash, manifest, Catalogue())


def test_a_backup_that_was_cancelled_is_resumed(
    source: Broker, target: Broker, backups: Callable[..., BackupApi]
) -> None:
    source.create_topic("orders", partitions=4)
    _fill(source, 400)
    made = backups(source)
    begun = made.begin("/admin/backup", {"rate_bytes": 300_000})

    def is_past_half() -> bool:
        job = made.api.ask("GET", f"/admin/backup/{begun['id']}").json["job"]
        assert job["state"] == "running", job
        return bool(job["total_bytes"] and job["done_bytes"] > 0.6 * job["total_bytes"])

    eventually(is_past_half, "more than half of it", 60)
    cancelled = made.api.ask("DELETE", f"/admin/backup/{begun['id']}")
    assert cancelled.status == 200, cancelled
    assert made.ended(begun["id"])["state"] != "done"
    assert made.list() == []
    resumed = made.done(made.create())
    assert 0 < resumed["copied_bytes"] < 0.8 * resumed["total_bytes"]
    made.done(made.verify())
    restored = backups(target)
    restored.done(restored.restore())
    assert len(target.messages("orders")) == 400

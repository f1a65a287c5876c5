"""The audit log on a disk: over restarts, rotation, crashes, a full disk and a full queue."""

from __future__ import annotations

import asyncio
import errno
import json
import stat
import threading
from typing import Any

import pytest

from goqueue.audit import writer as writer_module
from goqueue.audit.files import HEAD_FILE, AuditFiles, log_names, read_head
from goqueue.audit.limits import MAX_QUEUED
from goqueue.audit.log import NO_AUDIT
from goqueue.audit.settings import FileLimits
from goqueue.audit.verifying import Verified, read_lines, verify
from goqueue.audit.writer import WrittenAuditLog
from goqueue.metrics import security_names as names
from goqueue.metrics.registry import Metrics
from goqueue.runtime.disk import SystemDisk
from support.clocks import ManualClock
from support.disks import Fault, FaultyDisk
from support.scenarios import scenario


def checked(folder) -> Verified:
    files = [folder / name for name in log_names([each.name for each in folder.iterdir()])]
    lines = [line for path in files for line in read_lines(path)]
    return verify(lines, head=read_head(SystemDisk(), folder))


def events(folder) -> list[dict[str, Any]]:
    files = [folder / name for name in log_names([each.name for each in folder.iterdir()])]
    lines = (line for path in files for line in read_lines(path))
    return [json.loads(line) for line in lines if line.endswith(b"}\n")]


def log_in(folder, disk=None, **options) -> WrittenAuditLog:
    return WrittenAuditLog(disk or SystemDisk(), folder, ManualClock(), "node-1", **options)


async def written(folder, *principals: str, disk=None, **options) -> WrittenAuditLog:
    """A log that was started, took events of these, and was stopped."""
    log = log_in(folder, disk, **options)
    await log.start()
    for each in principals:
        log.record("auth_success", principal=each, host="127.0.0.1")
    await log.stop()
    return log


@scenario
async def test_the_chain_goes_on_over_restarts_in_files_that_only_the_owner_reads(tmp_path) -> None:
    for user in ("a", "b", "c"):
        await written(tmp_path, user)
    found = checked(tmp_path)
    assert (found.lines, found.problems) == (9, [])
    assert [each["principal"] for each in events(tmp_path) if each["principal"]] == ["a", "b", "c"]
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@scenario
async def test_the_chain_goes_on_over_rotation_and_says_what_expired(tmp_path) -> None:
    log = log_in(tmp_path, limits=FileLimits(file_bytes=2000, kept_files=3))
    await log.start()
    for number in range(100):
        await recorded(log, "topic_created", resource=f"topic:{number}")
    await log.stop()
    assert len(log_names([each.name for each in tmp_path.iterdir()])) == 3
    found = checked(tmp_path)
    assert found.problems == []
    assert found.first > 1
    assert any(each["event"] == "audit_rotated" for each in events(tmp_path))
    oldest = min(tmp_path.glob("audit-*.log"))
    oldest.unlink()
    assert checked(tmp_path).problems


async def recorded(log: WrittenAuditLog, event: str, **fields: Any) -> None:
    """Hand an event in, and wait until it is stored: files are looked at between writes."""
    done = threading.Event()
    log.on_written = lambda _: done.set()
    log.record(event, **fields)
    assert await asyncio.to_thread(done.wait, 10)


@pytest.mark.parametrize("cut", [1, 20, 200])
@scenario
async def test_a_torn_last_line_is_cut_off_and_the_chain_goes_on(tmp_path, cut) -> None:
    await written(tmp_path, "a")
    (path,) = tmp_path.glob("audit-*.log")
    with path.open("ab") as file:  # a line that was never synced: the head does not know it
        file.write(path.read_bytes().splitlines(keepends=True)[-1][:-cut])
    await written(tmp_path, "b")
    assert checked(tmp_path).problems == []
    assert [each for each in events(tmp_path) if each["details"].get("torn_bytes")]


@scenario
async def test_lines_that_were_cut_off_while_the_server_was_down_show(tmp_path, caplog) -> None:
    await written(tmp_path, "a", "b")
    (path,) = tmp_path.glob("audit-*.log")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    await written(tmp_path, "c")
    assert checked(tmp_path).problems == ["lines 3 to 4 are missing"]
    assert "2 lines that were stored are missing" in caplog.text


@scenario
async def test_a_last_line_that_is_none_does_not_stop_the_log(tmp_path) -> None:
    await written(tmp_path, "a")
    (path,) = tmp_path.glob("audit-*.log")
    with path.open("ab") as file:
        file.write(b"nonsense\n")
    (tmp_path / HEAD_FILE).write_bytes(b"nonsense")
    await written(tmp_path, "b")
    assert checked(tmp_path).problems
    assert events_of_user(tmp_path, "b")


def events_of_user(folder, name: str) -> list[bytes]:
    return [
        line for path in folder.glob("audit-*.log") for line in read_lines(path)
        if f'"principal":"{name}"'.encode() in line
    ]  # fmt: skip


@scenario
async def test_a_full_queue_drops_events_and_the_log_says_how_many(tmp_path) -> None:
    log = log_in(tmp_path)
    for _ in range(MAX_QUEUED + 7):
        log.record("auth_failure", principal="User:eve")
    await log.start()  # its own event is the eighth without room
    await log.stop()
    found = checked(tmp_path)
    assert found.problems == []
    assert found.dropped_events in {8, 9}  # that of the stop may have found room
    assert metrics_dropped(log) == found.dropped_events


def metrics_dropped(log: WrittenAuditLog) -> float:
    metrics = Metrics("1")
    metrics.add_source(log.put)
    return metrics.read().values[names.AUDIT_DROPPED][()]


@scenario
async def test_events_wait_for_a_disk_that_is_full_and_are_written_then(
    tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(writer_module, "_RETRY_S", 0.001)
    disk = FaultyDisk(tmp_path / "disk")
    disk.faults.append(Fault("write", errno.ENOSPC, ".log", skip=2, times=3, short=30))
    folder = tmp_path / "disk" / "audit"
    log = log_in(folder, disk)
    await log.start()
    await recorded(log, "auth_failure")
    for number in range(50):
        log.record("auth_success", principal=f"User:{number}")
    while sum(each["event"] == "auth_success" for each in events(folder)) < 50:  # noqa: ASYNC110 - of a thread
        await asyncio.sleep(0.01)
    await log.stop()
    found = checked(folder)
    assert found.problems == []
    assert "nothing can be written" in caplog.text
    assert log.failure is None


@scenario
async def test_the_writer_goes_on_after_an_event_that_cannot_be_written(tmp_path) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    log = log_in(tmp_path)
    await log.start()
    await recorded(log, "auth_failure")
    log.record("auth_success", detail=Broken())
    while not metrics_dropped(log):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.01)
    log.record("auth_success", principal="User:b")
    await log.stop()
    assert checked(tmp_path).problems == []
    assert events_of_user(tmp_path, "User:b")


def test_a_log_that_is_off_takes_events_and_does_nothing() -> None:
    NO_AUDIT.record("auth_success", principal="User:a", anything=1)
    assert not NO_AUDIT.is_on


def test_files_of_a_log_are_in_the_order_of_their_first_lines(tmp_path) -> None:
    files = AuditFiles(SystemDisk(), tmp_path, FileLimits())
    files.open()
    assert files.roll(1) is None
    files.close()
    found = ["audit-000000000010.log", "audit.head", "audit-000000000002.log", "x.log"]
    assert log_names(found) == ["audit-000000000002.log", "audit-000000000010.log"]

"""`goqueue backup`: every command, against a live server."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from goqueue.backup.schedule import Schedule, next_run_ms
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from goqueue.testing import Broker
    from support.commands import Run

DAY_MS = 86_400_000


def test_a_backup_is_made_listed_verified_restored_and_pruned(
    run: Run, goqueue_broker: Broker, tmp_path: Path
) -> None:
    topic = goqueue_broker.create_topic(goqueue_broker.unique_name(), partitions=1)
    for number in range(3):
        goqueue_broker.publish(topic, str(number))
    folder = str(tmp_path / "backups")
    made = json.loads(run("backup", "create", folder, "--topics", topic, "-o", "json").stdout)
    assert made["state"] == "done"
    assert "copied" in run("backup", "create", folder, "--rate", "50MB").output
    listed = json.loads(run("backup", "list", folder, "-o", "json").stdout)
    assert [each["whole"] for each in listed] == [True, False]
    assert made["id"] in run("backup", "show", made["id"], "-d", folder).output
    assert "problems" in run("backup", "verify", folder).output
    said = run("backup", "restore", folder, code=1).output
    assert "is there already" in said
    again = f"{topic}-again"
    for extra in (["--dry-run"], []):
        run("backup", "restore", folder, "--topics", topic, "--rename", f"{topic}={again}", *extra)
    assert [m.value for m in goqueue_broker.messages(again)] == [b"0", b"1", b"2"]
    goqueue_broker.delete_topic(topic)
    run("backup", "restore", folder, made["id"], "--to", str(round(time.time() * 1000) - 3_600_000))
    assert goqueue_broker.messages(topic) == []
    run("backup", "delete", listed[0]["id"], "-d", folder, "-f")
    pruned = json.loads(run("backup", "prune", folder, "--keep", "1", "-f", "-o", "json").stdout)
    assert pruned["removed"] == []
    assert "no backup" in run("backup", "verify", folder, listed[0]["id"], code=1).output


def test_the_passphrase_comes_from_a_file_or_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, secret = str(tmp_path / "sealed"), tmp_path / "secret"
    secret.write_text("correct horse\n")
    run("backup", "create", folder, "--passphrase-file", str(secret))
    assert "is encrypted" in run("backup", "verify", folder, code=1).output
    monkeypatch.setenv("GOQUEUE_BACKUP_PASSPHRASE", "correct horse")
    run("backup", "verify", folder)
    monkeypatch.setenv("GOQUEUE_BACKUP_PASSPHRASE", "wrong")
    assert "is not the one" in run("backup", "verify", folder, code=1).output
    both = ("--key-file", "/k", "--passphrase-file", str(secret))
    assert "one of the two" in run("backup", "verify", folder, *both, code=2).output


def test_the_server_makes_backups_by_schedule(run: Run, tmp_path: Path) -> None:
    folder = str(tmp_path / "scheduled")
    run("backup", "schedule", "set", folder, "--every", "1h", "--keep", "2")
    shown = json.loads(run("backup", "schedule", "show", "-o", "json").stdout)
    assert shown["schedule"]["keep"] == 2

    def made() -> bool:
        listed = run("backup", "schedule", "show", "-o", "json").stdout
        if json.loads(listed)["last_run"] is None:
            return False
        return bool((tmp_path / "scheduled" / "backups").exists())

    eventually(made, "a scheduled backup", 60)
    shown = json.loads(run("backup", "schedule", "show", "-o", "json").stdout)
    assert shown["next_run"] == shown["last_run"] + 3_600_000
    run("backup", "schedule", "remove")
    assert json.loads(run("backup", "schedule", "show", "-o", "json").stdout)["schedule"] is None


def test_a_time_of_day_is_kept_whatever_the_interval() -> None:
    two = 2 * 3_600_000
    daily = Schedule("/b", at="02:00", set_ms=10 * DAY_MS)
    assert next_run_ms(daily, None) == 10 * DAY_MS + two
    assert next_run_ms(daily, 10 * DAY_MS + two + 5) == 11 * DAY_MS + two
    late = Schedule("/b", at="02:00", set_ms=10 * DAY_MS + 2 * two)
    assert next_run_ms(late, None) == 11 * DAY_MS + two
    hourly = Schedule("/b", 3_600_000, set_ms=5)
    assert next_run_ms(hourly, None) == 5
    assert next_run_ms(hourly, 100) == 3_600_100

"""`goqueue debug bundle`: what is in it, and that no secret is."""

from __future__ import annotations

import json
import stat
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.cli.debug.redaction import Redactor

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.testing import Broker
    from support.commands import Run

PLANTED = "planted-Secret-77"


def files_of(path: Path) -> dict[str, str]:
    """Each file by its name without the folder."""
    with tarfile.open(path) as tar:
        found = {}
        for member in tar.getmembers():
            content = tar.extractfile(member)
            assert content is not None
            found[member.name.partition("/")[2]] = content.read().decode()
        return found


def test_a_bundle_has_what_is_needed_and_lists_it(
    run: Run, goqueue_broker: Broker, goqueue_topic: str, tmp_path: Path
) -> None:
    goqueue_broker.publish(goqueue_topic, "the value of a message")
    log = tmp_path / "server.log"
    log.write_text("ready in 100 ms\n")
    path = tmp_path / "bundle.tar.gz"
    said = json.loads(run("debug", "bundle", str(path), "--log", str(log), "-o", "json").stdout)
    found = files_of(path)
    manifest = json.loads(found["manifest.json"])
    assert [each["file"] for each in said["files"]] == [e["file"] for e in manifest["files"]]
    assert not [each for each in manifest["files"] if each["note"]]
    assert json.loads(found["server/topics-described.json"])["described"][goqueue_topic]
    assert json.loads(found["server/cluster/health.json"])["status"]
    assert "data_dir" in found["server/configuration.json"]
    assert "goqueue_" in found["server/metrics.txt"]
    assert found["server/log.txt"] == "ready in 100 ms\n"
    assert json.loads(found["client/version.json"])["client"]["version"]
    assert "the value of a message" not in "".join(found.values())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_planted_secret_is_in_a_bundle(
    run: Run,
    goqueue_broker: Broker,
    goqueue_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a context, the environment, the configuration, its users, a file, the log, a group."""
    secrets = {
        name: f"{PLANTED}-{name}" for name in ("context", "env", "root", "user", "oidc", "file")
    }
    key = secrets["context"]
    run("config", "set-context", "other", "-s", "http://x", "--api-key", "-", input=f"{key}\n")
    monkeypatch.setenv("GOQUEUE_BACKUP_PASSPHRASE", secrets["env"])
    secret_file = tmp_path / "cluster-secret"
    secret_file.write_text(secrets["file"])
    secret_file.chmod(0o600)
    config = tmp_path / "server.yaml"
    config.write_text(
        json.dumps(
            {
                "auth": {"root_key": secrets["root"]},
                "sasl": {"users": {"alice": secrets["user"]}},
                "cluster": {"secret_file": str(secret_file)},
            }
        )
    )
    config.chmod(0o600)
    log = tmp_path / "server.log"
    unknown = [f"{PLANTED}-{number}" for number in range(7)]
    log.write_text(
        f"wrong login of alice with {secrets['user']} and {secrets['root']} {secrets['file']}\n"
        f"password={unknown[0]} ssl.key.password: '{unknown[1]}' x\n"
        f'{{"client_secret": "{unknown[2]}", "level": "info"}}\n'
        f"Authorization: Bearer {unknown[3]}\n"
        f"s3 at https://user:{unknown[4]}@host/bucket, X-Api-Key: {unknown[5]}\n"
        f"key gq_{unknown[6]} of eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.{PLANTED}\n"
        f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----\n"
    )
    group = f"{goqueue_topic}-{secrets['root']}"
    run("group", "reset-offsets", group, "--topic", goqueue_topic, "--to-earliest")
    path = tmp_path / "bundle.tar.gz"
    result = run("debug", "bundle", str(path), "--log", str(log), "--config", str(config))
    found = files_of(path)
    assert not [name for name, text in found.items() if PLANTED in text]
    assert PLANTED not in result.output
    assert "********" in found["server/groups.json"]
    assert found["client/configuration.json"].count("********") >= 2
    assert "level" in found["server/log.txt"]
    assert "; secrets removed: " in result.stderr


def test_without_a_server_a_bundle_has_the_rest(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOQUEUE_SERVER", "http://127.0.0.1:1")
    path = tmp_path / "bundle.tar.gz"
    run("debug", "bundle", str(path), "--log", str(tmp_path / "none.log"))
    listed: list[dict[str, Any]] = json.loads(files_of(path)["manifest.json"])["files"]
    notes = {each["file"]: each["note"] or "" for each in listed}
    assert "connection refused" in notes["server/version.json"]
    assert "No such file" in notes["server/log.txt"]
    assert notes["client/configuration.json"] == ""


@pytest.mark.parametrize(
    "text",
    [
        "the password of the file is wrong",
        "cluster.secret_file /etc/goqueue/secret",
        "http://127.0.0.1:8080/topics",
    ],
)
def test_harmless_texts_stay(text: str) -> None:
    assert Redactor(["abc"]).text(text) == text

"""`goqueue login` and the commands that need a key."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from support.server import make_server

ROOT_KEY = "the-root-key-of-this-server"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    environment = {"GOQUEUE_AUTH_ENABLED": "true", "GOQUEUE_API_ROOT_KEY": ROOT_KEY}
    made = make_server(tmp_path_factory.mktemp("login") / "data", environment=environment)
    made.start()
    yield made
    made.close()


def run(home, *arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")
    }
    return subprocess.run(
        [sys.executable, "-m", "goqueue.cli", *arguments],
        input=said,
        capture_output=True,
        text=True,
        env=environment | {"HOME": str(home)},
        check=False,
    )


def test_a_key_is_kept_where_only_its_owner_can_read_it(guarded, tmp_path) -> None:
    url = f"http://127.0.0.1:{guarded.http_port}"
    done = run(tmp_path, "login", "prod", "--server", url, said=f"{ROOT_KEY}\n")
    assert done.returncode == 0, done.stderr
    assert ROOT_KEY not in done.stdout + done.stderr
    file = tmp_path / ".goqueue" / "config.yaml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ROOT_KEY in file.read_text()
    made = run(tmp_path, "user", "create", "alice", "-r", "producer", said="a-password\n")
    assert made.returncode == 0, made.stderr
    assert "a-password" not in made.stdout + made.stderr
    assert "alice" in run(tmp_path, "user", "list").stdout


def test_without_a_secret_nothing_is_stored(guarded, tmp_path) -> None:
    url = f"http://127.0.0.1:{guarded.http_port}"
    done = run(tmp_path, "login", "prod", "--server", url)
    assert done.returncode == 1
    assert not (tmp_path / ".goqueue").exists()

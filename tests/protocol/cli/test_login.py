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


def run(home, *arguments: str, said: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    environment = more | {
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


FILE_KEYRING = """
import json, pathlib
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

class FileKeyring(KeyringBackend):
    priority = 1
    path = pathlib.Path(__file__).with_name("keyring.json")

    def _all(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def get_password(self, service, username):
        return self._all().get(f"{service}/{username}")

    def set_password(self, service, username, password):
        self.path.write_text(json.dumps({**self._all(), f"{service}/{username}": password}))

    def delete_password(self, service, username):
        rest = self._all()
        if rest.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError("no such password")
        self.path.write_text(json.dumps(rest))
"""


def test_a_key_can_be_kept_in_the_keyring_and_forgotten(guarded, tmp_path) -> None:
    """With keyring itself, and a backend that a file stands for."""
    (tmp_path / "file_keyring.py").write_text(FILE_KEYRING)
    kept = {"PYTHON_KEYRING_BACKEND": "file_keyring.FileKeyring", "PYTHONPATH": str(tmp_path)}
    url = f"http://127.0.0.1:{guarded.http_port}"
    done = run(tmp_path, "login", "prod", "-s", url, "--keyring", said=f"{ROOT_KEY}\n", **kept)
    assert done.returncode == 0, done.stderr
    file, stored = tmp_path / ".goqueue" / "config.yaml", tmp_path / "keyring.json"
    assert ROOT_KEY not in file.read_text()
    assert ROOT_KEY in stored.read_text()
    assert run(tmp_path, "topic", "list", **kept).returncode == 0
    assert ROOT_KEY not in run(tmp_path, "config", "view", **kept).stdout
    assert run(tmp_path, "logout", **kept).returncode == 0
    assert ROOT_KEY not in stored.read_text()
    assert run(tmp_path, "topic", "list", **kept).returncode == 1


def test_a_keyring_that_is_not_there_is_said_so_and_nothing_is_stored(guarded, tmp_path) -> None:
    url = f"http://127.0.0.1:{guarded.http_port}"
    none = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    done = run(tmp_path, "login", "prod", "-s", url, "--keyring", said=f"{ROOT_KEY}\n", **none)
    assert done.returncode == 1
    assert "nothing was stored" in done.stderr
    assert not (tmp_path / ".goqueue").exists()


def test_a_key_in_the_file_can_be_forgotten(guarded, tmp_path) -> None:
    url = f"http://127.0.0.1:{guarded.http_port}"
    assert run(tmp_path, "login", "prod", "-s", url, said=f"{ROOT_KEY}\n").returncode == 0
    assert run(tmp_path, "logout", "prod").returncode == 0
    assert ROOT_KEY not in (tmp_path / ".goqueue" / "config.yaml").read_text()

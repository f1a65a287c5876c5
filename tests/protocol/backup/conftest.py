from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

from goqueue.testing import Broker
from support.backups import BackupApi
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def source() -> Iterator[Broker]:
    """A broker to be backed up."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def target() -> Iterator[Broker]:
    """An empty one to be restored into."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def backups(tmp_path: Path) -> Iterator[Callable[..., BackupApi]]:
    """Makes clients of the backups in one folder."""
    made: list[BackupApi] = []

    def make(broker: Broker, destination: str | None = None, **key: str) -> BackupApi:
        api = BackupApi(broker.http_url, destination or str(tmp_path / "backups"), **key)
        made.append(api)
        return api

    yield make
    for each in made:
        each.close()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a real S3 server process."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)

    def put() -> bool:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{url}/backups", method="PUT")):
                return True
        except OSError:
            return False

    eventually(put, "the S3 server")
    yield "s3://backups/goqueue"
    process.kill()
    process.wait()

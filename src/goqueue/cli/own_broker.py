"""A broker of a command's own, in a folder of its own, that ends with the command."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.cli.api import Api
from goqueue.cli.contexts import Target
from goqueue.cli.errors import CliError, UnreachableError
from goqueue.protocols.http.operations.operation_shapes import Readiness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_START_S: Final = 60.0
_STOP_S: Final = 30.0
_LOOK_S: Final = 0.05


class OwnBroker(NamedTuple):
    """Where it listens."""

    servers: str
    """For Kafka's protocol."""
    url: str


@contextmanager
def own_broker(folder: Path, source: str) -> Iterator[OwnBroker]:
    """A broker with its data and its log in a folder; settings of the environment do not count.

    Raises:
        CliError: it did not start.
    """
    kafka, http, grpc = _free_ports(3)
    command = [sys.executable, "-m", "goqueue.cli", "server", "--data-dir", str(folder / "data")]
    ports = ["--kafka-port", str(kafka), "--http-port", str(http), "--grpc-port", str(grpc)]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")
    }
    with (folder / "broker.log").open("wb") as log:
        server = subprocess.Popen(  # noqa: S603 - ours
            [*command, *ports], stdout=log, stderr=log, env=environment
        )
        try:
            url = f"http://127.0.0.1:{http}"
            _wait(server, Target(url, source, timeout_s=5.0), folder / "broker.log")
            yield OwnBroker(f"127.0.0.1:{kafka}", url)
        finally:
            server.terminate()
            try:
                server.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _wait(server: subprocess.Popen[bytes], target: Target, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    with Api(target) as api:
        while server.poll() is None and time.monotonic() < deadline:
            try:
                if api.probe(Readiness, "/readyz")[0] == 200:
                    return
            except UnreachableError:
                pass
            time.sleep(_LOOK_S)
    raise CliError(f"the broker did not start: see {log}")

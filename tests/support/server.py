"""A real `goqueue server` for tests: as a process that can be killed, or inside the test's loop.

    def test_something(server: ServerProcess) -> None:
        producer = Producer({"bootstrap.servers": server.kafka_address})
        server.kill()       # kill -9
        server.restart()    # the same folder, the same ports

The fixture `server` is there for tests that import it (or whose conftest does); `start_server`
makes others, with flags of their own. With GOQUEUE_TEST_CLUSTER=3 these are clusters.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from goqueue.server.config_load import load_config
from goqueue.server.node import Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from goqueue.runtime.clock import Clock

READY: Final = "ready in "
HOST: Final = "127.0.0.1"
START_S: Final = 120.0
STOP_S: Final = 120.0
FOR_TESTS: Final = {
    "GOQUEUE_STORAGE_RETENTION_CHECK": "1d",  # messages of tests may be as old as they like
    "GOQUEUE_STORAGE_DISK_LIMIT_PERCENT": "100",  # a full disk is no business of a test's
}

_SHARES: Final = 8
_share = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SHARES
PORTS: Final = range(15_000 + 2000 * _share, 17_000 + 2000 * _share)
"""Below those that Linux hands out by itself: a client that connects while a killed server is away
cannot be given the server's port. Tests that run at the same time draw from ports of their own, or
two would sometimes draw one that is free until their servers have started."""
_held: Final[dict[int, socket.socket]] = {}
"""What keeps each drawn port from other processes that draw, also while a killed server is away."""
_returns: Final[weakref.WeakKeyDictionary[object, list[weakref.finalize[..., object]]]] = (
    weakref.WeakKeyDictionary()
)
"""What gives back the ports of each holder."""
_luck: Final = random.SystemRandom()
"""Not the one that Hypothesis seeds: all processes would draw alike."""


_siblings: Final[dict[int, tuple[int, ...]]] = {}


def siblings(port: int) -> tuple[int, ...]:
    """The ports on which the nodes of a cluster serve the same; of a server, its own."""
    return _siblings.get(port, (port,))


def first_of(port: int) -> int:
    """The port on which the first node of a cluster serves the same."""
    return siblings(port)[0]


def node_ids(port: int) -> list[int]:
    """The nodes that serve the same as this port."""
    return list(range(1, len(siblings(port)) + 1))


def are_siblings(ports: tuple[int, ...]) -> None:
    """Note ports on which the nodes of one cluster serve the same."""
    _siblings.update(dict.fromkeys(ports, ports))


def free_port(holder: object | None = None) -> int:
    """A port that nobody listens on.

    Nobody else draws it as long as the holder is there; without one, as long as this process lives.
    """
    return free_ports(1, holder)[0]


def free_ports(count: int, holder: object | None = None) -> range:
    """Such ports, one after the other.

    Raises:
        RuntimeError: so many are not left.
    """
    begin = _luck.choice(PORTS)
    for first in (*range(begin, PORTS.stop), *range(PORTS.start, begin)):
        ports = range(first, first + count)
        if ports.stop > PORTS.stop:
            continue
        if not _held.keys() & set(ports) and (held := _bound(ports)):
            _held.update(held)
            if holder is not None:
                _returns.setdefault(holder, []).append(weakref.finalize(holder, _release, ports))
            return ports
    raise RuntimeError(f"no {count} ports in a row are free from {PORTS[0]} to {PORTS[-1]}")


def give_back_ports(holder: object) -> None:
    """Let others draw the ports of a holder that needs them no more, though it is still there."""
    for give_back in _returns.pop(holder, []):
        give_back()


def _release(ports: range) -> None:
    for port in ports:
        _held.pop(port).close()


def _bound(ports: range) -> dict[int, socket.socket] | None:
    """Sockets on all of these ports; None where one of them is taken."""
    bound: dict[int, socket.socket] = {}
    for port in ports:
        bound[port] = sock = socket.socket()
        try:
            sock.bind((HOST, port))
        except OSError:
            for each in bound.values():
                each.close()
            return None
        # From here on servers, which all say so too, may listen on it.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return bound


class ServerProcess:
    """`goqueue server` in a process of its own, on ports that stay the same across restarts."""

    COMMAND: tuple[str, ...] = (sys.executable, "-m", "goqueue.cli", "server")

    def __init__(
        self, data_dir: Path, *flags: str, environment: dict[str, str] | None = None
    ) -> None:
        self.data_dir = data_dir
        self.kafka_port, self.http_port, self.grpc_port = free_ports(3, self)
        self.flags = flags
        self.log: list[str] = []
        """Every line that it has written, across restarts."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")
        }
        self.environment = inherited | FOR_TESTS | (environment or {})
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        self._said = threading.Condition()

    @property
    def kafka_address(self) -> str:
        return f"{HOST}:{self.kafka_port}"

    @property
    def http_url(self) -> str:
        return f"http://{HOST}:{self.http_port}"

    @property
    def grpc_address(self) -> str:
        return f"{HOST}:{self.grpc_port}"

    @property
    def data_dirs(self) -> list[Path]:
        """Where each node stores everything."""
        return [self.data_dir]

    @property
    def broker_pids(self) -> list[int]:
        """The processes that serve clients."""
        return [self.pid]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def command(self) -> list[str]:
        return [
            *self.COMMAND,
            *("--data-dir", str(self.data_dir)),
            *("--kafka-port", str(self.kafka_port)),
            *("--http-port", str(self.http_port)),
            *("--grpc-port", str(self.grpc_port)),
            *self.flags,
        ]

    def launch(self) -> None:
        """Start the process and do not wait for it."""
        assert self._process is None, "it is running"
        self._ready.clear()
        self._process = subprocess.Popen(
            self.command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=self.environment,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def start(self, timeout_s: float = START_S) -> ServerProcess:
        """Start the process; returns when it is ready to serve."""
        self.launch()
        assert self._process is not None
        if not self._ready.wait(timeout_s) or self._process.poll() is not None:
            code = self.kill()
            raise AssertionError(f"not ready (exit code {code}):\n" + "\n".join(self.log))
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            with self._said:
                self.log.append(line.rstrip("\n"))
                self._said.notify_all()
            if READY in line:
                self._ready.set()
        process.stderr.close()
        if process.wait() != 0:
            self._ready.set()  # it never will be: let `start` see it

    def wait_for_line(self, part: str, timeout_s: float = START_S) -> str:
        """The first line of the log with these words, once it is there."""
        with self._said:
            self._said.wait_for(lambda: any(part in line for line in self.log), timeout_s)
            return next(line for line in self.log if part in line)

    def signal(self, number: int) -> None:
        """Send a signal and do not wait."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout_s: float = STOP_S) -> int:
        """The exit code, once the process has ended."""
        assert self._process is not None
        assert self._reader is not None
        code = self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        self._process = None
        return code

    def stop(self) -> int:
        """Ask it to stop, as a supervisor does; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> int:
        """`kill -9`."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def restart(self) -> ServerProcess:
        """Start again in the same folder and on the same ports; stops it first if it runs."""
        if self._process is not None:
            self.stop()
        return self.start()

    def close(self) -> None:
        """End it if it runs."""
        if self._process is not None:
            self.kill()

    def get(self, path: str, method: str = "GET") -> tuple[int, Any]:
        """The status and the JSON (or text) that the HTTP port answers."""
        connection = http.client.HTTPConnection(HOST, self.http_port, timeout=120)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
            is_json = "json" in response.headers.get("content-type", "")
            return response.status, json.loads(body) if is_json and body else body.decode()
        finally:
            connection.close()


def make_server(data_dir: Path, *flags: str, **options: Any) -> ServerProcess:
    """A server that is not running yet: one node, or a cluster where that is wanted."""
    if not os.environ.get("GOQUEUE_TEST_CLUSTER"):
        return ServerProcess(data_dir, *flags, **options)
    from support.cluster_server import ClusterServer  # noqa: PLC0415 - it imports this module

    return ClusterServer(data_dir, *flags, **options)


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Makes and starts servers, in `tmp_path / "data"` unless told otherwise; ends them all."""
    made: list[ServerProcess] = []

    def start(*flags: str, data_dir: Path | None = None, **options: Any) -> ServerProcess:
        server = make_server(data_dir or tmp_path / "data", *flags, **options)
        made.append(server)
        return server.start()

    yield start
    for server in made:
        server.close()


@pytest.fixture
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that is ready, in a folder of its own."""
    return start_server()


@asynccontextmanager
async def running_node(
    data_dir: Path,
    *flags: str,
    clock: Clock | None = None,
    environment: dict[str, str] | None = None,
) -> AsyncIterator[Node]:
    """A whole node inside this event loop, on free ports."""
    ports = ("--kafka-port", "0", "--http-port", "0", "--grpc-port", "0")
    config = load_config(["--data-dir", str(data_dir), *ports, *flags], environment or {})
    node = Node(config, clock=clock)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()

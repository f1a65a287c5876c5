"""A cluster of several nodes on this machine, in one folder.

    cluster.json    the nodes and their ports
    secret          what the nodes know each other by
    node-1/         the data folder of a node
    node-1.log      what its supervisor and its broker have written

Every node is a process in the background, a `goqueue server` like any other. What is in the folder
is enough to find, stop and start them again.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import FILE_MODE, FOLDER_MODE, translate
from goqueue.server.errors import StartError
from goqueue.server.supervision.http_probe import HttpProbe
from goqueue.server.supervision.node_lock import SUPERVISOR, running

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence

HOST: Final = "127.0.0.1"
_FILE: Final = "cluster.json"
_SECRET: Final = "secret"  # noqa: S105 - the name of its file
_POLL_S: Final = 0.1
_TAIL_BYTES: Final = 64 * 1024
"""What is read of a node's log to tell why it ended."""


class Ports(msgspec.Struct, frozen=True):
    """Where one node listens."""

    kafka: int
    http: int
    grpc: int
    internal: int


class _Description(msgspec.Struct, frozen=True):
    """What `cluster.json` holds."""

    name: str
    nodes: tuple[Ports, ...]


class LocalNode:
    """One node of a cluster on this machine, running or not."""

    def __init__(self, number: int, folder: Path, ports: Ports, flags: Sequence[str]) -> None:
        self.number = number
        self.name = f"node-{number}"
        self.ports = ports
        self.data_dir = folder / self.name
        self.log_file = folder / f"{self.name}.log"
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        self._log_from = 0
        self.http = HttpProbe(HOST, ports.http, flags)

    @property
    def kafka_address(self) -> str:
        """`host:port` for Kafka clients."""
        return f"{HOST}:{self.ports.kafka}"

    @property
    def http_url(self) -> str:
        """The base of the HTTP API; of TLS it is known once the node has answered."""
        return f"{'https' if self.http.has_tls else 'http'}://{HOST}:{self.ports.http}"

    @property
    def processes(self) -> dict[str, int]:
        """Its processes by name: `supervisor`, `etcd`, `broker`; none when it does not run."""
        found = running(self.data_dir)
        if not found and self._process is not None and self._process.poll() is None:
            return {SUPERVISOR: self._process.pid}  # it has not said so itself yet
        return found

    def start(self, environment: dict[str, str] | None = None) -> None:
        """Start it in the background, if it does not run; it goes on when this process ends.

        Raises:
            StartError: one of its ports is in use.
            DiskError: its log cannot be written.
        """
        if self.processes:
            return
        self.check_ports()
        if environment is not None:
            self.http.environment = environment
        command = [sys.executable, "-P", "-m", "goqueue.cli", "server", *self._own_flags()]
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            log = os.open(self.log_file, flags, FILE_MODE)
        except OSError as error:
            raise translate(error, "opening", self.log_file) from error
        try:
            self._log_from = os.fstat(log).st_size
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(log)

    def check_ports(self) -> None:
        """Refuse ports that are in use: a server there would be taken for this node.

        Raises:
            StartError: one is.
        """
        internal = self.ports.internal
        used = (self.ports.kafka, self.ports.http, self.ports.grpc, *range(internal, internal + 3))
        for port in used:
            with socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    sock.bind((HOST, port))
                except OSError as error:
                    raise StartError(
                        f"{self.name} cannot start: port {port} is in use by another process: stop "
                        "it, or choose other ports for a new cluster"
                    ) from error

    def _own_flags(self) -> list[str]:
        ports = self.ports
        return [
            *("--node-id", self.name),
            *("--data-dir", str(self.data_dir)),
            *("--kafka-port", str(ports.kafka)),
            *("--http-port", str(ports.http)),
            *("--grpc-port", str(ports.grpc)),
            *self._flags,
        ]

    def send(self, number: signal.Signals, *names: str) -> None:
        """Send a signal to its processes of these names."""
        for name, pid in self.processes.items():
            if name in names:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def is_ready(self) -> bool:
        """Whether it runs and serves clients.

        Where health needs a login (`auth.allow_health`) and no root key is known, that it asks for
        one is all that can be seen.
        """
        if "broker" not in self.processes:
            return False
        status, _ = self.http.get("/readyz")
        if status != HTTPStatus.UNAUTHORIZED:
            return status == HTTPStatus.OK
        key = self.http.root_key
        return key is None or self.http.get("/readyz", {"X-API-Key": key})[0] == HTTPStatus.OK

    def has_ended(self) -> bool:
        """Whether the process that was started here is gone."""
        return self._process is not None and self._process.poll() is not None

    def last_words(self) -> str:
        """Why it ended, as it said itself since it was started here."""
        try:
            with self.log_file.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._log_from, size - _TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        at = next((n for n, each in enumerate(lines) if each.startswith("goqueue: ")), None)
        if at is not None:
            return "\n".join(lines[at:]).removeprefix("goqueue: ")
        return f"it ended and did not say why: its log is {self.log_file}"


class LocalCluster:
    """The nodes in one folder."""

    def __init__(self, folder: Path, nodes: Sequence[Ports], flags: Sequence[str] = ()) -> None:
        self.folder = folder
        peers = ",".join(f"{HOST}:{each.internal}" for each in nodes)
        shared = ["--cluster-peers", peers, "--cluster-secret-file", str(folder / _SECRET), *flags]
        self.nodes = [
            LocalNode(number, folder, ports, shared) for number, ports in enumerate(nodes, start=1)
        ]

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for Kafka clients."""
        return ",".join(node.kafka_address for node in self.nodes)

    @classmethod
    def made(
        cls, folder: Path, nodes: Sequence[Ports], name: str = "goqueue", flags: Sequence[str] = ()
    ) -> LocalCluster:
        """A cluster in a folder that is new or empty.

        Raises:
            StartError: something is in the folder already, or a port is in use.
            DiskError: it cannot be written.
        """
        folder = folder.absolute()
        cluster = cls(folder, nodes, flags)
        try:
            if folder.exists() and any(folder.iterdir()):
                raise StartError(
                    f"{folder} is not empty and holds no cluster: name an empty or a new folder "
                    "with --folder"
                )
            for node in cluster.nodes:
                node.check_ports()
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            _write(folder / _SECRET, secrets.token_urlsafe(32).encode() + b"\n")
            _write(folder / _FILE, msgspec.json.encode(_Description(name, tuple(nodes))) + b"\n")
        except OSError as error:
            raise translate(error, "making a cluster in", folder) from error
        return cluster

    @classmethod
    def found(cls, folder: Path, flags: Sequence[str] = ()) -> LocalCluster | None:
        """The cluster that is in a folder; None when none is.

        Raises:
            StartError: its description cannot be read.
        """
        folder = folder.absolute()
        try:
            stored = msgspec.json.decode((folder / _FILE).read_bytes(), type=_Description)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise StartError(
                f"{folder / _FILE} does not describe a cluster ({error}): restore it, or name "
                "another folder with --folder"
            ) from error
        return cls(folder, stored.nodes, flags)

    def wait(
        self,
        tell: Callable[[LocalNode], None],
        timeout_s: float,
        nodes: Sequence[LocalNode] | None = None,
    ) -> None:
        """Wait until all nodes, or these, serve clients; `tell` hears of each.

        Raises:
            StartError: one has ended, or is not ready in time; the text says why.
        """
        clock = SystemClock()
        deadline_s = clock.monotonic_s() + timeout_s
        waiting = list(self.nodes if nodes is None else nodes)
        while waiting:
            for node in [each for each in waiting if each.is_ready()]:
                waiting.remove(node)
                tell(node)
            for node in waiting:
                if node.has_ended():
                    raise StartError(f"{node.name} did not start: {node.last_words()}")
            if waiting and clock.monotonic_s() > deadline_s:
                raise StartError(
                    f"{waiting[0].name} is not ready after {timeout_s:.0f} s: its log is "
                    f"{waiting[0].log_file}"
                )
            if waiting:
                time.sleep(_POLL_S)


def end_nodes(nodes: Sequence[LocalNode], number: signal.Signals, timeout_s: float) -> list[int]:
    """End nodes by a signal to their supervisors; returns the processes that still run."""
    processes = processes_of(nodes)
    for node in nodes:
        node.send(number, SUPERVISOR)
    return wait_for_end(nodes, processes, timeout_s)


def processes_of(nodes: Sequence[LocalNode]) -> list[int]:
    """All processes of nodes."""
    return [pid for node in nodes for pid in node.processes.values()]


def wait_for_end(nodes: Sequence[LocalNode], left: list[int], timeout_s: float) -> list[int]:
    """Wait until processes of nodes have ended; returns those that still run."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + timeout_s
    while (left := [pid for pid in left if is_running(pid)]) and clock.monotonic_s() < deadline_s:
        time.sleep(_POLL_S)
    for node in nodes:
        node.has_ended()  # which takes the exit code of a process that was started here
    return left


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that its parent has not taken does not.

    A process that is killed keeps its ports until the last of its threads is gone. The first one
    may have ended before.
    """
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        threads = sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except ProcessLookupError:
        return False
    except (OSError, IndexError):  # no /proc, or gone since
        return Path("/proc/self").exists() is False
    return threads > 1 or state not in {"Z", "X"}


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Brokers in processes of their own, and what they use: goqueue's server, and the yardstick."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from benchmarks._turns import expect
from benchmarks.harness import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOST: Final = "127.0.0.1"
PARTITIONS: Final = 6
GOQUEUE: Final = "goqueue"
NULL: Final = "null broker"

_READY: Final = re.compile(rf"ready in .* on {HOST}:(\d+), HTTP")
_GRPC: Final = re.compile(rf"gRPC on {re.escape(HOST)}:(\d+)")
_HTTP: Final = re.compile(rf"HTTP on {re.escape(HOST)}:(\d+)")
_START_S: Final = 60.0
_STOP_S: Final = 60.0
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_SCHEDULED: Final = 2
"""What the clock of another process counts, beside its id: all that it ran, in nanoseconds."""
_SAMPLED_PAGES: Final = 200


class Memory(NamedTuple):
    """What the kernel says a process holds."""

    rss_bytes: int
    own_bytes: int
    """Without the pages of files that it maps, which the kernel can take back."""
    peak_bytes: int
    """The most that it held since its start or since `forget_peak`."""


class BrokerProcess:
    """A broker that listens; use it in a `with`."""

    def __init__(
        self, name: str, command: list[str], folder: Path, source: Path | None = None
    ) -> None:
        """Run a command; with a `source`, the package of that checkout is imported."""
        self.name = name
        self.folder = folder
        self.ready_at = 0.0
        self.log: list[str] = []
        self._port: int | None = None
        self._ready = threading.Event()
        self.spawned_at = time.perf_counter()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GOQUEUE_")}
        if source is not None:
            environment["PYTHONPATH"] = str(source / "src")
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.log.append(line.rstrip())
            found = _READY.search(line) or re.fullmatch(r"(\d+)\n", line)
            if found and not self._ready.is_set():
                self.ready_at = time.perf_counter()
                self._port = int(found[1])
                self._ready.set()
        self._ready.set()

    @property
    def port(self) -> int:
        """Where it listens; waits until it does."""
        self._ready.wait(_START_S)
        expect(self._port, f"{self.name} did not start: {self.log}")
        assert self._port is not None
        return self._port

    @property
    def address(self) -> str:
        """The same for a client."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """For who wants to look at it from outside."""
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            expect(self.port, "it has no port")
        except RuntimeError:
            self.stop()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, in order."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    # --- What it uses ----------------------------------------------------------------------------

    def cpu_s(self) -> float:
        """The processor time that it has had, in all threads, by the scheduler's own clock."""
        return time.clock_gettime(~self.pid << 3 | _SCHEDULED)

    def memory(self) -> Memory:
        """What it holds now."""
        kilobytes = {}
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in {"VmRSS", "RssAnon", "VmHWM"}:
                kilobytes[name] = int(rest.split()[0]) * 1024
        return Memory(kilobytes["VmRSS"], kilobytes["RssAnon"], kilobytes["VmHWM"])

    def forget_peak(self) -> None:
        """Count the peak from here on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    # --- What it has stored ----------------------------------------------------------------------

    def _logs(self) -> Iterator[Path]:
        return (path for path in self.folder.rglob("*.log") if path.stat().st_size)

    def make_cold(self) -> float:
        """Let the kernel drop all stored batches from its cache; returns the share that stayed."""
        stayed = sampled = 0
        for path in self._logs():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)  # a page that is not on the disk yet cannot be dropped
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                pages = path.stat().st_size // _PAGE_BYTES
                for page in range(0, pages, max(1, pages // _SAMPLED_PAGES)):
                    sampled += 1
                    stayed += _is_cached(descriptor, page)
            finally:
                os.close(descriptor)
        return stayed / max(sampled, 1)

    def make_warm(self) -> None:
        """Have all stored batches in the kernel's cache."""
        for path in self._logs():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass


def _is_cached(descriptor: int, page: int) -> bool:
    try:
        os.preadv(descriptor, [bytearray(1)], page * _PAGE_BYTES, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    return True


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return int(sock.getsockname()[1])


def start_goqueue(
    folder: Path,
    *flags: str,
    port: int = 0,
    module: Sequence[str] = ("goqueue.cli",),
    source: Path | None = None,
) -> BrokerProcess:
    """`goqueue server` as it comes, but for its folder, its ports and what the flags say."""
    folder.mkdir(parents=True, exist_ok=True)
    ports = [f"--kafka-port={port}", "--http-port=0", "--grpc-port=0"]
    command = [sys.executable, "-m", *module, "server", f"--data-dir={folder}"]
    partitions = f"--topics-partitions={PARTITIONS}"
    return BrokerProcess(GOQUEUE, [*command, *ports, partitions, *flags], folder, source)


def grpc_address(server: BrokerProcess) -> str:
    """Where a server says that it speaks gRPC."""
    return f"{HOST}:{grpc_port(server)}"


def grpc_port(server: BrokerProcess) -> int:
    """The port of that."""
    return _port_of(server, _GRPC)


def http_port(server: BrokerProcess) -> int:
    """The port at which a server says that it speaks HTTP."""
    return _port_of(server, _HTTP)


def _port_of(server: BrokerProcess, listener: re.Pattern[str]) -> int:
    expect(server.port, "it has no port")
    return next(int(found[1]) for line in server.log if (found := listener.search(line)))


def start_null(folder: Path) -> BrokerProcess:
    """The yardstick, with as many partitions."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks._null_broker", str(folder), str(PARTITIONS)]
    return BrokerProcess(NULL, command, folder)

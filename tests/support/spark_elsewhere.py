"""Sparks that are not in the test's process: a standalone cluster, and a Connect server.

Both are started from the pip package, in processes that tests may kill.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import pyspark
import pytest

from support.server import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOME: Final = Path(pyspark.__file__).parent
HOSTS: Final = ("127.0.0.1", "127.0.0.2")
"""Two names of this machine: Spark does not run two attempts of a task on one host."""
WAIT_S: Final = 400.0
SMALL: Final = {
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For every driver."""
ON_A_CLUSTER: Final = SMALL | {
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # or the first worker does everything
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


def environment(host: str = "127.0.0.1", **more: str) -> dict[str, str]:
    """For a process of Spark, whose Python is the one that runs the tests."""
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return os.environ | python | {"SPARK_LOCAL_IP": host, "SPARK_HOME": str(HOME)} | more


def as_flags(configuration: dict[str, str]) -> list[str]:
    """`--conf NAME=VALUE`, as Spark's commands and ours take them."""
    return [word for pair in configuration.items() for word in ("--conf", "=".join(pair))]


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Look until something is so."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def listens(port: int) -> bool:
    """Whether somebody answers there."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


class StandaloneCluster:
    """One master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"spark://127.0.0.1:{self.port}"
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all three."""
        self._start("127.0.0.1", "master.Master", "--port", str(self.port))
        wait_until(lambda: listens(self.port), "the master")
        for host in HOSTS:
            size = ("--cores", "1", "--memory", "600m", "-d", str(self.folder / host))
            self._start(host, "worker.Worker", *size, self.address)

    def _start(self, host: str, role: str, *arguments: str) -> None:
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        self._started.append(
            subprocess.Popen(
                [*command, "--host", host, "--webui-port", "0", *arguments],
                env=environment(host, SPARK_DAEMON_MEMORY="256m"),
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    def executors(self) -> list[int]:
        """The processes that do the work at the moment: children of the workers."""
        workers = {each.pid for each in self._started[1:]}
        return [pid for pid, parent in _processes() if parent in workers]

    def stop(self) -> None:
        """End all of them; executors end with their workers."""
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            process.wait(30)


def _processes() -> Iterator[tuple[int, int]]:
    """The id of each process, and of its parent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(folder.name), int(fields[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A cluster for the tests of a file."""
    made = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def connect_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server for the tests of a file, as if on another machine."""
    port = free_port()
    folder = tmp_path_factory.mktemp("connect")
    configuration = SMALL | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
    }
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--class", kind]
    with (
        (folder / "said").open("wb") as said,
        in_a_session(
            [*command, *as_flags(configuration), "spark-internal"], folder, said
        ) as server,
    ):
        wait_until(lambda: listens(port) or server.poll() is not None, "the Connect server")
        assert server.poll() is None, (folder / "said").read_text()[-2000:]
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def in_a_session(
    command: list[str], folder: Path, said: int | IO[bytes] = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed in the end, with all that it has started."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=said,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for pid, _ in _processes():
            try:
                if os.getsid(pid) == process.pid:
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait(30)

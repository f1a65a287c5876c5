"""Three nodes in place of one server, for suites that were written for one.

    make test-cluster                                                       # tests/protocol
    GOQUEUE_TEST_CLUSTER=3 .venv/bin/python -m pytest tests/protocol/http   # a part of it
    make test-remote-queues                                  # queue groups without replicas to read

`ClusterServer` has what `ServerProcess` has. Whoever asks for an address is given that of the next
node, so that what a test does is spread over all of them.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
from http import HTTPStatus
from itertools import cycle
from typing import TYPE_CHECKING, Final

from goqueue.server.errors import StartError
from goqueue.server.supervision.local_cluster import (
    LocalCluster,
    LocalNode,
    Ports,
    end_nodes,
    processes_of,
    wait_for_end,
)
from support.server import (
    START_S,
    STOP_S,
    ServerProcess,
    are_siblings,
    free_ports,
    give_back_ports,
)
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NODES: Final = 3
_PORTS_A_NODE: Final = 6
_ROOT_KEY: Final = "GOQUEUE_API_ROOT_KEY"
_FEW_PARTITIONS: Final = {
    "--groups-offsets-partitions": "4",
    "--transactions-state-partitions": "4",
}
"""Of internal topics: fewer are sooner there."""


def with_few_partitions(flags: Iterable[str]) -> list[str]:
    """These flags, and few partitions of internal topics unless they say otherwise."""
    given = list(flags)
    names = {each.partition("=")[0] for each in given}
    few = [f"{name}={value}" for name, value in _FEW_PARTITIONS.items() if name not in names]
    return [*few, *given]


class ClusterServer(ServerProcess):
    """A cluster that a test takes for a server."""

    def __init__(
        self, data_dir: Path, *flags: str, environment: dict[str, str] | None = None
    ) -> None:
        super().__init__(data_dir, *flags, environment=environment)
        if self.environment.get("GOQUEUE_AUTH_ENABLED") == "true" or "--auth-enabled" in flags:
            self.environment.setdefault(_ROOT_KEY, f"gq_{secrets.token_hex(32)}")
        folder = data_dir.parent / f"{data_dir.name}-cluster"
        chosen = [*_sources(), *with_few_partitions(flags)]
        self.cluster = LocalCluster.found(folder, chosen) or LocalCluster.made(
            folder, [self._free_ports() for _ in range(NODES)], flags=chosen
        )
        self.nodes = self.cluster.nodes
        self._turns = cycle(self.nodes)
        self._processes: list[int] = []
        """What ran when a signal was sent last, for whoever waits for its end."""
        for kind in ("kafka", "http", "grpc"):
            are_siblings(tuple(getattr(each.ports, kind) for each in self.nodes))

    def _free_ports(self) -> Ports:
        first = free_ports(_PORTS_A_NODE, self)[0]
        return Ports(first + 3, first + 4, first + 5, first)

    # --- Where it is: at the next node -----------------------------------------------------------

    def next_node(self) -> LocalNode:
        """The node that has its turn."""
        return next(self._turns)

    @property
    def kafka_port(self) -> int:
        return self.next_node().ports.kafka

    @kafka_port.setter
    def kafka_port(self, _: int) -> None:
        """One server draws ports, which a cluster does not use."""

    @property
    def http_port(self) -> int:
        return self.next_node().ports.http

    @http_port.setter
    def http_port(self, _: int) -> None:
        """As for Kafka."""

    @property
    def grpc_port(self) -> int:
        return self.next_node().ports.grpc

    @grpc_port.setter
    def grpc_port(self, _: int) -> None:
        """As for Kafka."""

    @property
    def data_dirs(self) -> list[Path]:
        """Where each node stores everything."""
        return [each.data_dir for each in self.nodes]

    @property
    def broker_pids(self) -> list[int]:
        """The brokers."""
        return [each.processes["broker"] for each in self.nodes]

    @property
    def log(self) -> list[str]:
        """What all nodes have written, one after the other."""
        texts = [node.log_file.read_text(errors="replace") for node in self.nodes]
        return [line for text in texts for line in text.splitlines()]

    @log.setter
    def log(self, _: list[str]) -> None:
        """One server collects its lines, which nodes write to files."""

    # --- Life ------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start the processes and do not wait for them."""
        for node in self.nodes:
            node.start(self.environment)

    def start(self, timeout_s: float = START_S) -> ServerProcess:
        """Start the processes; returns when all serve clients and have their internal topics."""
        self.launch()
        try:
            self.cluster.wait(lambda _: None, timeout_s)
            eventually(self._is_whole, "internal topics have leaders", timeout_s)
        except StartError as error:
            self.kill()
            raise AssertionError(str(error)) from error
        except BaseException:
            self.kill()
            raise
        return self

    def _is_whole(self) -> bool:
        key = self.environment.get(_ROOT_KEY)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        for each in self.nodes:
            status, body = each.http.get("/cluster/partitions", headers)
            known = json.loads(body)["partitions"] if status == HTTPStatus.OK else []
            found = [each for each in known if each["topic"] == "__pipelines"]
            if not found or any(each["leader"] is None for each in found):
                return False
        return True

    def signal(self, number: int) -> None:
        """Send a signal to every supervisor, or stop the time of all processes; do not wait."""
        is_pause = number in (signal.SIGSTOP, signal.SIGCONT)
        to = ("supervisor", "broker", "etcd") if is_pause else ("supervisor",)
        self._processes = processes_of(self.nodes)
        for node in self.nodes:
            node.send(signal.Signals(number), *to)

    def wait(self, timeout_s: float = STOP_S) -> int:
        """0 once all have ended."""
        left = wait_for_end(self.nodes, self._processes, timeout_s)
        assert not left, f"{left} did not end"
        return 0

    def kill(self) -> int:
        """`kill -9` of every node at once."""
        end_nodes(self.nodes, signal.SIGKILL, STOP_S)
        return -signal.SIGKILL

    def restart(self) -> ServerProcess:
        """Start again in the same folders and on the same ports; stops what runs first."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End what runs; its ports, and 128 MB of etcd's logs a node, are too many to keep."""
        self.kill()
        for node in self.nodes:
            shutil.rmtree(node.data_dir / "etcd", ignore_errors=True)
        give_back_ports(self)

    def wait_for_line(self, part: str, timeout_s: float = START_S) -> str:
        """The first line of a log with these words, once it is there."""

        def found() -> str | None:
            return next((line for line in self.log if part in line), None)

        line: str = eventually(found, part, timeout_s)
        return line


def _sources() -> list[str]:
    """Where queue groups read: with GOQUEUE_TEST_REMOTE_SOURCES only at the leaders."""
    is_remote = os.environ.get("GOQUEUE_TEST_REMOTE_SOURCES")
    return ["--cluster-remote-queue-sources"] if is_remote else []

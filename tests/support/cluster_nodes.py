"""Three nodes of a cluster as processes that can be killed, paused, cut off and started again.

The nodes reach each other through a `Network`, so that every link between two of them can be cut.
Node n listens on 127.0.1.n and is advertised on 127.0.0.1.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from goqueue.server.supervision.local_cluster import is_running
from support.network import Network, Route
from support.pace import PATIENCE
from support.server import HOST, ServerProcess, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

READY_S: Final = 120.0 * PATIENCE
BROKER: Final = "broker"
ETCD: Final = "etcd"
NODE: Final = "node"
"""What a fault is done to; a node is its supervisor with both."""


class ClusterNode(ServerProcess):
    """One node: a supervisor, with etcd and the broker as its children."""

    def __init__(self, number: int, folder: Path, *flags: str, **options: Any) -> None:
        super().__init__(folder / f"node-{number}", *flags, **options)
        self.number = number

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def pids(self, what: str) -> list[int]:
        """The processes of a part of the node, those that are there."""
        if not self.is_running:
            return []
        children = _children(self.pid)
        if what == NODE:
            return [self.pid, *children]
        word = "broker_child" if what == BROKER else "etcd"
        return [pid for pid, command in children.items() if word in command]

    def send(self, what: str, number: signal.Signals) -> None:
        """Send a signal to a part of the node."""
        for pid in self.pids(what):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    @contextmanager
    def paused(self, what: str) -> Iterator[None]:
        """SIGSTOP, and SIGCONT at the end."""
        pids = self.pids(what)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def kill(self) -> int:
        """`kill -9` of the whole node."""
        pids = self.pids(NODE)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        code = self.wait()
        deadline = time.monotonic() + READY_S
        while any(map(is_running, pids)):
            assert time.monotonic() < deadline, f"processes of node {self.number} do not end"
            time.sleep(0.01)
        return code


class ClusterNodes:
    """A cluster, from `start` to `close`."""

    def __init__(self, folder: Path, *flags: str, count: int = 3, **options: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        secret = folder / "secret"
        if not secret.exists():
            secret.touch(mode=0o600)
            secret.write_text("the secret of a test's cluster")
        ports = [free_ports(3, self) for _ in range(count)]
        peers = ",".join(f"{HOST}:{each[0]}" for each in ports)
        self.folder = folder
        self.nodes: dict[int, ClusterNode] = {}
        routes: list[Route] = []
        for number, own in enumerate(ports, start=1):
            host = f"127.0.1.{number}"
            routes += [Route(number, port, port, host=host) for port in own]
            routes.append(Route(number, own[0], own[0], True, host))
            self.nodes[number] = ClusterNode(
                number,
                folder,
                *("--node-id", f"node-{number}"),
                *("--cluster-peers", peers),
                *("--cluster-advertise", f"{HOST}:{own[0]}"),
                *("--listeners-internal", f"{host}:{own[0]}"),
                *("--cluster-secret-file", str(secret)),
                *flags,
                **options,
            )
        self.network = Network(routes)

    def told(self) -> str:
        """What every node has logged last."""
        return "\n".join(
            f"--- node {number}\n" + "\n".join(node.log[-40:])
            for number, node in self.nodes.items()
        )

    @property
    def bootstrap(self) -> str:
        """For `bootstrap.servers`: every node."""
        return ",".join(each.kafka_address for each in self.nodes.values())

    def http_url(self, node: int) -> str:
        """The base of every path of one node's HTTP API."""
        return self.nodes[node].http_url

    def grpc_address(self, node: int) -> str:
        """`host:port` of one node, for gRPC channels."""
        return self.nodes[node].grpc_address

    def start(self) -> ClusterNodes:
        """Start all nodes; returns when each of them is ready."""
        for node in self.nodes.values():
            self.launch(node)
        for node in self.nodes.values():
            self.wait_ready(node)
        return self

    def launch(self, node: ClusterNode) -> None:
        """Start one node and do not wait for it."""
        node.launch()
        self.network.owns(node.number, node.pid)

    def restart(self, node: ClusterNode) -> None:
        """Start a node that is not running."""
        self.launch(node)
        self.wait_ready(node)

    @staticmethod
    def wait_ready(node: ClusterNode, timeout_s: float = READY_S) -> None:
        """Wait until a node says that it is ready."""
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(OSError):
                if node.get("/readyz")[0] == 200:
                    return
            if time.monotonic() > deadline or not node.is_running:
                told = "\n".join(node.log[-40:])
                raise AssertionError(f"node {node.number} is not ready:\n{told}")
            time.sleep(0.05)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        self.network.close()


def _children(pid: int) -> dict[int, str]:
    """The command lines of the processes that one has started."""
    found = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(each.read_text(errors="replace").rpartition(")")[2].split()[1])
            if parent == pid:
                command = (each.parent / "cmdline").read_bytes()
                found[int(each.parent.name)] = command.replace(b"\0", b" ").decode()
    return found

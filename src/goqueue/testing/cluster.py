"""`Cluster`: several real nodes for a test suite, each in processes that can be killed and paused.

Unlike `Broker`, whose node lives in the process of the tests, each node here is what runs in
production: a supervisor with etcd and a broker.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from goqueue.testing.embedded import FOR_TESTS, arguments_of
from goqueue.testing.messages import unique_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.server.supervision.local_cluster import LocalCluster, LocalNode, Ports

_HOST: Final = "127.0.0.1"
_PORTS: Final = range(20_000, 32_000)
"""Below those that Linux gives to clients: none of them takes the port of a node that is away."""
_PORTS_A_NODE: Final = 6
_READY_S: Final = 120.0
_STOP_S: Final = 120.0


class Cluster:
    """Some real nodes, from the start of a `with` to its end. Nodes are numbered from 1."""

    def __init__(
        self,
        nodes: int = 3,
        *,
        data_dir: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Make a cluster that is not running yet.

        Args:
            nodes: how many; 1, 3, 5 or 7.
            data_dir: where to keep the data, which then stays when the cluster is closed; without
                it there is a temporary folder that goes with the cluster.
            settings: settings of all nodes by their full names, as in `storage.fsync`.
        """
        self._count = nodes
        self._given_dir = None if data_dir is None else Path(data_dir)
        self._made_dir: tempfile.TemporaryDirectory[str] | None = None
        self._settings = {**FOR_TESTS, **(settings or {})}
        self._local: LocalCluster | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for `bootstrap.servers`."""
        return self._cluster.bootstrap

    @property
    def folder(self) -> Path:
        """Where everything is stored: a folder and a log of each node."""
        return self._cluster.folder

    def kafka_address(self, node: int) -> str:
        """`host:port` of one node, for Kafka clients."""
        return self._node(node).kafka_address

    def http_url(self, node: int = 1) -> str:
        """The base of every path of one node's HTTP API."""
        return self._node(node).http_url

    def grpc_address(self, node: int = 1) -> str:
        """`host:port` of one node, for gRPC channels."""
        return f"{_HOST}:{self._node(node).ports.grpc}"

    def internal_address(self, node: int) -> str:
        """`host:port` where the other nodes reach one; etcd has the two ports after it."""
        return f"{_HOST}:{self._node(node).ports.internal}"

    def data_dir(self, node: int) -> Path:
        """Where one node stores everything."""
        return self._node(node).data_dir

    def log(self, node: int) -> str:
        """What the supervisor and the broker of a node have written, across restarts."""
        return self._node(node).log_file.read_text(encoding="utf-8", errors="replace")

    def processes(self, node: int) -> dict[str, int]:
        """The process ids of a node: `supervisor`, `etcd`, `broker`; none when it does not run."""
        return self._node(node).processes

    @staticmethod
    def unique_name(stem: str = "test") -> str:
        """A name for a topic or a group that no other test has."""
        return unique_name(stem)

    def start(self, node: int | None = None, *, wait: bool = True) -> None:
        """Start one node or all that do not run; clients are served when this returns.

        Raises:
            GoQueueError: a node cannot start; the text says why.
        """
        from goqueue.server.supervision.local_cluster import (  # noqa: PLC0415 - as for `Broker`
            LocalCluster,
        )

        flags, secrets = arguments_of(self._settings)
        if self._local is None:
            self._local = LocalCluster.found(self._base, flags) or LocalCluster.made(
                self._base, free_ports(self._count), flags=flags
            )
        chosen = self._local.nodes if node is None else [self._node(node)]
        environment = {
            name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")
        }
        for each in chosen:
            each.start(environment | secrets)
        if wait:
            self.wait(node)

    def wait(self, node: int | None = None) -> None:
        """Wait until one node, or all, serve clients.

        Raises:
            StartError: one has ended, or is not ready in time.
        """
        chosen = self._cluster.nodes if node is None else [self._node(node)]
        self._cluster.wait(lambda _: None, _READY_S, chosen)

    def stop(self, node: int | None = None) -> None:
        """Stop one node or all, in order, and keep the data."""
        self._end(node, signal.SIGTERM)

    def kill(self, node: int, *processes: str) -> None:
        """Kill a node as a power cut would, but for the disk's cache; `start` starts it again.

        Args:
            node: its number.
            processes: only these of it, `broker` or `etcd`, which the supervisor starts again.
        """
        if processes:
            self._node(node).send(signal.SIGKILL, *processes)
        else:
            self._end(node, signal.SIGKILL)

    def restart(self, node: int) -> None:
        """Stop a node in order and start it: what an update does."""
        self.stop(node)
        self.start(node)

    def pause(self, node: int, *processes: str) -> None:
        """Stop the time of a node, or of its `broker` or `etcd` alone, until `resume`."""
        self._node(node).send(signal.SIGSTOP, *(processes or ("supervisor", "broker", "etcd")))

    def resume(self, node: int) -> None:
        """Let a paused node go on."""
        self._node(node).send(signal.SIGCONT, "supervisor", "broker", "etcd")

    def close(self) -> None:
        """Kill what runs, and remove the data if it is in a temporary folder."""
        if self._local is not None:
            for node in self._local.nodes:
                self.resume(node.number)
            self._end(None, signal.SIGTERM if self._made_dir is None else signal.SIGKILL)
        if self._made_dir is not None:
            self._made_dir.cleanup()
            self._made_dir = None
            self._local = None

    def _end(self, node: int | None, number: signal.Signals) -> None:
        from goqueue.server.supervision.local_cluster import end_nodes  # noqa: PLC0415 - as above

        chosen = self._cluster.nodes if node is None else [self._node(node)]
        if left := end_nodes(chosen, number, _STOP_S):
            raise RuntimeError(f"processes {left} did not stop in {_STOP_S:.0f} s")

    @property
    def _base(self) -> Path:
        if self._given_dir is not None:
            return self._given_dir
        if self._made_dir is None:
            self._made_dir = tempfile.TemporaryDirectory(
                prefix="goqueue-", ignore_cleanup_errors=True
            )
        return Path(self._made_dir.name)

    @property
    def _cluster(self) -> LocalCluster:
        if self._local is None:
            raise RuntimeError("the cluster is not running: use it in a `with`, or call start()")
        return self._local

    def _node(self, number: int) -> LocalNode:
        nodes = self._cluster.nodes
        if not 1 <= number <= len(nodes):
            raise ValueError(f"node {number}: nodes are numbered from 1 to {len(nodes)}")
        return nodes[number - 1]


def free_ports(count: int) -> list[Ports]:
    """Ports for so many nodes that nobody listens on."""
    from goqueue.server.supervision.local_cluster import Ports  # noqa: PLC0415 - as above

    found: list[Ports] = []
    luck = random.SystemRandom()
    with ExitStack() as held:
        while len(found) < count:
            first = luck.choice(_PORTS)
            if all(_is_held(first + n, held) for n in range(_PORTS_A_NODE)):
                found.append(Ports(first + 3, first + 4, first + 5, first))
    return found


def _is_held(port: int, held: ExitStack) -> bool:
    """Whether the port is free, and nobody else's until all have been drawn."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        sock = held.enter_context(socket.socket(type=kind))
        try:
            sock.bind((_HOST, port))
        except OSError:
            return False
    return True

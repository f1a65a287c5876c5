"""Three nodes on this machine, in processes of their own, and what they use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks._brokers import HOST
from benchmarks.harness import Skipped
from goqueue.model.errors import GoQueueError
from goqueue.model.internal_topics import DELAY_STATE
from goqueue.server.etcd.binary import find_etcd
from goqueue.server.supervision.local_cluster import LocalCluster, end_nodes
from goqueue.testing.cluster import free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES: Final = 3
CLUSTER: Final = "three nodes"

_READY_S: Final = 120.0
_STOP_S: Final = 120.0
_SETTLED_S: Final = 60.0
_POLL_S: Final = 0.1
_LOADED_S: Final = 1.0
_HTTP_S: Final = 5.0
_SCHEDULED: Final = 2
"""What the clock of another process counts, beside its id: all that it ran, in nanoseconds."""


class ClusterProcesses:
    """A supervisor, an etcd and a broker a node, with the settings they come with.

    Use it in a `with`; nodes are numbered from 1.
    """

    name = CLUSTER

    def __init__(
        self, folder: Path, *flags: str, environment: dict[str, str] | None = None
    ) -> None:
        """A cluster in a folder, started and ready; its environment may have more than this one.

        Raises:
            Skipped: this machine has no etcd.
        """
        try:
            find_etcd()
        except GoQueueError as error:
            raise Skipped(str(error)) from error
        self._local = LocalCluster.made(folder, free_ports(NODES), flags=flags)
        self.folder = folder
        self._is_new = True
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("GOQUEUE_")}
        self._environment = inherited | (environment or {})
        began = time.perf_counter()
        for node in self._local.nodes:
            node.start(self._environment)
        try:
            self._local.wait(lambda _: None, _READY_S)
        except BaseException:
            self.close()
            raise
        self.started_s = time.perf_counter() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The addresses of all nodes, for `bootstrap.servers`."""
        return self._local.bootstrap

    def address_of(self, node: int) -> str:
        """That of one."""
        return self._local.nodes[node - 1].kafka_address

    def data_of(self, node: int) -> Path:
        """Where one node stores everything."""
        return self._local.nodes[node - 1].data_dir

    # --- Ending and starting nodes ---------------------------------------------------------------

    def kill(self, node: int) -> None:
        """End a node as `kill -9` of all of its processes does."""
        self._local.nodes[node - 1].send(signal.SIGKILL, "broker", "etcd", "supervisor")
        end_nodes([self._local.nodes[node - 1]], signal.SIGKILL, _STOP_S)

    def stop(self, node: int) -> None:
        """End a node in order."""
        end_nodes([self._local.nodes[node - 1]], signal.SIGTERM, _STOP_S)

    def start(self, node: int, *, wait: bool = True) -> None:
        """Start one that does not run."""
        chosen = self._local.nodes[node - 1]
        chosen.start(self._environment)
        if wait:
            self._local.wait(lambda _: None, _READY_S, [chosen])

    def close(self) -> None:
        """End them all, at once."""
        end_nodes(self._local.nodes, signal.SIGKILL, _STOP_S)

    def settle(self) -> None:
        """Wait until every replica is in sync, every node is ready, and delayed messages are taken.

        Raises:
            TimeoutError: that takes longer than a minute.
        """
        give_up = time.monotonic() + _SETTLED_S
        while time.monotonic() < give_up:
            try:
                health = self._get(1, "/v1/cluster/health")
                units = self._get(1, f"/v1/topics/{DELAY_STATE}")["partitions"]
            except OSError:
                health, units = {}, []
            if health.get("status") == "healthy" and all(each["leader"] for each in units):
                if self._is_new:  # the units were made a moment ago: let them be loaded
                    self._is_new = False
                    time.sleep(_LOADED_S)
                return
            time.sleep(_POLL_S)
        raise TimeoutError(f"the cluster did not become healthy: {health}")

    def http_port_of(self, node: int) -> int:
        """The port of one node's HTTP API."""
        return self._local.nodes[node - 1].ports.http

    def grpc_address_of(self, node: int) -> str:
        """Where one node speaks gRPC."""
        return f"{HOST}:{self._local.nodes[node - 1].ports.grpc}"

    # --- Who has which office --------------------------------------------------------------------

    def controller(self) -> int:
        """The node that is the controller."""
        for node in range(1, NODES + 1):
            try:
                return int(self._get(node, "/v1/cluster/nodes")["controller"])
            except OSError:
                continue
        raise RuntimeError("no node answers")

    def leader_of(self, topic: str, partition: int) -> int:
        """The node that leads a partition."""
        return int(self._get(1, f"/v1/topics/{topic}")["partitions"][partition]["leader"])

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has."""
        return len(self._get(1, f"/v1/topics/{topic}")["partitions"])

    def give_etcd_leadership(self, node: int) -> None:
        """Have the etcd of this node lead the others."""
        members = {n: self._etcd(n, "status") for n in range(1, NODES + 1)}
        leader_id = members[node]["leader"]
        wanted_id = members[node]["header"]["member_id"]
        if leader_id != wanted_id:
            leading = next(n for n, s in members.items() if s["header"]["member_id"] == leader_id)
            self._etcd(leading, "transfer-leadership", targetID=wanted_id)

    def _etcd(self, node: int, what: str, **fields: str) -> Any:
        url = (
            f"http://{HOST}:{self._local.nodes[node - 1].ports.internal + 1}/v3/maintenance/{what}"
        )
        request = urllib.request.Request(url, json.dumps(fields).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=_HTTP_S) as answer:
            return json.load(answer)

    def _get(self, node: int, path: str) -> Any:
        url = self._local.nodes[node - 1].http_url + path
        with urllib.request.urlopen(url, timeout=_HTTP_S) as answer:
            return json.load(answer)

    # --- What they use ---------------------------------------------------------------------------

    def pids(self, name: str) -> list[int]:
        """The processes of this name (`broker`, `etcd`), of each node that runs."""
        found = (node.processes for node in self._local.nodes)
        return [processes[name] for processes in found if name in processes]

    def cpu_s(self) -> float:
        """The processor time that the brokers have had together."""
        return cpu_s_of(self.pids("broker"))

    def memory_mb(self, name: str) -> list[float]:
        """What each process of this name holds."""
        return [rss_mb(pid) for pid in self.pids(name)]


def cpu_s_of(pids: Sequence[int]) -> float:
    """The processor time that processes have had, by the scheduler's own clock."""
    return sum(time.clock_gettime(~pid << 3 | _SCHEDULED) for pid in pids)


def rss_mb(pid: int) -> float:
    """The memory that a process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def start_by_command(folder: Path) -> float:
    """`goqueue cluster start` in a new folder, and what it took; the nodes are ended then."""
    ports = free_ports(NODES)
    # The command counts on from the first port of each kind; ten internal ports a node.
    base = min(each.internal for each in ports)
    given = {"kafka": base, "http": base + 10, "grpc": base + 20, "internal": base + 30}
    command = [sys.executable, "-m", "goqueue.cli", "cluster", "start", "--nodes", str(NODES)]
    flags = [f"--{name}-port={port}" for name, port in given.items()]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GOQUEUE_")}
    began = time.perf_counter()
    try:
        subprocess.run(
            [*command, "--folder", str(folder), *flags],
            check=True,
            capture_output=True,
            env=environment,
        )
        return time.perf_counter() - began
    finally:
        cluster = LocalCluster.found(folder)
        if cluster is not None:
            end_nodes(cluster.nodes, signal.SIGKILL, _STOP_S)

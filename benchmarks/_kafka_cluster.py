"""Three nodes of Apache Kafka on this machine, each a broker and a controller of the quorum.

Their settings are those they come with, but for what a cluster of three needs: three replicas of
every partition, two of which must be in sync.
"""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Final, Self

from benchmarks._brokers import HOST, free_port
from benchmarks._client import ClientProcess
from benchmarks._clusters import NODES, cpu_s_of, rss_mb
from benchmarks._kafka_server import KAFKA, java_command
from benchmarks._queue_servers import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

_CLUSTER: Final = "Z29xdWV1ZS1iZW5jaC0wMw"
_SETTINGS: Final = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
log.dirs={folder}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
group.initial.rebalance.delay.ms=0
"""


class KafkaCluster:
    """Three JVMs; use it in a `with`. Nodes are numbered from 1."""

    name = KAFKA

    def __init__(self, folder: Path) -> None:
        """Format three folders, and start a node on each.

        Raises:
            Skipped: there is no Java, or no folder of jars was named.
        """
        self._java = java_command()
        self._folder = folder
        folder.mkdir(parents=True)
        self._ports = [free_port() for _ in range(NODES)]
        controllers = [free_port() for _ in range(NODES)]
        voters = ",".join(f"{n}@{HOST}:{port}" for n, port in enumerate(controllers, 1))
        for node in range(1, NODES + 1):
            settings = self._settings_of(node)
            settings.write_text(
                _SETTINGS.format(
                    node=node,
                    voters=voters,
                    host=HOST,
                    port=self._ports[node - 1],
                    controller_port=controllers[node - 1],
                    folder=folder / f"node-{node}",
                )
            )
            tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
            subprocess.run([*self._java, *tool], check=True, capture_output=True)
        self._admin = ClientProcess("_cluster_client")
        self._nodes: dict[int, ServerProcess] = {}
        began = time.perf_counter()
        for node in range(1, NODES + 1):
            self._spawn(node)
        self._admin.call("formed", address=self.address, nodes=NODES)
        self.started_s = time.perf_counter() - began

    def _settings_of(self, node: int) -> Path:
        return self._folder / f"node-{node}.properties"

    def _spawn(self, node: int) -> None:
        command = [*self._java, "kafka.Kafka", str(self._settings_of(node))]
        folder, port = self._folder / f"node-{node}", self._ports[node - 1]
        self._nodes[node] = ServerProcess(f"{KAFKA} {node}", command, folder, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._admin.__exit__()
        for node in self._nodes.values():
            node.kill()

    @property
    def address(self) -> str:
        """The addresses of all nodes."""
        return ",".join(f"{HOST}:{port}" for port in self._ports)

    def address_of(self, node: int) -> str:
        """That of one."""
        return f"{HOST}:{self._ports[node - 1]}"

    def kill(self, node: int) -> None:
        """End a node as `kill -9` does."""
        self._nodes.pop(node).kill()

    def start(self, node: int) -> None:
        """Start one that was killed."""
        self._spawn(node)
        self._admin.call("formed", address=self.address, nodes=NODES)

    def settle(self) -> None:
        """Wait until every replica is in sync."""
        self._admin.call("whole", address=self.address)

    def cpu_s(self) -> float:
        """The processor time that the nodes have had together."""
        return cpu_s_of([node.pid for node in self._nodes.values()])

    def memory_mb(self) -> list[float]:
        """What each node holds."""
        return [rss_mb(node.pid) for node in self._nodes.values()]

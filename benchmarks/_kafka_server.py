"""Apache Kafka's own broker: one node that is its own controller, from a folder of jars.

Its settings are those it comes with, but for replication factors that one node can have. The JVM
has what Kafka's start script gives it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from benchmarks._brokers import HOST, PARTITIONS, free_port
from benchmarks._queue_servers import ServerProcess
from benchmarks.harness import Skipped

KAFKA: Final = "Apache Kafka"

_JARS: Final = "GOQUEUE_BENCH_KAFKA"
_HEAP: Final = ("-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_CLUSTER: Final = "Z29xdWV1ZS1iZW5jaC0wMQ"
_SETTINGS: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
log.dirs={folder}
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def start_kafka(folder: Path) -> ServerProcess:
    """Format a folder and start a broker on it.

    Raises:
        Skipped: there is no Java, or no folder of jars was named.
    """
    java = java_command()
    folder.mkdir(parents=True)
    port = free_port()
    settings = folder.with_suffix(".properties")
    settings.write_text(
        _SETTINGS.format(
            host=HOST,
            port=port,
            controller_port=free_port(),
            folder=folder,
            partitions=PARTITIONS,
        )
    )
    tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
    subprocess.run([*java, *tool], check=True, capture_output=True)
    return ServerProcess(KAFKA, [*java, "kafka.Kafka", str(settings)], folder, port)


def java_command() -> list[str]:
    """The command up to the class that is to run.

    Raises:
        Skipped: there is no Java, or no folder of jars was named.
    """
    jars = os.environ.get(_JARS)
    if jars is None:
        raise Skipped("name the folder of Apache Kafka's jars: goqueue bench --against-kafka DIR")
    if not list(Path(jars).glob("kafka_*.jar")):
        raise Skipped(f"{jars} has no kafka_*.jar; benchmarks/README.md says how to fetch the jars")
    program = shutil.which("java")
    if program is None:
        raise Skipped("there is no java on the path; Kafka 4 needs Java 17 or newer")
    return [program, *_HEAP, "-cp", f"{jars}/*"]

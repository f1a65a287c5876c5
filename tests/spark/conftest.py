"""One Spark for the whole run, small and quiet: starting it is what these tests cost."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.spark.kafka.sharing import close_shared
from support.cluster_broker import SparkCluster, own_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores of this machine, which finds the source as it would after an install."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ and "CI" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer, and there is none on this machine")
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half of these tests need no Spark

    scratch = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    session = (
        builder.config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One broker for all of them, each of which has topics of its own; or three nodes."""
    with own_broker(tmp_path_factory.mktemp("broker"), kind=SparkCluster) as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def no_connection_is_left_open() -> Iterator[None]:
    """What a worker keeps until it ends, a test run closes."""
    yield
    close_shared()

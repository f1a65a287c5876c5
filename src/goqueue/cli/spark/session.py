"""A Spark for one command, quiet enough for a terminal."""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from goqueue.cli.spark.redirects import stderr_to_file
from goqueue.spark.monitoring.failures import ERROR_LOGGERS
from goqueue.spark.pipelines.execution.sessions import (
    connected,
    quiet_settings,
    started,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

_COMMAND: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""For a command that shows how far it is by itself, wherever its tasks run."""


def start_spark(
    name: str, master: str, conf: Mapping[str, str], log: Path | None = None
) -> SparkSession:
    """A session on a master, or on a Spark Connect server where the address starts with `sc://`.

    Tasks run under the Python that runs this, unless PYSPARK_PYTHON says otherwise.

    Args:
        name: What Spark calls the application.
        master: Where it runs.
        conf: Settings of Spark.
        log: A file for what Spark and its workers say on standard error; they say it there for as
            long as they live. None: on ours.

    Raises:
        SessionError: there is no Spark Connect server, or its client is not installed.
    """
    if master.startswith("sc://"):
        return connected(master, conf)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nor does it guess, and say so
    with nullcontext() if log is None else stderr_to_file(log):
        spark = started(name, master, {**quiet_settings(master), **_COMMAND, **conf})
    spark.sparkContext.setLogLevel("ERROR")
    for each in ERROR_LOGGERS:
        logging.getLogger(each).setLevel(logging.CRITICAL)  # errors are raised too
    return spark

"""The Spark that a pipeline runs on: one on this machine unless it names another.

Each pipeline gets a session of its own, so that its tables may have any names and two pipelines in
one process never see each other's. Sessions share the Spark beneath, which is left running: the
next pipeline of the process starts at once, and Spark ends with the process.
"""

from __future__ import annotations

import os
import pkgutil
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from goqueue.spark.errors import SparkSourceError
from goqueue.spark.requirements import INSTALL, check_spark, use_own_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from goqueue.spark.pipelines.model import Pipeline

DEFAULT_MASTER: Final = "local[*]"
_SHUFFLE_PARTITIONS: Final = 8
"""Spark's 200 are for clusters: here each costs a task of some milliseconds a micro-batch."""
_EVERYWHERE: Final = {"spark.sql.session.timeZone": "UTC"}
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",  # why a query failed is said in one sentence, not in two traces
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
}
CONNECT_EXTRA: Final = "pip install 'pyspark[connect]'"
"""What the client of Spark Connect needs beside Spark: pandas, and three packages around gRPC."""
_CONNECT_PORT: Final = 15002
_ANSWER_S: Final = 10.0
"""Spark's own client tries for ten minutes before it says that nobody is there."""


class SessionError(SparkSourceError):
    """There is no Spark to run on."""


def session_for(pipeline: Pipeline) -> SparkSession:
    """A session of the pipeline's own, on the Spark of this process if there is one already.

    Raises:
        SessionError: Spark is not installed, does not start, or does not answer.
    """
    try:
        if pipeline.is_remote:
            session = connected(pipeline.master or "", pipeline.conf)
        else:
            session = _on_this_driver(pipeline)
    except ImportError as error:
        raise SessionError(f"Spark cannot be imported ({error}): {INSTALL}") from error
    except SparkSourceError:
        raise
    except Exception as error:
        master = pipeline.master or DEFAULT_MASTER
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise SessionError(f"no Spark at {master}: {text[0]}") from error
    register_sources(session)
    return session


def _on_this_driver(pipeline: Pipeline) -> SparkSession:
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is slow to import
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    running = SparkSession.getActiveSession()
    if running is None and SparkContext._active_spark_context is not None:  # noqa: SLF001 - no other way to ask
        running = SparkSession.Builder().getOrCreate()
    if running is None:
        master = pipeline.master or DEFAULT_MASTER
        running = started(pipeline.name, master, settings_of(pipeline))
    elif pipeline.master not in {None, running.sparkContext.master}:
        raise SessionError(
            f"the pipeline wants Spark at {pipeline.master}, and this process runs one at "
            f"{running.sparkContext.master}: stop that, or leave master out"
        )
    session = running.newSession()
    _configure(session, _EVERYWHERE | dict(pipeline.conf))
    return session


def started(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    """Start the Spark of this process. Tasks run under its Python, or that of PYSPARK_PYTHON."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    check_spark(master)
    use_own_python()
    # `builder` is made anew: settings given to the shared one would stay for whoever comes next.
    builder = SparkSession.Builder().master(master).appName(name)
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def connected(address: str, conf: Mapping[str, str]) -> SparkSession:
    """A new session on a Spark Connect server.

    Raises:
        SessionError: the connection is refused or times out, or the client is not installed.
    """
    place = urlsplit(address)
    try:
        host, port = place.hostname or "", place.port or _CONNECT_PORT
        socket.create_connection((host, port), timeout=_ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise SessionError(f"no Spark Connect server answers at {address}: {error}") from error
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

        session = SparkSession.Builder().remote(address).create()
    except ImportError as error:
        raise SessionError(f"Spark Connect cannot be used ({error}): {CONNECT_EXTRA}") from error
    _configure(session, _EVERYWHERE | dict(conf))
    return session


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make a session the one that this thread works in, for as long as it does.

    Spark looks for registered sources in the active session, whichever session a frame is of.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    before = SparkSession.getActiveSession()
    _activate(session)
    try:
        yield
    finally:
        if before is not None:
            _activate(before)


def _activate(session: SparkSession) -> None:
    session.createDataFrame([], "nothing int")  # does so by the way; no other public call does


def settings_of(pipeline: Pipeline) -> dict[str, str]:
    """What a Spark that is started for the pipeline is started with."""
    master = pipeline.master or DEFAULT_MASTER
    settings = quiet_settings(master)
    if master.startswith("local"):
        cores = os.cpu_count() or 1
        settings["spark.sql.shuffle.partitions"] = str(min(cores, _SHUFFLE_PARTITIONS))
    return settings | dict(pipeline.conf)


def quiet_settings(master: str) -> dict[str, str]:
    """What any Spark is started with: one on this machine keeps to itself, and shows no pages."""
    return _EVERYWHERE | _LOCAL if master.startswith("local") else dict(_EVERYWHERE)


def _configure(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Set what a running session can still change; the rest was for starting it."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    for name, value in conf.items():
        try:
            if session.conf.isModifiable(name):
                session.conf.set(name, value)
        except PySparkException as error:
            raise SessionError(
                f"spark conf {name}={value}: {str(error).splitlines()[0]}"
            ) from error


def register_sources(session: SparkSession) -> None:
    """Tell Spark of our sources where it would not find them, as with some editable installs."""
    found = {each.name for each in pkgutil.iter_modules()}
    if "pyspark_goqueue" not in found:
        from goqueue.spark.source import GoQueueDataSource  # noqa: PLC0415 - rarely needed

        session.dataSource.register(GoQueueDataSource)
    if "pyspark_goqueue_lake" not in found:
        from goqueue.spark.lake import LakeDataSource  # noqa: PLC0415 - rarely needed

        session.dataSource.register(LakeDataSource)

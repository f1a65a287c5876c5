"""`goqueue pipeline demo`: a real broker, data, a pipeline, and what it made of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from goqueue.cli.api import Api
from goqueue.cli.contexts import Target
from goqueue.cli.errors import CliError
from goqueue.cli.output import Format, note
from goqueue.cli.own_broker import own_broker
from goqueue.cli.progress_bars import Bars
from goqueue.cli.spark.demo_results import archived_rows, results, show_results
from goqueue.protocols.http.messages.message_shapes import PublishAnswer
from goqueue.protocols.http.operations.operation_shapes import PipelineList
from goqueue.protocols.http.topics.topic_shapes import TopicInfo
from goqueue.spark.demo.orders import SPAN_MS, customers_csv, orders
from goqueue.spark.demo.report import DemoFacts, Moment, page
from goqueue.spark.errors import SparkMissingError
from goqueue.spark.requirements import check_spark

if TYPE_CHECKING:
    from pathlib import Path


_STOP_S: Final = 30.0
_LOOK_S: Final = 0.5
_AT_ONCE: Final = 500
_PIPELINE: Final = "orders"
_CHECKPOINTS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_QUICK: Final = (
    "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    f"spark.sql.streaming.checkpointFileManagerClass={_CHECKPOINTS}",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled=false",
)
"""Settings of Spark for a run of seconds: of its time, most is for starting and for checkpoints."""
MARK: Final = "orders.yaml"
REPORT: Final = "report.html"


def run_demo(folder: Path, count: int, output: Format, *, stay: bool, force: bool) -> None:
    """Do everything, in a folder of its own.

    Raises:
        CliError: something is in the way, or went wrong.
    """
    try:
        check_spark()
    except SparkMissingError as error:
        raise CliError(str(error)) from error
    _prepare(folder, force=force)
    started_s = time.monotonic()
    with own_broker(folder, "demo") as (servers, http):
        api = Api(Target(http, "demo", timeout_s=60.0))
        note(f"1/4 started a broker: Kafka at {servers}, console at {http}/console")
        bad = _publish(api, count)
        note(f"2/4 {count:,} orders published to the topic orders, {bad:,} of them invalid")
        note(f"3/4 goqueue pipeline run {folder / MARK} (Spark needs some seconds to start)")
        moments = _run_pipeline(api, folder, servers, http)
        took_s = time.monotonic() - started_s
        note(f"4/4 reading what came of it, after {took_s:.0f} s")
        found = results(api, folder / "archive")
        facts = _facts(found, folder, moments, orders=count, invalid=bad, took_s=took_s)
        (folder / REPORT).write_text(page(facts), "utf-8")
        found["report"] = (folder / REPORT).absolute().as_uri()
        show_results(found, output, folder / MARK)
        if stay:
            _stay(http)


def _prepare(folder: Path, *, force: bool) -> None:
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise CliError(f"{folder} exists and is not a demo folder: choose another folder")
        if not force:
            raise CliError(f"{folder} exists already: --force replaces it")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = resources.files("goqueue.spark.demo").joinpath(MARK).read_text("utf-8")
    (folder / MARK).write_text(text, "utf-8")
    (folder / "customers.csv").write_text(customers_csv(), "utf-8")


# --- The data ------------------------------------------------------------------------------------


def _publish(api: Api, count: int) -> int:
    """Publish the orders of the last hour; returns how many are wrong."""
    api.post(TopicInfo, "/topics", body={"name": "orders", "num_partitions": 4})
    made = list(orders(count, time.time_ns() // 1_000_000 - SPAN_MS))
    with Bars() as bars:
        for at in range(0, len(made), _AT_ONCE):
            part = made[at : at + _AT_ONCE]
            messages = [{"key": each.key, "value": each.value} for each in part]
            api.post(PublishAnswer, "/topics/{}/messages", "orders", body={"messages": messages})
            bars("publishing orders", at + len(part), len(made))
    return sum(not each.is_good for each in made)


# --- The pipeline --------------------------------------------------------------------------------


def _run_pipeline(api: Api, folder: Path, servers: str, http: str) -> list[Moment]:
    """Run the command that a user would: its display is part of what is shown.

    Returns how it went, as it told the broker.
    """
    command = [sys.executable, "-m", "goqueue.cli", "pipeline", "run", str(folder / MARK)]
    settings = [part for each in _QUICK for part in ("--conf", each)]
    environment = {**os.environ, "GOQUEUE_SERVERS": servers, "GOQUEUE_SERVER": http}
    running = subprocess.Popen([*command, *settings], env=environment, stdout=sys.stderr)  # noqa: S603 - ours
    moments: list[Moment] = []
    try:
        while True:
            code = _ended(running)
            _look(api, moments)
            if code is not None:
                break
    finally:
        if running.poll() is None:  # Ctrl-C, which the pipeline was told as well
            running.wait(_STOP_S)
    if code:
        raise CliError("the pipeline failed: see the output above")
    return moments


def _ended(running: subprocess.Popen[bytes]) -> int | None:
    try:
        return running.wait(_LOOK_S)
    except subprocess.TimeoutExpired:
        return None


def _look(api: Api, moments: list[Moment]) -> None:
    """Note how far the pipeline is, if it has told the broker anything new."""
    listed = api.get(PipelineList, "/pipelines").pipelines
    report = next((each for each in listed if each.name == _PIPELINE), None)
    if report is None or not report.queries:
        return
    at_s = (report.updated_at - (report.started_at or report.updated_at)) / 1000
    if not moments or at_s > moments[-1].at_s:
        rows = sum(each.rows or 0 for each in report.queries)
        moments.append(Moment(at_s, rows, sum(each.lag or 0 for each in report.queries)))


def _facts(
    found: dict[str, Any],
    folder: Path,
    moments: list[Moment],
    *,
    orders: int,
    invalid: int,
    took_s: float,
) -> DemoFacts:
    countries, rows = archived_rows(folder / "archive")
    return DemoFacts(
        orders=orders,
        invalid=invalid,
        took_s=took_s,
        moments=moments,
        revenue=found["revenue"],
        letters=found["dead_letters"]["total"],
        reasons=found["dead_letters"]["reasons"],
        archived=found["archive"]["rows"],
        countries=countries,
        rows=rows,
        pipeline=(folder / MARK).read_text("utf-8"),
    )


# --- The end -------------------------------------------------------------------------------------


def _stay(http: str) -> None:
    note(f"the broker runs until Ctrl-C: open {http}/console")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        note("stopped")

"""`goqueue pipeline demo`: a real broker, data, a pipeline, and what it made of them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from goqueue.cli.api import Api
from goqueue.cli.contexts import Target
from goqueue.cli.errors import CliError, UnreachableError
from goqueue.cli.messages.topic_reader import time_range
from goqueue.cli.output import Format, emit, note, shortened
from goqueue.cli.times import show_size
from goqueue.protocols.http.messages.message_shapes import PublishAnswer
from goqueue.protocols.http.operations.operation_shapes import Readiness
from goqueue.protocols.http.queues.dead_letter_shapes import LetterLine, LetterList
from goqueue.protocols.http.topics.topic_shapes import TopicInfo

if TYPE_CHECKING:
    from collections.abc import Iterator


_START_S: Final = 20.0
_STOP_S: Final = 30.0
_PAGE: Final = 1000
"""Dead letters that the broker tells of at once."""
_AT_ONCE: Final = 500
_SHOWN: Final = 8
_WIDTH: Final = 60
MARK: Final = "orders.yaml"


def run_demo(folder: Path, count: int, output: Format, *, stay: bool, force: bool) -> None:
    """Do everything, in a folder of its own.

    Raises:
        CliError: something is in the way, or went wrong.
    """
    _prepare(folder, force=force)
    with _broker(folder) as (servers, http):
        api = Api(Target(http, "demo", timeout_s=60.0))
        note(f"started a broker: Kafka at {servers}, console at {http}/console")
        bad = _publish(api, count)
        note(f"{count:,} orders published to the topic orders, {bad:,} of them invalid")
        note(f"goqueue pipeline run {folder / MARK}")
        _run_pipeline(folder, servers, http)
        found = {
            "revenue": _revenue(api),
            "dead_letters": _dead_letters(api),
            "archive": _archive(folder / "archive"),
        }
        _show(found, output, folder)
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
    from goqueue.spark.demo.orders import customers_csv  # noqa: PLC0415 - this command alone

    text = resources.files("goqueue.spark.demo").joinpath(MARK).read_text("utf-8")
    (folder / MARK).write_text(text, "utf-8")
    (folder / "customers.csv").write_text(customers_csv(), "utf-8")


# --- The broker ----------------------------------------------------------------------------------


@contextmanager
def _broker(folder: Path) -> Iterator[tuple[str, str]]:
    kafka, http, grpc = _free_ports(3)
    command = [sys.executable, "-m", "goqueue.cli", "server", "--data-dir", str(folder / "data")]
    ports = ["--kafka-port", str(kafka), "--http-port", str(http), "--grpc-port", str(grpc)]
    with (folder / "broker.log").open("wb") as log:
        server = subprocess.Popen([*command, *ports], stdout=log, stderr=log)  # noqa: S603 - ours
        try:
            url = f"http://127.0.0.1:{http}"
            _wait(server, url, folder / "broker.log")
            yield f"127.0.0.1:{kafka}", url
        finally:
            server.terminate()
            try:
                server.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    api = Api(Target(url, "demo", timeout_s=5.0))
    deadline = time.monotonic() + _START_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if api.probe(Readiness, "/readyz")[0] == 200:
                return
        except UnreachableError:
            pass
        time.sleep(0.05)
    raise CliError(f"the broker did not start: see {log}")


# --- The data ------------------------------------------------------------------------------------


def _publish(api: Api, count: int) -> int:
    """Publish the orders of the last hour; returns how many are wrong."""
    from goqueue.spark.demo.orders import SPAN_MS, orders  # noqa: PLC0415 - this command alone

    api.post(TopicInfo, "/topics", body={"name": "orders", "num_partitions": 4})
    made = list(orders(count, time.time_ns() // 1_000_000 - SPAN_MS))
    for at in range(0, len(made), _AT_ONCE):
        part = made[at : at + _AT_ONCE]
        messages = [{"key": each.key, "value": each.value} for each in part]
        api.post(PublishAnswer, "/topics/{}/messages", "orders", body={"messages": messages})
    return sum(not each.is_good for each in made)


def _run_pipeline(folder: Path, servers: str, http: str) -> None:
    """Run the command that a user would: its display is part of what is shown."""
    command = [sys.executable, "-m", "goqueue.cli", "pipeline", "run", str(folder / MARK)]
    environment = {**os.environ, "GOQUEUE_SERVERS": servers, "GOQUEUE_SERVER": http}
    done = subprocess.run(command, env=environment, stdout=sys.stderr, check=False)  # noqa: S603 - ours
    if done.returncode:
        raise CliError("the pipeline failed: see the output above")


# --- What came of it -----------------------------------------------------------------------------


def _revenue(api: Api) -> list[dict[str, Any]]:
    """The newest figures of each minute and country."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for message in time_range(api, "revenue", None, None, None):
        row = json.loads(message.value or "")
        newest[row["window_start"], row["country"]] = row
    return [newest[each] for each in sorted(newest)]


def _dead_letters(api: Api) -> dict[str, Any]:
    letters: list[LetterLine] = []
    while True:
        page = api.get(LetterList, "/topics/{}/dlq", "orders", limit=_PAGE, skip=len(letters))
        letters += page.letters
        if len(page.letters) < _PAGE:
            break
    samples = {str(each.error).partition(" (")[0]: each.preview for each in letters}
    reasons = Counter(str(each.error).partition(" (")[0] for each in letters)
    rows = [
        {"why": why, "letters": many, "for example": shortened(samples[why], _WIDTH)}
        for why, many in reasons.most_common()
    ]
    return {"topic": page.dead_letter_topic, "total": page.total, "reasons": rows}


def _archive(folder: Path) -> dict[str, Any]:
    from pyarrow import dataset  # noqa: PLC0415 - comes with Spark, needed at the end

    table = dataset.dataset(folder, format="parquet", partitioning="hive")
    files = table.files
    size = sum(Path(each).stat().st_size for each in files)
    return {"folder": str(folder), "rows": table.count_rows(), "files": len(files), "bytes": size}


def _show(found: dict[str, Any], output: Format, folder: Path) -> None:
    if output.value != "table":
        emit(found, output)
        return
    revenue, letters, archive = found["revenue"], found["dead_letters"], found["archive"]
    typer.echo(f"\nRevenue by the minute (topic revenue, the last {_SHOWN} of {len(revenue)}):")
    emit(revenue[-_SHOWN:], output)
    typer.echo(f"\nDead letters (topic {letters['topic']}, {letters['total']} in all):")
    emit(letters["reasons"], output)
    size = show_size(archive["bytes"])
    typer.echo(
        f"\nArchive ({archive['folder']}): {archive['rows']:,} rows, {archive['files']} Parquet "
        f"files, {size}"
    )
    typer.echo(f"\nThe pipeline is in {folder / MARK}.")


def _stay(http: str) -> None:
    note(f"the broker runs until Ctrl-C: open {http}/console")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        note("stopped")

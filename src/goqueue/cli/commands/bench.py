"""`goqueue bench`: run the benchmarks of a source checkout.

The benchmarks measure against other libraries and are no part of what is installed, so they are
found on disk: in the folder the command runs in, in one above it, or beside an editable install.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

import goqueue
from goqueue.cli.output import Format, emit, fail

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from benchmarks import harness as harness_types

_NO_CHECKOUT = (
    "no benchmarks found: they are part of the source tree, not of the installed package. "
    "Clone the repository and run `make bench` in it, or `goqueue bench` in any of its folders."
)
_KAFKA_JARS = "GOQUEUE_BENCH_KAFKA"
_KAFKA_GROUP = "against_kafka"


app = typer.Typer()


class BenchFormat(StrEnum):
    """A table for each benchmark, or the line of JSON that is kept of it."""

    TABLE = "table"
    JSON = "json"


Wanted: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="GROUP...", help="A group such as storage, or one by its full name."),
]
ListOption: TypeAlias = Annotated[
    bool, typer.Option("--list", help="List the benchmarks; run nothing.")
]
RecordOption: TypeAlias = Annotated[
    bool, typer.Option("--record", help="Add the results to the tracked history.jsonl.")
]
KafkaOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--against-kafka",
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="Run the group against_kafka, beside a Kafka started from the jars in DIR.",
    ),
]
OutputOption: TypeAlias = Annotated[
    BenchFormat, typer.Option("--output", "-o", help="The output format.")
]


@app.command("bench")
def run_benchmarks(
    wanted: Wanted = None,
    list_only: ListOption = False,
    record: RecordOption = False,
    against_kafka: KafkaOption = None,
    output: OutputOption = BenchFormat.TABLE,
) -> None:
    """Run the benchmarks of a source checkout, all or some groups of them.

    Results are added to local.jsonl in benchmarks/results, which git ignores.
    """
    harness = _load_harness(find_checkout(_search_path()))
    if against_kafka is not None:
        os.environ[_KAFKA_JARS] = str(against_kafka.resolve())
        wanted = wanted or [_KAFKA_GROUP]
    try:
        chosen = harness.select(wanted or ())
    except harness.UnknownBenchmarkError as error:
        fail(str(error), exit_code=2)
    if list_only:
        listed = [{"benchmark": each.name, "measures": each.title} for each in chosen]
        emit(listed, Format(output.value))
        return
    _run_all(harness, chosen, record=record, output=output)


def find_checkout(candidates: Iterable[Path]) -> Path | None:
    """The first folder that is the root of a GoQueue source tree."""
    for folder in candidates:
        harness = folder / "benchmarks" / "harness.py"
        if harness.is_file() and (folder / "src" / "goqueue").is_dir():
            return folder
    return None


def _search_path() -> list[Path]:
    here = Path.cwd()
    beside_package = Path(goqueue.__file__).resolve().parents[2]
    return [here, *here.parents, beside_package]


def _load_harness(checkout: Path | None) -> ModuleType:
    if checkout is None:
        fail(_NO_CHECKOUT)
    sys.path.insert(0, str(checkout))
    return importlib.import_module("benchmarks.harness")


def _run_all(
    harness: ModuleType,
    chosen: list[harness_types.Benchmark],
    *,
    record: bool,
    output: BenchFormat,
) -> None:
    from rich.console import Console  # noqa: PLC0415 - start-up stays light

    results: Path = harness.RECORDED_RESULTS if record else harness.LOCAL_RESULTS
    session = harness.describe_session()
    progress = Console(stderr=True)
    added = 0
    for each in chosen:
        try:
            run = harness.execute(each, progress)
        except harness.Skipped as reason:
            typer.echo(f"{each.name} was skipped: {reason}", err=True)
            continue
        added += 1
        entry = harness.record(run, session)
        harness.append_line(results, entry)
        if output is BenchFormat.JSON:
            typer.echo(json.dumps(entry, ensure_ascii=False))
        else:
            harness.show(run, Console())
    if output is BenchFormat.TABLE and chosen:
        typer.echo(f"{added} added to {results.relative_to(harness.ROOT)}", err=True)

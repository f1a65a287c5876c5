"""The options that several jobs have, described once.

A function below is a set of them: `@job("replay", time_range, pace)` adds the options of its
signature to a command, and what it returns goes to the job under these names.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from goqueue.cli.completion import topic_names
from goqueue.cli.output import note
from goqueue.cli.times import moment_ms, parse_span_ms

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence
    from types import FrameType

_PIECE_ROWS: Final = 1_000_000

TopicArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic to read.", autocompletion=topic_names)
]
TableArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table's folder.")
]
TargetArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TARGET", help="The topic to write; created if it does not exist.")
]
FormatOption: TypeAlias = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="parquet, delta or iceberg.")
]
IcebergTableOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--table-name",
        metavar="NAMESPACE.NAME",
        help="The name of an Iceberg table in its catalogue.",
    ),
]
CatalogOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog",
        metavar="NAME=VALUE",
        help="A property of the Iceberg catalogue, as in uri=http://host:8181. Repeatable.",
    ),
]
SinceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only messages of this time or later: a date, or an age such as 2h.",
    ),
]
UntilOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Only messages before this time."),
]
KeyOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY", help="Only messages with this key. Repeatable."),
]
WhereOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="Only messages that match a condition over key, value, partition, offset, timestamp "
        "and headers.",
    ),
]
KeepPartitionOption: TypeAlias = Annotated[
    bool,
    typer.Option("--keep-partition", help="Write to the original partition, instead of by key."),
]
PartitionsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--partitions", min=1, help="Partitions of a new target. (default: as the source)"
    ),
]
PartitionerOption: TypeAlias = Annotated[
    str,
    typer.Option("--partitioner", help="The partitioner for keys: mmh3, or murmur2 as in Kafka."),
]
RateOption: TypeAlias = Annotated[
    float | None,
    typer.Option("--rate", metavar="ROWS", help="The rate limit in messages per second."),
]
CheckpointOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="A folder for the progress, so that the same command resumes after a kill.",
    ),
]
LossOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--allow-data-loss", help="Continue if messages were deleted before they were processed."
    ),
]
PieceOption: TypeAlias = Annotated[
    int, typer.Option("--piece-rows", min=1, help="How many messages are committed at once.")
]
SampleOption: TypeAlias = Annotated[
    float | None,
    typer.Option("--sample", metavar="SHARE", help="Read only this share, as in 0.01."),
]


# --- Sets of options -----------------------------------------------------------------------------


def time_range(*, since: SinceOption = None, until: UntilOption = None) -> dict[str, Any]:
    """Messages of a time range that stays what it is when a command is run again."""
    return {"start": _asked(since, "--since"), "end": _asked(until, "--until")}


def period(*, since: SinceOption = None, until: UntilOption = None) -> dict[str, Any]:
    """Messages of a time range that ends now, for a report."""
    return {"since_ms": moment_ms(since, "--since"), "until_ms": moment_ms(until, "--until")}


def choice(
    *, key: KeyOption = None, where: WhereOption = None, keep_partition: KeepPartitionOption = False
) -> dict[str, Any]:
    """Which messages are written again, and where."""
    keys = [each.encode("utf-8", "surrogateescape") for each in key or ()]
    return {"keys": keys, "where": where, "keep_partition": keep_partition}


def new_target(*, partitions: PartitionsOption = None) -> dict[str, Any]:
    """The topic to write, if it has to be created."""
    return {"partitions": partitions}


def pace(*, partitioner: PartitionerOption = "mmh3", rate: RateOption = None) -> dict[str, Any]:
    """How messages are written."""
    return {"partitioner": partitioner, "rate": rate}


def data_loss(*, allow_data_loss: LossOption = False) -> dict[str, Any]:
    """What happens if messages are gone before they were read."""
    return {"fail_on_data_loss": not allow_data_loss}


def resumption(
    *, checkpoint: CheckpointOption = None, piece_rows: PieceOption = _PIECE_ROWS
) -> dict[str, Any]:
    """How far a job is, when it is run again."""
    return {"checkpoint": checkpoint, "piece_rows": piece_rows}


def sample(*, sample: SampleOption = None) -> dict[str, Any]:
    """How much of the messages a report reads."""
    return {"sample": sample}


# --- Values --------------------------------------------------------------------------------------


def _asked(text: str | None, option: str) -> int | timedelta | None:
    """A time, or how long ago, which stays what it is when a command is run again.

    Raises:
        UsageError: it is no time.
    """
    found = moment_ms(text, option)
    ago = None if text is None else parse_span_ms(text)
    return found if ago is None else timedelta(milliseconds=ago)


@contextmanager
def stopping(
    stop: threading.Event, unit: str, signals: Sequence[signal.Signals] = (signal.SIGINT,)
) -> Iterator[set[int]]:
    """Let the first signal set an event; a second Ctrl-C ends the command at once.

    Args:
        stop: What is set.
        unit: What is finished before the command ends, as in "micro-batch".
        signals: Which signals.

    Yields:
        The signals that were received.
    """
    received: set[int] = set()

    def ask(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and stop.is_set():
            raise KeyboardInterrupt
        received.add(number)
        stop.set()
        note(f"stopping after the current {unit}; press Ctrl-C again to stop at once")

    before = {each: signal.signal(each, ask) for each in signals}
    try:
        yield received
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

"""The options that several jobs have, described once."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from goqueue.cli.completion import topic_names
from goqueue.cli.output import note
from goqueue.cli.times import moment_ms, parse_span_ms

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence
    from types import FrameType

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


def asked(text: str | None, option: str) -> int | timedelta | None:
    """A time, or how long ago, which stays what it is when a command is run again.

    Raises:
        UsageError: it is no time.
    """
    found = moment_ms(text, option)
    ago = None if text is None else parse_span_ms(text)
    return found if ago is None else timedelta(milliseconds=ago)


def as_keys(given: list[str] | None) -> list[bytes]:
    """Keys as they are stored."""
    return [each.encode("utf-8", "surrogateescape") for each in given or ()]


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

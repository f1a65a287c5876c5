"""The options that several jobs have, described once."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from goqueue.cli.errors import UsageError
from goqueue.cli.output import note
from goqueue.cli.times import moment_ms, parse_span_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

TopicArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic to read.")
]
TableArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table's folder.")
]
TargetArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TARGET", help="The topic to write; made if there is none.")
]
FormatOption: TypeAlias = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="parquet, delta or iceberg.")
]
IcebergTableOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--table-name", metavar="NAMESPACE.NAME", help="An Iceberg table's name in its catalogue."
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
        "--since", metavar="TIME", help="Only messages of this time or later: a date, or 2h ago."
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
        help="Only messages that meet a condition over key, value, partition, offset, timestamp "
        "and headers.",
    ),
]
KeepPartitionOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--keep-partition", help="To the partition of the same number, instead of by key."
    ),
]
PartitionsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--partitions", min=1, help="Partitions of the target if it is made. (default: as many)"
    ),
]
PartitionerOption: TypeAlias = Annotated[
    str,
    typer.Option("--partitioner", help="How a key says the partition: mmh3, or murmur2 as Kafka."),
]
RateOption: TypeAlias = Annotated[
    float | None,
    typer.Option("--rate", metavar="ROWS", help="Write at most so many messages a second."),
]
CheckpointOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="Remember what is done here, so that the same command goes on after a kill.",
    ),
]
LossOption: TypeAlias = Annotated[
    bool,
    typer.Option("--allow-data-loss", help="Go on if messages were deleted before they were done."),
]
PieceOption: TypeAlias = Annotated[
    int, typer.Option("--piece-rows", min=1, help="How many messages are done at once.")
]


def asked(text: str | None, option: str) -> int | timedelta | None:
    """A time, or how long ago, which stays what it is when a command is run again.

    Raises:
        UsageError: it is no time.
    """
    found = moment_ms(text, option)
    ago = None if text is None else parse_span_ms(text)
    return found if ago is None else timedelta(milliseconds=ago)


def span(text: str | None, option: str) -> int | None:
    """A stretch of time in milliseconds; None for none.

    Raises:
        UsageError: it is none.
    """
    if text is None:
        return None
    found = parse_span_ms(text)
    if not found:
        raise UsageError(f"{option}: {text!r} is no span of time; expected 10m or 1h30m")
    return found


def as_keys(given: list[str] | None) -> list[bytes]:
    """Keys as they are stored."""
    return [each.encode("utf-8", "surrogateescape") for each in given or ()]


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second one ends the command as usual."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        note("stopping after the piece under way; Ctrl-C again does not wait for it")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)

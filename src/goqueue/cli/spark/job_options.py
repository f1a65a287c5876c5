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

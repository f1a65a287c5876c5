"""`goqueue consume`: look at messages, once or as they come, alone or as a member of a group."""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.completion import group_names, topic_names
from goqueue.cli.errors import UsageError
from goqueue.cli.messages.group_member import Member, read_as_member
from goqueue.cli.messages.shown_value import DecodeFailures, fits
from goqueue.cli.messages.start_options import BEGINNING, LATEST, Started, is_absolute, started
from goqueue.cli.messages.topic_reader import (
    Source,
    Start,
    followed,
    last_of_each,
    one_partition,
    time_range,
)
from goqueue.cli.messages.writers import writer
from goqueue.cli.times import moment_ms
from goqueue.model.json_filter import parse_filter
from goqueue.model.json_path import JsonPathError
from goqueue.protocols.http.topics.topic_shapes import TopicInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goqueue.model.json_filter import JsonFilter
    from goqueue.protocols.http.messages.message_shapes import MessageOut

DEFAULT_COUNT: Final = 10


class Decoding(StrEnum):
    """What is done with values that name a schema of the registry."""

    AUTO = "auto"
    NONE = "none"


app = typer.Typer()


@command(app, "consume")
def consume_messages(
    call: Call,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic to read.", autocompletion=topic_names)
    ],
    *,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="Read this partition only. (default: all)"),
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            metavar="OFFSET",
            help="Start at this offset, in one partition; -10: at the last ten of each partition; "
            "earliest, latest, or @TIME.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            "-n",
            min=1,
            help="The maximum number of messages. (default: 10; with --follow, all)",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new messages until Ctrl-C.")
    ] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the earliest message; the default.")
    ] = False,
    from_latest: Annotated[
        bool, typer.Option("--from-latest", help="Start at the end, and wait for new messages.")
    ] = False,
    from_time: Annotated[
        str | None,
        typer.Option("--from-time", metavar="TIME", help="Start at this time; 15m is an age."),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option("--to-time", metavar="TIME", help="Stop at this time; 5m is an age."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            help="Consume as a member of this group, and commit offsets.",
            autocompletion=group_names,
        ),
    ] = None,
    commit: Annotated[
        bool, typer.Option("--commit/--no-commit", help="With --group: commit offsets.")
    ] = True,
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="CONDITION",
            help="Only messages whose JSON value fits, as in '$.user.age > 30'.",
        ),
    ] = None,
    decode: Annotated[
        Decoding,
        typer.Option("--decode", help="auto: show values that name a registered schema as JSON."),
    ] = Decoding.AUTO,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="TEXT",
            help="What to print of each message: %t topic, %p partition, %o offset, %k key, "
            "%v value, %h headers, %T timestamp, %S size, \\n, \\t, \\0, \\xNN.",
        ),
    ] = None,
    value_only: Annotated[
        bool,
        typer.Option(
            "--value-only", help="Print only the values as they are stored, one per line."
        ),
    ] = False,
) -> None:
    """Print messages; with -o json, one line of JSON each. Messages stay in the topic."""
    end_ms = moment_ms(to_time, "--to-time")
    begin = started(offset, from_time, from_beginning=from_beginning, from_latest=from_latest)
    start = begin.start if begin is not None else BEGINNING
    follow = follow or start == LATEST
    _check_options(begin, partition, end_ms, group, follow=follow)
    show = writer(call.output, value_only=value_only, text=format_)
    wanted = None if filter_ is None else _filter(filter_)
    is_limited = count is not None or follow or start.kind == "last"
    limit = count if is_limited else DEFAULT_COUNT
    failures = DecodeFailures()

    def shown(message: MessageOut) -> bool:
        if wanted is not None and not fits(message, wanted):
            return False
        failures.look(message)
        show(message)
        return True

    try:
        if group is not None:
            anchor = str(start.value)
            with Member(call.api, group, topic, anchor, decode.value) as member:
                read_as_member(member, shown, limit=limit, follow=follow, commit=commit)
            return
        source = Source(call.api, topic, partition, decode.value)
        found = _found(source, start, end_ms, follow=follow)
        _show_all(found, shown, limit)
    finally:
        failures.report()


def _show_all(
    found: Iterator[MessageOut], shown: Callable[[MessageOut], bool], limit: int | None
) -> None:
    """Show messages until so many were; what a filter leaves out does not count."""
    hits = (message for message in found if shown(message))
    for _ in itertools.islice(hits, limit):
        pass


def _found(
    source: Source, start: Start, end_ms: int | None, *, follow: bool
) -> Iterator[MessageOut]:
    """The messages that the options mean."""
    if is_absolute(start):
        source = source._replace(partition=_the_partition(source))
    if follow:
        return followed(source, start)
    if start.kind == "last":
        return last_of_each(source, int(start.value), end_ms)
    if is_absolute(start) and source.partition is not None:
        return one_partition(source, source.partition, int(start.value), end_ms)
    return time_range(source, start.value if start.kind == "time" else None, end_ms)


def _filter(text: str) -> JsonFilter:
    try:
        return parse_filter(text)
    except JsonPathError as error:
        raise UsageError(f"--filter: {error}") from error


def _check_options(
    begin: Started | None,
    partition: int | None,
    end_ms: int | None,
    group: str | None,
    *,
    follow: bool,
) -> None:
    """Refuse options that contradict each other.

    Raises:
        UsageError: which, and what to do.
    """
    if follow and end_ms is not None:
        raise UsageError("--to-time and --follow exclude each other: leave one of them out")
    clashing = set()
    if begin is not None and begin.start not in {BEGINNING, LATEST}:
        clashing.add(begin.option)
    if partition is not None:
        clashing.add("--partition")
    if end_ms is not None:
        clashing.add("--to-time")
    if group is not None and clashing:
        raise UsageError(
            f"{' and '.join(sorted(clashing))} cannot go with --group, which starts at its "
            "committed offsets; `goqueue group reset-offsets` changes them"
        )


def _the_partition(source: Source) -> int:
    """The partition that an offset is meant in."""
    if source.partition is not None:
        return source.partition
    count = source.api.get(TopicInfo, "/topics/{}", source.topic).num_partitions
    if count > 1:
        raise UsageError(
            f"--offset: {source.topic} has {count} partitions: choose one with -p, or give an "
            "offset from the end such as -10"
        )
    return 0

"""`goqueue consume`: look at messages, once or as they come, alone or as a member of a group."""

from __future__ import annotations

import base64
import itertools
from typing import TYPE_CHECKING, Annotated, Final

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.completion import group_names, topic_names
from goqueue.cli.errors import UsageError
from goqueue.cli.messages.group_member import Member, read_as_member
from goqueue.cli.messages.topic_reader import Start, followed, one_partition, time_range
from goqueue.cli.output import Format, emit_line, printable
from goqueue.cli.times import moment_ms, show_time
from goqueue.protocols.http.topics.topic_shapes import TopicInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.http.messages.message_shapes import MessageOut


def printer(output: Format, *, value_only: bool) -> Callable[[MessageOut], None]:
    """What prints one message."""
    if value_only:
        return _print_value
    if output is Format.TABLE:
        return lambda message: typer.echo(message_line(message))
    return lambda message: emit_line(message, output)


def message_line(message: MessageOut) -> str:
    """Place, time, key, value and headers, on one line that a terminal can be trusted with."""
    place = f"{message.partition}:{message.offset}"
    parts = [f"{place:<8}", show_time(message.timestamp)]
    if message.key is not None:
        parts.append(f"key={_text(message.key, message.key_encoding)}")
    parts.extend(f"{each.name}={_text(each.value, each.encoding)}" for each in message.headers)
    value = message.value
    parts.append("(tombstone)" if value is None else _text(value, message.encoding))
    return printable("  ".join(parts)).replace("\n", "\\n")


def _text(value: str | None, encoding: str) -> str:
    if value is None:
        return "(null)"
    return f"base64:{value}" if encoding == "base64" else value


def _print_value(message: MessageOut) -> None:
    value = message.value or ""
    is_bytes = message.encoding == "base64"
    data = base64.b64decode(value) if is_bytes else value.encode(errors="surrogatepass")
    stream = typer.get_binary_stream("stdout")
    stream.write(data + b"\n")
    stream.flush()


DEFAULT_COUNT: Final = 10
BEGINNING: Final = Start("offset", "earliest")


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
        int | None, typer.Option("--offset", min=0, help="Start at this offset, in one partition.")
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
    value_only: Annotated[
        bool, typer.Option("--value-only", help="Print only the raw values, one per line.")
    ] = False,
) -> None:
    """Print messages; with -o json, one line of JSON each. Messages stay in the topic."""
    begin_ms = moment_ms(from_time, "--from-time")
    end_ms = moment_ms(to_time, "--to-time")
    starts = {
        "--offset": None if offset is None else Start("offset", offset),
        "--from-beginning": BEGINNING if from_beginning else None,
        "--from-latest": Start("offset", "latest") if from_latest else None,
        "--from-time": None if begin_ms is None else Start("time", begin_ms),
    }
    given = {name: start for name, start in starts.items() if start is not None}
    _check_options(given, partition, end_ms, group, follow=follow or from_latest)
    follow = follow or from_latest
    limit = count if count is not None or follow else DEFAULT_COUNT
    show = printer(call.output, value_only=value_only)
    if group is not None:
        begin = "latest" if from_latest else "earliest"
        with Member(call.api, group, topic, begin) as member:
            read_as_member(member, show, limit=limit, follow=follow, commit=commit)
        return
    if offset is not None:
        partition = _the_partition(call, topic, partition)
    if follow:
        start = next(iter(given.values()), BEGINNING)
        found = followed(call.api, topic, partition, start)
    elif offset is not None and partition is not None:
        found = one_partition(call.api, topic, partition, offset, end_ms)
    else:
        found = time_range(call.api, topic, partition, begin_ms, end_ms)
    for message in itertools.islice(found, limit):
        show(message)


def _check_options(
    given: dict[str, Start],
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
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are two starting positions: give only one")
    if follow and end_ms is not None:
        raise UsageError("--to-time and --follow exclude each other: leave one of them out")
    clashing = set(given) & {"--offset", "--from-time"}
    if partition is not None:
        clashing.add("--partition")
    if end_ms is not None:
        clashing.add("--to-time")
    if group is not None and clashing:
        raise UsageError(
            f"{' and '.join(sorted(clashing))} cannot go with --group, which starts at its "
            "committed offsets; `goqueue group reset-offsets` changes them"
        )


def _the_partition(call: Call, topic: str, partition: int | None) -> int:
    """The partition that an offset is meant in."""
    if partition is not None:
        return partition
    count = call.api.get(TopicInfo, "/topics/{}", topic).num_partitions
    if count > 1:
        raise UsageError(f"--offset: {topic} has {count} partitions: choose one with -p")
    return 0

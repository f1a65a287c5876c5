"""`goqueue produce`: publish messages from the command line, a file or standard input."""

from __future__ import annotations

import os
import select
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.calls import Call, command, parse_pair
from goqueue.cli.completion import topic_names
from goqueue.cli.errors import CliError, UnreachableError, UsageError
from goqueue.cli.messages.input_lines import Line, json_lines, split_lines, text_lines, value_line
from goqueue.cli.messages.sender import Outcome, Sender
from goqueue.cli.output import Format, note
from goqueue.cli.progress_bars import Bars
from goqueue.cli.times import moment_ms, parse_span_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_MAX_BATCH: Final = 10_000
_STANDARD_INPUT: Final = "-"
_CHUNK_BYTES: Final = 256 * 1024
_LINGER_S: Final = 0.005
"""How long a batch that is not full waits for more."""


app = typer.Typer()


class Acks(StrEnum):
    """Which replicas must store a message before it is acknowledged."""

    ALL = "all"
    LEADER = "leader"
    NONE = "none"


@command(app, "produce")
def produce_messages(
    call: Call,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=topic_names)
    ],
    *,
    messages: Annotated[
        list[str] | None,
        typer.Option("--message", "-m", help="The value of a message; repeatable."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of all messages.")] = None,
    partition: Annotated[
        int,
        typer.Option(
            "--partition", "-p", min=-1, help="The partition; -1: by key, or round robin."
        ),
    ] = -1,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="NAME=VALUE", help="A header of all messages; repeatable."
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            "--delay", "-d", metavar="SPAN", help="Deliver after this delay, such as 15m."
        ),
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option("--deliver-at", metavar="TIME", help="Deliver at this time."),
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option("--priority", help="critical, high, normal, low or background."),
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option("--ttl", metavar="SPAN", help="Time to live in queue groups."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help='Messages as lines of JSON, {"key": ..., "value": ...}; - is standard input. '
            "Empty lines and lines that start with # are skipped.",
        ),
    ] = None,
    batch: Annotated[
        int,
        typer.Option(
            "--batch", min=1, max=_MAX_BATCH, help="The maximum number of messages in a request."
        ),
    ] = 100,
    acks: Annotated[
        Acks, typer.Option("--acks", help="The acknowledgement to wait for.")
    ] = Acks.ALL,
) -> None:
    """Publish messages from -m, a file of JSON lines, or the lines of standard input.

    Messages that cannot be published are reported with their lines; the others are published, and
    the exit code is 1.
    """
    if messages and file is not None:
        raise UsageError("give messages with -m or with -f, not with both")
    if delay is not None and deliver_at is not None:
        raise UsageError("give --delay or --deliver-at, not both")
    common = {
        **_common(key, partition, headers),
        **_delivery(delay=delay, deliver_at=deliver_at, priority=priority, ttl=ttl),
    }
    sender = Sender(call.api, topic, batch=batch, acks=acks.value, keep_results=bool(messages))
    with _source(messages, file) as (lines, advance):
        try:
            sender.send_all(lines, common, advance)
        except (CliError, KeyboardInterrupt) as error:
            _report(sender.outcome)
            _report_partial(sender.outcome, error)
            raise
    outcome = sender.outcome
    _report(outcome)
    if messages and call.output is Format.TABLE:
        call.show([each for each in outcome.results if "error" not in each])
    else:
        call.show(_summary(topic, outcome), {"published": outcome.sent, "failed": outcome.failed})
    if outcome.failed:
        raise typer.Exit(1)


def _common(key: str | None, partition: int, headers: list[str] | None) -> dict[str, Any]:
    """What all messages have unless they say otherwise."""
    common: dict[str, Any] = {}
    if key is not None:
        common["key"] = key
    if partition >= 0:
        common["partition"] = partition
    if headers:
        pairs = (parse_pair(each, "--header") for each in headers)
        common["headers"] = [{"name": name, "value": value} for name, value in pairs]
    return common


def _delivery(
    *, delay: str | None, deliver_at: str | None, priority: str | None, ttl: str | None
) -> dict[str, Any]:
    """How all messages are to be delivered, in the words of the API."""
    said: dict[str, Any] = {"delay": delay, "priority": priority, "ttl": ttl}
    if deliver_at is not None:
        if parse_span_ms(deliver_at) is not None:
            raise UsageError(f"--deliver-at: {deliver_at!r} is a duration: use --delay")
        said["deliver_at"] = moment_ms(deliver_at, "--deliver-at")
    return {name: value for name, value in said.items() if value is not None}


@contextmanager
def _source(
    messages: list[str] | None, file: str | None
) -> Iterator[tuple[Iterable[Line | None], Callable[[int], None]]]:
    """Where messages come from, and whom to tell how many bytes of it are done."""
    if messages:
        values = (each.encode(errors="surrogateescape") for each in messages)
        yield (value_line(number, each) for number, each in enumerate(values, 1)), _ignore
    elif file is None or file == _STANDARD_INPUT:
        stream = typer.get_binary_stream("stdin")
        if stream.isatty():
            note("One message per line; Ctrl-D ends.")
        lines = split_lines(_chunks(stream))
        yield (text_lines(lines) if file is None else json_lines(lines)), _ignore
    else:
        path = Path(file)
        try:
            opened = path.open("rb", buffering=0)
        except OSError as error:
            raise UsageError(f"--file: {path}: {error.strerror}") from error
        with opened, Bars() as bars:
            total, done = path.stat().st_size, 0

            def advance(count: int) -> None:
                nonlocal done
                done += count
                bars(path.name, done, total)

            yield json_lines(split_lines(_chunks(opened))), advance


def _chunks(stream: IO[bytes]) -> Iterator[bytes | None]:
    """What a stream has, as it comes; None when it has nothing more for the moment.

    So what somebody types, or another program writes now and then, does not wait for its batch to
    be full.
    """
    try:
        descriptor = stream.fileno()
    except OSError:  # it is in memory
        yield stream.read()
        return
    while True:
        if not select.select([descriptor], [], [], _LINGER_S)[0]:
            yield None
        if not (data := os.read(descriptor, _CHUNK_BYTES)):
            return
        yield data


def _ignore(_done: int) -> None:
    """No progress is shown."""


def _report(outcome: Outcome) -> None:
    for each in outcome.errors:
        note(f"line {each['line']}: {each['error']}")
    if outcome.failed > len(outcome.errors):
        note(f"and {outcome.failed - len(outcome.errors)} more lines")
    if outcome.failed:
        note(f"{outcome.failed} of {outcome.sent + outcome.failed} messages were not published")


def _report_partial(outcome: Outcome, error: BaseException) -> None:
    """After an interruption: what was published, and what may have been."""
    if outcome.sent:
        note(f"{outcome.sent} messages were published before that")
    if isinstance(error, UnreachableError) and outcome.sent:
        note("the messages of the last request may have been published too: there was no response")


def _summary(topic: str, outcome: Outcome) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "topic": topic,
        "published": outcome.sent,
        "failed": outcome.failed,
        "errors": outcome.errors,
    }
    return {**summary, "results": outcome.results} if outcome.results else summary

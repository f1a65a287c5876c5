"""`goqueue trace`: what happened to messages."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperGroup

from goqueue.cli.calls import Call, command
from goqueue.cli.completion import topic_names
from goqueue.cli.errors import UsageError
from goqueue.cli.output import Format, note, printable
from goqueue.cli.times import moment_ms, show_span, show_time, span_ms
from goqueue.protocols.http.operations.trace_shapes import (
    SpanOut,
    TraceList,
    TraceOut,
    TraceStatsAnswer,
    TraceSummary,
)


class _TraceGroup(TyperGroup):
    """`goqueue trace ID` means `goqueue trace get ID`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What to run. `ctx` is of a click that Typer carries inside, whose types are its own."""
        if args and args[0] not in self.commands and _NAMES_A_TRACE.fullmatch(args[0]):
            args = ["get", *args]
        return super().resolve_command(ctx, args)


_NAMES_A_TRACE: Final = re.compile(r"[0-9a-fA-F]{32}|[^/]+/[0-9]+/[0-9]+")
"""A trace id, or a message as TOPIC/PARTITION/OFFSET. Any other word is a mistyped command."""

app = typer.Typer(
    cls=_TraceGroup, no_args_is_help=True, help="Message tracing: what happened to a message."
)

LimitOption: TypeAlias = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=1000, help="The maximum number of traces.")
]


@command(app, "get")
def get_trace(
    call: Call,
    trace: Annotated[
        str,
        typer.Argument(metavar="ID", help="A trace id, or a message as TOPIC/PARTITION/OFFSET."),
    ],
) -> None:
    """Show all events of one message, in order."""
    parts = trace.split("/")
    if len(parts) == 3:
        path = "/topics/{}/partitions/{}/messages/{}/trace"
        found = call.api.get(TraceOut, path, *parts)
    elif len(parts) > 1:
        raise UsageError(f"{trace!r} is no message; expected TOPIC/PARTITION/OFFSET")
    else:
        found = call.api.get(TraceOut, "/traces/{}", trace)
    if call.output is Format.TABLE:
        for line in timeline(found):
            typer.echo(printable(line))
    else:
        call.show(found)


@command(app, "list")
def list_traces(call: Call, *, limit: LimitOption = 100) -> None:
    """List the messages with the most recent events."""
    _show(call, call.api.get(TraceList, "/traces", limit=limit))


@command(app, "search")
def search_traces(
    call: Call,
    *,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", "-t", help="Only messages of this topic.", autocompletion=topic_names
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="Only messages of this partition."),
    ] = None,
    consumer_group: Annotated[
        str | None, typer.Option("--consumer-group", "-g", help="Only messages of this group.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", help="With events at this time or later: a time, or 15m."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", help="With events before this time: a time, or 15m.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="delayed, pending, in_progress, retrying, completed, failed (or error), "
            "cancelled, expired.",
        ),
    ] = None,
    min_duration: Annotated[
        str | None, typer.Option("--min-duration", help="The minimum duration, such as 500ms.")
    ] = None,
    max_duration: Annotated[
        str | None, typer.Option("--max-duration", help="The maximum duration, such as 5s.")
    ] = None,
    limit: LimitOption = 100,
) -> None:
    """Find messages by their events."""
    answer = call.api.get(
        TraceList,
        "/traces/search",
        topic=topic,
        partition=partition,
        consumer_group=consumer_group,
        start=moment_ms(start, "--start"),
        end=moment_ms(end, "--end"),
        status=status,
        min_duration=span_ms(min_duration, "--min-duration", may_be_zero=True),
        max_duration=span_ms(max_duration, "--max-duration", may_be_zero=True),
        limit=limit,
    )
    _show(call, answer)


@command(app, "stats")
def show_stats(call: Call) -> None:
    """Show statistics of tracing."""
    call.show(call.api.get(TraceStatsAnswer, "/traces/stats"))


def _show(call: Call, answer: TraceList) -> None:
    call.show(
        answer,
        [_row(each) for each in answer.traces],
        empty="no such traces: `goqueue trace stats` shows how many messages are sampled",
    )
    if not answer.complete:
        note("the search stopped at its limit: add filters to narrow it")


def _row(trace: TraceSummary) -> dict[str, Any]:
    return {
        "trace": trace.trace_id,
        "message": _place(trace),
        "status": trace.status,
        "start": show_time(trace.start),
        "took": _took(trace.duration_ms),
        "events": trace.spans,
    }


def _place(found: TraceSummary | TraceOut | SpanOut) -> str | None:
    if found.topic is None:
        return None
    return f"{found.topic}/{found.partition}/{'-' if found.offset is None else found.offset}"


def _took(duration_ms: float) -> str:
    if duration_ms < 999.5:  # what would be rounded to a thousand is a second
        return f"{round(duration_ms, 3):.3g}ms"
    return f"{duration_ms / 1000:.3f}s" if duration_ms < 60_000 else show_span(duration_ms / 1000)


def timeline(trace: TraceOut) -> list[str]:
    """A trace as lines: what it is, and what happened how long after the beginning."""
    spans = trace.spans
    lines = [
        f"trace    {trace.trace_id}",
        f"message  {_place(trace) or '-'}",
        f"status   {trace.status}",
        f"start    {show_time(trace.start)}",
        f"took     {_took(trace.duration_ms)}",
        "",
    ]
    start_ns = min((each.timestamp_ns - round(each.duration_ms * 1e6) for each in spans), default=0)
    width = max((len(each.event) for each in spans), default=0)
    for span in spans:
        after = "+" + _took((span.timestamp_ns - start_ns) / 1e6)
        lines.append(f"{after:>12}  {span.event:<{width}}  {_details(span)}".rstrip())
    more = trace.span_count - len(spans)
    return [*lines, f"{'':>12}  and {more} more"] if more > 0 else lines


def _details(span: SpanOut) -> str:
    said = {
        "at": _place(span),
        "group": span.consumer_group,
        "consumer": span.consumer,
        "priority": span.priority,
        "due": None if span.deliver_at is None else show_time(span.deliver_at),
        "took": _took(span.duration_ms) if span.duration_ms else None,
        **span.attributes,
        "error": span.error,
    }
    shown = (f"{name}={value}" for name, value in said.items() if value not in {None, ""})
    return " ".join(shown).replace("\n", " ")

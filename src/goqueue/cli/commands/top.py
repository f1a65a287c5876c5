"""`goqueue top`: topics, rates, groups and lag, live in the terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli import contexts
from goqueue.cli.calls import Call, command
from goqueue.cli.errors import CliError, UsageError
from goqueue.cli.output import Format, emit_line, figure, printable
from goqueue.cli.times import show_size, show_span
from goqueue.cli.top_view import Sample, frame, merged, parse_sample
from goqueue.protocols.http.operations.cluster_shapes import (
    ClusterMetrics,
    ClusterNode,
    ClusterNodes,
)
from goqueue.protocols.http.operations.operation_shapes import Readiness

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.table import Table


_GROUP_COLUMNS: Final = ("group", "state", "members", "lag")
_FRAME_LINES: Final = 14
"""What a picture needs besides rows of topics and groups, which share the rest of the terminal."""
_MAX_TROUBLES: Final = 3
_MAX_NODES: Final = 7
_HEAD_LINES: Final = 3
"""Of a table."""
_NAME_WIDTH: Final = 40


app = typer.Typer()


@command(app, "top")
def show_top(
    call: Call,
    interval: Annotated[
        str, typer.Option("--interval", metavar="SECONDS", help="The refresh interval.")
    ] = "2",
    once: Annotated[
        bool, typer.Option("--once", help="Print once, after one interval; for scripts.")
    ] = False,
) -> None:
    """Watch topics, rates, sizes, groups, lag and nodes until Ctrl-C; -o json prints JSON lines."""
    interval_s = contexts.parse_timeout(interval, "--interval")
    if once:
        _show_once(call, next(_frames(call, interval_s)))
    elif call.output is Format.TABLE:
        _live(_frames(call, interval_s, at_once=True))
    else:
        for each in _frames(call, interval_s):
            emit_line(each, call.output)


def _frames(call: Call, interval_s: float, *, at_once: bool = False) -> Iterator[dict[str, Any]]:
    """Pictures, an interval apart; with `at_once`, a first one that knows no rates yet.

    A server that goes away later is shown as gone, and waited for.

    Raises:
        CliError: it is not there from the beginning.
    """
    before, readiness, nodes = _look(call)
    if at_once:
        yield frame(before, before, readiness, call.api.server, nodes)
    while True:
        time.sleep(interval_s)
        try:
            now, readiness, nodes = _look(call)
        except CliError as error:
            gone = frame(before, before, None, call.api.server, nodes)
            yield {**gone, "status": str(error)}
        else:
            yield frame(before, now, readiness, call.api.server, nodes)
            before = now


def _look(call: Call) -> tuple[Sample, Readiness, Sequence[ClusterNode]]:
    """What is known now, and the nodes if there are several."""
    _, readiness = call.api.probe(Readiness, "/readyz?verbose=true")
    nodes = call.api.get(ClusterNodes, "/cluster/nodes").nodes
    if len(nodes) == 1:
        return parse_sample(call.api.text("/metrics"), time.monotonic()), readiness, ()
    told = call.api.get(ClusterMetrics, "/cluster/metrics").nodes
    now_s = time.monotonic()
    return merged({each.node_id: parse_sample(each.text, now_s) for each in told}), readiness, nodes


def _show_once(call: Call, picture: dict[str, Any]) -> None:
    """Everything, in plain lines that no width cuts."""
    if call.output is not Format.TABLE:
        call.show(picture)
        return
    for line in [*_heading(picture), *_troubles(picture)]:
        typer.echo(printable(line))
    tables = [_topic_rows(picture), _group_rows(picture)]
    if picture["nodes"]:
        tables.insert(0, _node_rows(picture))
    for rows in tables:
        typer.echo()
        call.show(rows)


def _live(frames: Iterator[dict[str, Any]]) -> None:
    from rich.console import Console, Group  # noqa: PLC0415 - start-up stays light
    from rich.live import Live  # noqa: PLC0415 - as above

    console = Console(highlight=False)
    if not console.is_terminal:
        raise UsageError("standard output is no terminal: use --once, or -o json")
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for picture in frames:
            nodes = min(len(picture["nodes"]), _MAX_NODES)
            above = _FRAME_LINES + (nodes + _HEAD_LINES if nodes else 0)
            max_rows = max((console.height - above) // 2, 1)
            live.update(Group(*_parts(picture, max_rows)), refresh=True)


# --- What is in a picture ------------------------------------------------------------------------


def _heading(picture: dict[str, Any]) -> tuple[str, str]:
    up, size = show_span(picture["uptime_s"]), show_size(picture["size_bytes"])
    rates = f"in {picture['in_per_s']:,.0f}/s  out {picture['out_per_s']:,.0f}/s"
    return (
        f"goqueue top  {picture['server']}  up {up}  {picture['status']}",
        f"{rates}  on disk {size}  lag {picture['lag']:,}",
    )


def _troubles(picture: dict[str, Any]) -> list[str]:
    return [
        *(f"{name}: {verdict}" for name, verdict in picture["trouble"].items()),
        *(f"{each} refuses messages" for each in picture["failed_partitions"]),
    ]


def _node_rows(picture: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes of a cluster; `lag` is how many messages each lacks as a follower."""
    return [
        {**each, "controller": "yes" if each["controller"] else "no"} for each in picture["nodes"]
    ]


def _topic_rows(picture: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "topic": each["topic"],
            "parts": each["partitions"],
            "messages": each["messages"],
            "size": show_size(each["size_bytes"]),
            "in/s": round(each["in_per_s"]),
            "in": f"{show_size(each['in_bytes_per_s'])}/s",
            "out/s": round(each["out_per_s"]),
            "out": f"{show_size(each['out_bytes_per_s'])}/s",
        }
        for each in picture["topics"]
    ]


def _group_rows(picture: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            **{name: each[name] for name in _GROUP_COLUMNS},
            "oldest": "" if each["oldest_s"] is None else show_span(each["oldest_s"]),
            "caught up in": _drain(each),
        }
        for each in picture["groups"]
    ]


def _drain(group: dict[str, Any]) -> str:
    if group["catches_up"] is False:
        return "never"
    return "" if group["drain_s"] is None else show_span(group["drain_s"])


# --- How a terminal shows it ---------------------------------------------------------------------


def _parts(picture: dict[str, Any], max_rows: int) -> list[RenderableType]:
    from rich.text import Text  # noqa: PLC0415 - start-up stays light

    troubles = _troubles(picture)
    is_well = picture["status"] == "ready" and not troubles
    first, second = map(printable, _heading(picture))
    return [
        Text(first, "bold green" if is_well else "bold red", no_wrap=True, overflow="ellipsis"),
        Text(second),
        *(Text(printable(each), "red") for each in troubles[:_MAX_TROUBLES]),
        *([_table(_node_rows(picture), _MAX_NODES)] if picture["nodes"] else ()),
        _table(_topic_rows(picture), max_rows),
        _table(_group_rows(picture), max_rows),
    ]


def _table(rows: Sequence[dict[str, Any]], max_rows: int) -> Table:
    from rich import box  # noqa: PLC0415 - start-up stays light
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in rows[0] if rows else ():
        is_name = name in {"topic", "group"}
        # A long name gives way to the figures, not they to it.
        table.add_column(
            name,
            justify="left" if is_name or name == "state" else "right",
            no_wrap=True,
            overflow="ellipsis",
            max_width=_NAME_WIDTH if is_name else None,
        )
    for row in rows[:max_rows]:
        table.add_row(*(Text(figure(value)) for value in row.values()))
    if len(rows) > max_rows:
        table.add_row(Text(f"and {len(rows) - max_rows} more"))
    return table

"""`goqueue queue`: queue groups, their lanes, and their dead letters."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.commands import queue_dlq
from goqueue.cli.commands.group import GroupArgument  # noqa: TC001 - read by Typer
from goqueue.cli.completion import group_names
from goqueue.cli.output import note, plain
from goqueue.protocols.http.groups.group_shapes import GroupInfo, GroupList, QueueInfo
from goqueue.protocols.http.groups.queue_settings_shapes import SettingsAnswer
from goqueue.protocols.http.queues.queue_stats_shapes import (
    GroupReliability,
    PriorityStats,
    ReliabilityStats,
)

app = typer.Typer(no_args_is_help=True, help="Queue groups and their dead-letter queues.")
app.add_typer(queue_dlq.app, name="dlq")


@command(app, "list")
def list_queues(call: Call) -> None:
    """List all queue groups with their ready, in-flight, waiting and dead-lettered messages."""
    found = call.api.get(GroupList, "/groups").groups
    names = [each.group for each in found if each.type == "queue"]
    groups = [call.api.get(GroupInfo, "/groups/{}", name) for name in names]
    rows = [_line(each, each.queue) for each in groups if each.queue is not None]
    call.show(
        groups,
        rows,
        empty="no queue groups: one is created when its first member joins",
    )


@command(app, "describe")
def describe_queue(call: Call, name: GroupArgument) -> None:
    """Show a queue group: its settings, members and partitions."""
    group = call.api.get(GroupInfo, "/groups/{}", name)
    queue = group.queue
    if queue is None:
        note(f"{name} is not a queue group: see goqueue group describe {name}")
        raise typer.Exit(1)
    settings = queue.settings
    table = {
        **_line(group, queue),
        "visibility_timeout": settings.visibility_timeout,
        "max_deliveries": settings.max_deliveries,
        "backoff": settings.backoff,
        "max_backoff": settings.max_backoff,
        "max_unacked": settings.max_unacked,
        "starvation_timeout": settings.starvation_timeout,
        "weights": [f"{lane} {weight}" for lane, weight in settings.weights.items()],
        "member": [
            {"member": each.member_id, "host": each.client_host, "unacked": each.unacked}
            for each in group.members
        ],
        "partition": [
            {"topic": topic, "partition": number, **plain(counts)}
            for topic, partitions in queue.partitions.items()
            for number, counts in partitions.items()
        ],
    }
    call.show(group, table)


@command(app, "configure")
def configure_queue(
    call: Call,
    name: GroupArgument,
    *,
    visibility: Annotated[
        str | None,
        typer.Option("--visibility", metavar="SPAN", help="The visibility timeout."),
    ] = None,
    max_deliveries: Annotated[
        int | None,
        typer.Option(
            "--max-deliveries", min=1, help="Failed deliveries before a message is dead-lettered."
        ),
    ] = None,
    backoff: Annotated[
        str | None,
        typer.Option("--backoff", metavar="SPAN", help="The back-off before the first retry."),
    ] = None,
    max_backoff: Annotated[
        str | None, typer.Option("--max-backoff", metavar="SPAN", help="The maximum back-off.")
    ] = None,
    max_unacked: Annotated[
        int | None,
        typer.Option("--max-unacked", min=1, help="The most unacknowledged messages of a member."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="N,N,N,N,N",
            help="The weights of the five priority lanes, critical first.",
        ),
    ] = None,
    starvation: Annotated[
        str | None,
        typer.Option(
            "--starvation",
            metavar="SPAN",
            help="After this time without a delivery, a lane is served next.",
        ),
    ] = None,
) -> None:
    """Change the settings of a queue group."""
    said = {
        "visibility_timeout": visibility,
        "max_deliveries": max_deliveries,
        "backoff": backoff,
        "max_backoff": max_backoff,
        "max_unacked": max_unacked,
        "weights": None if weights is None else queue_dlq.numbers(weights, "--weights"),
        "starvation_timeout": starvation,
    }
    body = {key: value for key, value in said.items() if value is not None}
    call.show(call.api.put(SettingsAnswer, "/groups/{}/settings", name, body=body))


@command(app, "stats")
def show_stats(call: Call) -> None:
    """Show deliveries: acknowledged, returned, rejected, timed out, dead-lettered."""
    stats = call.api.get(ReliabilityStats, "/reliability/stats")
    rows = [_outcomes(name, each) for name, each in stats.groups.items()]
    call.show(stats, [*rows, _outcomes("(all)", stats.total)])


@command(app, "lanes")
def show_lanes(
    call: Call,
    group: Annotated[
        str | None, typer.Option("--group", help="Only this group.", autocompletion=group_names)
    ] = None,
) -> None:
    """Show the five priority lanes: weights, deliveries and backlogs."""
    stats = call.api.get(PriorityStats, "/priority/stats", group=group)
    rows = [
        {"group": name, "lane": lane, **plain(fields)}
        for name, each in stats.groups.items()
        for lane, fields in each.lanes.items()
    ]
    call.show(stats, rows)


def _line(group: GroupInfo, queue: QueueInfo) -> dict[str, Any]:
    return {
        "group": group.group,
        "mode": group.mode,
        "state": group.state,
        "members": group.member_count,
        "ready": queue.ready,
        "in_flight": queue.in_flight,
        "waiting": queue.waiting,
        "dead": queue.dead,
        "lag": group.total_lag,
    }


def _outcomes(name: str, group: GroupReliability) -> dict[str, Any]:
    said, visibility, dead = group.acknowledgement, group.visibility, group.dead_letters
    return {
        "group": name,
        "delivered": group.delivered,
        "acks": said.acks,
        "nacks": said.nacks,
        "rejects": said.rejects,
        "in flight": visibility.in_flight,
        "waiting": visibility.waiting,
        "timed out": visibility.expired,
        "dead": dead.routed + dead.pending,
    }

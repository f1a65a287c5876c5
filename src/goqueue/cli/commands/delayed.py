"""`goqueue delayed`: delayed messages."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.completion import topic_names
from goqueue.cli.output import note
from goqueue.cli.times import show_age, show_time
from goqueue.protocols.http.queues.delayed_shapes import DelayedList, DelayedOut, DelayStatsAnswer

app = typer.Typer(no_args_is_help=True, help="Delayed messages: list, show, cancel.")

TopicArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=topic_names)
]
IdArgument: TypeAlias = Annotated[
    int, typer.Argument(metavar="ID", min=0, help="The id, as printed by list or produce.")
]


@command(app, "list")
def list_delayed(
    call: Call,
    topic: TopicArgument,
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="The maximum number of rows.")
    ] = 100,
    skip: Annotated[int, typer.Option("--skip", min=0, help="How many rows to skip.")] = 0,
) -> None:
    """List the delayed messages of a topic with their delivery times."""
    answer = call.api.get(DelayedList, "/topics/{}/delayed", topic, limit=limit, skip=skip)
    call.show(
        answer,
        [_row(each) for each in answer.messages],
        empty=f"{topic} has no delayed messages: `goqueue produce {topic} --delay 10m` adds one",
    )
    if answer.total > len(answer.messages):
        note(f"{len(answer.messages)} of {answer.total} delayed messages")


@command(app, "show")
def show_delayed(call: Call, topic: TopicArgument, delayed_id: IdArgument) -> None:
    """Show one delayed message and its state."""
    message = call.api.get(DelayedOut, "/topics/{}/delayed/{}", topic, delayed_id)
    call.show(message, _row(message))


@command(app, "cancel")
def cancel_delayed(
    call: Call, topic: TopicArgument, delayed_id: IdArgument, force: ForceOption = False
) -> None:
    """Cancel a delayed message."""
    message = call.api.get(DelayedOut, "/topics/{}/delayed/{}", topic, delayed_id)
    due = show_time(message.deliver_at)
    confirm(f"Message {delayed_id} of {topic}, due {due}, will not be delivered.", force=force)
    path = "/topics/{}/delayed/{}/{}"
    cancelled = call.api.delete(DelayedOut, path, topic, message.partition, delayed_id)
    call.show(cancelled, _row(cancelled))


@command(app, "stats")
def show_stats(call: Call) -> None:
    """Show counts of delayed messages."""
    stats = call.api.get(DelayStatsAnswer, "/delay/stats")
    topics = [{"topic": name, "pending": count} for name, count in stats.topics.items()]
    table: dict[str, Any] = {
        "scheduled": stats.scheduled,
        "delivered": stats.delivered,
        "cancelled": stats.cancelled,
        "expired": stats.expired,
        "pending": stats.pending,
    }
    call.show(stats, {**table, "topics": topics} if topics else table)


def _row(message: DelayedOut) -> dict[str, Any]:
    return {
        "id": message.id,
        "state": message.state,
        "due": show_age(message.deliver_at),
        "published": show_age(message.published_at),
        "partition": message.partition,
        "priority": message.priority,
        "key": message.key,
        "value": message.value,
    }

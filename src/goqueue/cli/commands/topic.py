"""`goqueue topic`: create, list, change and delete topics."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm, parse_pairs
from goqueue.cli.completion import topic_names
from goqueue.cli.errors import RefusedError, UsageError
from goqueue.cli.times import parse_retention_ms, show_size
from goqueue.protocols.http.messages.message_shapes import PurgedTopic
from goqueue.protocols.http.operations.operation_shapes import Stats, TopicStats
from goqueue.protocols.http.topics.topic_shapes import Deleted, TopicInfo

app = typer.Typer(no_args_is_help=True, help="Create, show and change topics.")

TopicArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=topic_names)
]
SetOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting, as in cleanup.policy=compact; repeatable."
    ),
]


@command(app, "list")
def list_topics(
    call: Call,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
) -> None:
    """List all topics with their partitions, messages and sizes."""
    stats = call.api.get(Stats, "/stats").topics
    found = [(name, stats[name]) for name in sorted(stats) if internal or not stats[name].internal]
    call.show(
        [{**_row(name, each), "size_bytes": each.size_bytes} for name, each in found],
        [{**_row(name, each), "size": show_size(each.size_bytes)} for name, each in found],
        empty="no topics: `goqueue topic create NAME` creates one",
    )


@command(app, "create")
def create_topic(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    *,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, help="The number of partitions (default: the server's)."
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", min=1, help="Replicas of a partition (default: the server's)."
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            "-r",
            metavar="HOURS",
            help="Retention: 168 and 168h are hours; 7d; forever.",
        ),
    ] = None,
    settings: SetOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic exists already.")
    ] = False,
) -> None:
    """Create a topic."""
    body: dict[str, Any] = {"name": name, "settings": parse_pairs(settings, "--set")}
    if partitions is not None:
        body["num_partitions"] = partitions
    if replication_factor is not None:
        body["replication_factor"] = replication_factor
    if retention is not None:
        body["settings"]["retention.ms"] = str(parse_retention_ms(retention))
    try:
        _show_topic(call, call.api.post(TopicInfo, "/topics", body=body))
    except RefusedError as error:
        if not (if_not_exists and error.code == "topic_exists"):
            raise
        _show_topic(call, call.api.get(TopicInfo, "/topics/{}", name))


@command(app, "describe")
def describe_topic(call: Call, name: TopicArgument) -> None:
    """Show a topic: its partitions with their offsets, and its settings."""
    _show_topic(call, call.api.get(TopicInfo, "/topics/{}", name))


@command(app, "configure")
def configure_topic(
    call: Call,
    name: TopicArgument,
    settings: SetOption = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Reset a setting to its default; repeatable."),
    ] = None,
) -> None:
    """Change settings of a topic; others are not affected."""
    changes: dict[str, str | None] = {
        **parse_pairs(settings, "--set"),
        **dict.fromkeys(unset or ()),
    }
    if not changes:
        raise UsageError("nothing to change: expected --set NAME=VALUE or --unset NAME")
    changed = call.api.patch(TopicInfo, "/topics/{}", name, body={"settings": changes})
    _show_topic(call, changed)


@command(app, "grow")
def grow_topic(
    call: Call,
    name: TopicArgument,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=1, help="The new number of partitions.")
    ],
) -> None:
    """Add partitions to a topic. Keys may then map to other partitions."""
    body = {"count": partitions}
    _show_topic(call, call.api.post(TopicInfo, "/admin/topics/{}/partitions", name, body=body))


@command(app, "delete")
def delete_topic(call: Call, name: TopicArgument, force: ForceOption = False) -> None:
    """Delete a topic with all its messages."""
    if not force:
        topic = call.api.get(TopicInfo, "/topics/{}", name)
        size = show_size(topic.size_bytes)
        confirm(
            f"Topic {name} and its {topic.total_messages} messages ({size}) will be deleted.",
            force=force,
        )
    call.show(call.api.delete(Deleted, "/topics/{}", name))


@command(app, "purge")
def purge_topic(
    call: Call,
    name: TopicArgument,
    *,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this partition.")
    ] = None,
    before: Annotated[
        int | None,
        typer.Option("--before", min=0, help="Only messages below this offset; with a partition."),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Delete the messages of a topic, but not the topic."""
    if before is not None and partition is None:
        raise UsageError("--before is an offset of one partition: give --partition, too")
    which = "messages" if before is None else f"messages before offset {before}"
    where = name if partition is None else f"partition {partition} of {name}"
    confirm(f"All {which} of {where} will be deleted.", force=force)
    query = {"confirm": "true", "partition": partition, "before": before}
    answer = call.api.delete(PurgedTopic, "/topics/{}/messages", name, **query)
    call.show(answer, answer.partitions)


def _show_topic(call: Call, topic: TopicInfo) -> None:
    table = {
        "name": topic.name,
        "id": topic.topic_id,
        "messages": topic.total_messages,
        "size": show_size(topic.size_bytes),
        "settings": topic.settings,
        "partitions": [
            {
                "partition": each.partition,
                "earliest": each.earliest_offset,
                "latest": each.latest_offset,
                "size": show_size(each.size_bytes),
                "leader": each.leader,
                "trouble": each.failure,
            }
            for each in topic.partitions
        ],
    }
    call.show(topic, table)


def _row(name: str, topic: TopicStats) -> dict[str, Any]:
    return {"name": name, "partitions": topic.partition_count, "messages": topic.offset_span}

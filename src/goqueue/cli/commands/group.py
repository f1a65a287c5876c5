"""`goqueue group`: consumer groups, their lag, and their committed offsets."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.completion import group_names, topic_names
from goqueue.cli.errors import UsageError
from goqueue.cli.times import moment_ms
from goqueue.protocols.http.groups.group_shapes import (
    GroupDeleted,
    GroupInfo,
    GroupList,
    OffsetsAnswer,
    ResetAnswer,
)

app = typer.Typer(no_args_is_help=True, help="Consumer groups: members, lag, offsets.")

GroupArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="GROUP", help="The group's name.", autocompletion=group_names)
]


@command(app, "list")
def list_groups(call: Call) -> None:
    """List all groups of all protocols."""
    call.show(
        call.api.get(GroupList, "/groups").groups,
        empty="no consumer groups: a group is created when its first member joins",
    )


@command(app, "describe")
def describe_group(call: Call, name: GroupArgument) -> None:
    """Show a group: its members, committed offsets and lag."""
    group = call.api.get(GroupInfo, "/groups/{}", name)
    table = {
        "group": group.group,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "generation": group.generation,
        "lag": group.total_lag,
        "uncommitted_lag": group.uncommitted_lag,
        "members": [
            {
                "member": each.member_id,
                "client": each.client_id,
                "host": each.client_host,
                "protocol": each.protocol,
                "partitions": [
                    f"{topic}:{number}"
                    for topic, numbers in each.partitions.items()
                    for number in numbers
                ],
            }
            for each in group.members
        ],
        "offsets": _offset_rows(group),
    }
    call.show(group, table)


@command(app, "offsets")
def show_offsets(call: Call, name: GroupArgument) -> None:
    """Show the committed offsets and the lag of a group, by partition."""
    answer = call.api.get(OffsetsAnswer, "/groups/{}/offsets", name)
    call.show(
        answer,
        _offset_rows(answer),
        empty=f"{name} has no committed offsets: its members have not committed any yet",
    )


@command(app, "delete")
def delete_group(call: Call, name: GroupArgument, force: ForceOption = False) -> None:
    """Delete a group that has no members, and its committed offsets."""
    confirm(f"Group {name} and its committed offsets will be deleted.", force=force)
    call.show(call.api.delete(GroupDeleted, "/groups/{}", name))


@command(app, "reset-offsets")
def reset_offsets(
    call: Call,
    name: GroupArgument,
    *,
    topic: Annotated[str, typer.Option("--topic", help="The topic.", autocompletion=topic_names)],
    partition: Annotated[
        int, typer.Option("--partition", "-p", min=-1, help="One partition; -1 is all of them.")
    ] = -1,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="To the earliest message.")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_timestamp: Annotated[
        str | None,
        typer.Option(
            "--to-timestamp",
            metavar="TIME",
            help="To the first message of this time or later; 15m is an age.",
        ),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, help="To this offset.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
    ] = False,
) -> None:
    """Reset the committed offsets of a group without members; creates the group if needed."""
    moment = moment_ms(to_timestamp, "--to-timestamp")
    strategies: dict[str, dict[str, Any] | None] = {
        "earliest": {} if to_earliest else None,
        "latest": {} if to_latest else None,
        "timestamp": None if moment is None else {"timestamp": moment},
        "offset": None if to_offset is None else {"offset": to_offset},
    }
    chosen = [(name, fields) for name, fields in strategies.items() if fields is not None]
    if len(chosen) != 1:
        raise UsageError(
            "expected exactly one of --to-earliest, --to-latest, --to-timestamp and --to-offset"
        )
    ((strategy, fields),) = chosen
    body = {
        "topic": topic,
        "partition": partition,
        "dry_run": dry_run,
        "strategy": strategy,
        **fields,
    }
    answer = call.api.post(ResetAnswer, "/groups/{}/offsets/reset", name, body=body)
    call.show(answer, answer.changes)
    if dry_run:
        typer.echo("Dry run: nothing was changed.", err=True)


def _offset_rows(answer: GroupInfo | OffsetsAnswer) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "partition": number,
            "committed": offset,
            "lag": answer.lag.get(topic, {}).get(number),
        }
        for topic, offsets in answer.offsets.items()
        for number, offset in offsets.items()
    ]

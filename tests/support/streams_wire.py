"""Requests of members of Streams groups, filled in where a test leaves something out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.kafka_wire import WireClient

STREAMS_HEARTBEAT, STREAMS_DESCRIBE = 88, 89


def internal(name: str, *, replicas: int = -1, **configs: str) -> dict[str, Any]:
    return {
        "name": name,
        "partitions": 0,
        "replication_factor": replicas,
        "topic_configs": [
            {"key": key.replace("_", "."), "value": value} for key, value in configs.items()
        ],
    }


def subtopology(subtopology_id: str, **said: Any) -> dict[str, Any]:
    return {
        "subtopology_id": subtopology_id,
        "source_topics": [],
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    } | said


def counting(group: str, source: str) -> dict[str, Any]:
    """A topology that repartitions a topic and keeps state, as a word count does."""
    again, kept = f"{group}-again", f"{group}-kept"
    return {
        "epoch": 0,
        "subtopologies": [
            subtopology("0", source_topics=[source], repartition_sink_topics=[again]),
            subtopology(
                "1",
                repartition_source_topics=[internal(again, cleanup_policy="delete")],
                state_changelog_topics=[internal(kept, cleanup_policy="compact")],
            ),
        ],
    }


def heartbeat(client: WireClient, group: str, member_id: str, epoch: int, **said: Any) -> Any:
    """One heartbeat; without more it says that nothing has changed."""
    fields = {
        "endpoint_information_epoch": -1,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": -1,
        "topology": None,
        "active_tasks": None,
        "standby_tasks": None,
        "warmup_tasks": None,
        "process_id": None,
        "user_endpoint": None,
        "client_tags": None,
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": False,
    } | said
    return client.call(
        STREAMS_HEARTBEAT, 0, group_id=group, member_id=member_id, member_epoch=epoch, **fields
    )


def join(
    client: WireClient, group: str, member_id: str, topology: dict[str, Any], **said: Any
) -> Any:
    fields = {
        "topology": topology,
        "rebalance_timeout": 60_000,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": f"process of {member_id}",
    } | said
    return heartbeat(client, group, member_id, 0, **fields)


def owning(tasks: Any) -> dict[str, Any]:
    """What a heartbeat says of tasks that an answer gave."""
    return {
        "active_tasks": [
            {"subtopology_id": each.subtopology_id, "partitions": list(each.partitions)}
            for each in tasks
        ],
        "standby_tasks": [],
        "warmup_tasks": [],
    }


def flat(tasks: Any) -> set[tuple[str, int]]:
    return {(each.subtopology_id, number) for each in tasks for number in each.partitions}


def describe(client: WireClient, group: str) -> Any:
    answer = client.call(
        STREAMS_DESCRIBE, 0, group_ids=[group], include_authorized_operations=False
    )
    (found,) = answer.groups
    return found

"""Requests of group members and administrators, filled in where a test leaves something out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.kafka_wire import WireClient

METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 3, 8, 9, 10
JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST = 11, 12, 13, 14, 15, 16
DELETE, OFFSET_DELETE, CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 42, 47, 68, 69


def topic_id(client: WireClient, name: str) -> UUID:
    """The id of a topic, which is made if need be."""
    answer = client.call(
        METADATA,
        12,
        topics=[{"topic_id": None, "name": name}],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    found = answer.topics[0].topic_id
    return found if found is not None else topic_id(client, name)


def join(client: WireClient, group: str, version: int = 7, **said: Any) -> Any:
    return client.call(JOIN, version, **join_fields(group, **said))


def join_fields(
    group: str,
    *,
    member_id: str = "",
    instance_id: str | None = None,
    protocol_type: str = "consumer",
    protocols: Mapping[str, bytes] | None = None,
    session_ms: int = 60_000,
    rebalance_ms: int = 60_000,
) -> dict[str, Any]:
    chosen = {"range": b""} if protocols is None else protocols
    return {
        "group_id": group,
        "session_timeout": session_ms,
        "rebalance_timeout": rebalance_ms,
        "member_id": member_id,
        "group_instance_id": instance_id,
        "protocol_type": protocol_type,
        "protocols": [{"name": name, "metadata": data} for name, data in chosen.items()],
        "reason": None,
    }


def join_fully(client: WireClient, group: str, version: int = 7, **said: Any) -> Any:
    """Join as clients do: ask for an id, then come back with it."""
    answer = join(client, group, version, **said)
    if answer.error_code is ErrorCode.member_id_required:
        answer = join(client, group, version, **{**said, "member_id": answer.member_id})
    assert answer.error_code is ErrorCode.none
    return answer


def sync(
    client: WireClient,
    group: str,
    member_id: str,
    generation: int,
    version: int = 5,
    *,
    assignments: Mapping[str, bytes] | None = None,
    instance_id: str | None = None,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
) -> Any:
    return client.call(
        SYNC,
        version,
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[
            {"member_id": each, "assignment": data} for each, data in (assignments or {}).items()
        ],
    )


def heartbeat(
    client: WireClient,
    group: str,
    member_id: str,
    generation: int,
    version: int = 4,
    *,
    instance_id: str | None = None,
) -> ErrorCode:
    answer = client.call(
        HEARTBEAT,
        version,
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
    )
    return answer.error_code


def leave(
    client: WireClient, group: str, member_id: str, version: int = 5, instance_id: str | None = None
) -> Any:
    member = {"member_id": member_id, "group_instance_id": instance_id, "reason": None}
    return client.call(LEAVE, version, group_id=group, member_id=member_id, members=[member])


def commit(
    client: WireClient,
    group: str,
    topic: str,
    offset: int,
    version: int = 9,
    *,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    metadata: str | None = "",
    uuid: UUID | None = None,
    partition: int = 0,
    retention_ms: int = -1,
) -> ErrorCode:
    """Commit one offset; the one result."""
    answer = client.call(
        OFFSET_COMMIT,
        version,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        retention_time=retention_ms,
        topics=[
            {
                "name": topic,
                "topic_id": uuid,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": metadata,
                    }
                ],
            }
        ],
    )
    (topic_answer,) = answer.topics
    (result,) = topic_answer.partitions
    return result.error_code


def fetch(
    client: WireClient,
    group: str,
    topic: str | None,
    version: int = 9,
    *,
    member_id: str | None = None,
    epoch: int = -1,
    uuid: UUID | None = None,
) -> Any:
    """The answer for one group, with the same shape in every version; None asks for all topics."""
    asked = [{"name": topic, "topic_id": uuid, "partition_indexes": [0]}]
    topics = None if topic is None else asked
    whole = client.call(
        OFFSET_FETCH,
        version,
        group_id=group,
        topics=topics,
        groups=[
            {"group_id": group, "member_id": member_id, "member_epoch": epoch, "topics": topics}
        ],
        require_stable=False,
    )
    return whole.groups[0] if version >= 8 else whole


def consumer_heartbeat(
    client: WireClient,
    group: str,
    member_id: str,
    epoch: int,
    version: int = 1,
    *,
    names: Sequence[str] | None = None,
    regex: str | None = None,
    owned: Mapping[UUID, Sequence[int]] | None = None,
    instance_id: str | None = None,
    assignor: str | None = None,
    rebalance_ms: int = -1,
) -> Any:
    return client.call(
        CONSUMER_HEARTBEAT,
        version,
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        rack_id=None,
        rebalance_timeout=rebalance_ms,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        server_assignor=assignor,
        topic_partitions=None
        if owned is None
        else [{"topic_id": each, "partitions": parts} for each, parts in owned.items()],
    )


def consumer_join(
    client: WireClient, group: str, names: Sequence[str], member_id: str | None = None, **said: Any
) -> Any:
    return consumer_heartbeat(
        client,
        group,
        member_id or str(uuid4()),
        0,
        names=names,
        owned={},
        **{"rebalance_ms": 60_000, **said},
    )


def assigned(answer: Any) -> dict[UUID, tuple[int, ...]]:
    """What a KIP-848 member is told to have."""
    return {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}


def describe(client: WireClient, group: str, version: int = 5) -> Any:
    answer = client.call(DESCRIBE, version, groups=[group], include_authorized_operations=False)
    (found,) = answer.groups
    return found


def delete(client: WireClient, *groups: str, version: int = 2) -> dict[str, ErrorCode]:
    answer = client.call(DELETE, version, groups_names=groups)
    assert [each.group_id for each in answer.results] == list(groups)
    return {each.group_id: each.error_code for each in answer.results}

"""The group protocol of Kafka Streams (KIP-1071): the broker assigns tasks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from goqueue.groups.messages import (
    EndpointPartitions,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    UserEndpoint,
)
from goqueue.groups.streams.assignor import Role, Task
from goqueue.groups.streams.topology import InternalTopic, Subtopology, Topology
from goqueue.model.errors import GroupError, InvalidTopologyError
from goqueue.model.topic_partition import TopicPartition, numbers_by_topic
from goqueue.protocols.kafka.errors import ErrorCode, code_for
from goqueue.protocols.kafka.groups.describing import DESCRIBED, describe_groups
from goqueue.protocols.kafka.registry import BrokerApi, api
from goqueue.protocols.kafka.rights import (
    CLUSTER_CREATE,
    READ,
    TOPIC_CREATE,
    TOPIC_DESCRIBE,
    all_of,
    group,
    within,
)
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.groups.streams.describe import StreamsMemberDescription
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.protocols.permissions import Permissions


class StreamsGroupsApi(BrokerApi):
    """Members of Streams groups, and what administrators see of these."""

    @api(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        right=all_of(
            group(READ),
            within(TOPIC_DESCRIBE, note="each of the topology"),
            within(CLUSTER_CREATE, TOPIC_CREATE, note="each internal topic to be created"),
        ),
    )
    async def heartbeat(self, ctx: RequestContext, request: Struct) -> Response:
        """Join, stay, take over tasks, or go."""
        try:
            heartbeat = _heartbeat(ctx, request)
            if heartbeat.topology is not None and not ctx.may.is_open:
                self._check_topics(ctx.may, heartbeat.topology)
            result = await self._broker.groups.streams_heartbeat(heartbeat)
        except GroupError as error:
            return {
                "error_code": code_for(error),
                "error_message": str(error),
                "member_id": request.member_id,
                "status": [],
            }
        return _answer(result)

    def _check_topics(self, may: Permissions, topology: Topology) -> None:
        """Refuse a topology with topics that the client may not see, or not create."""
        known = self._broker.topics.catalogue.by_name
        for part in topology.subtopologies:
            internal = [each.name for each in (*part.repartition_sources, *part.changelogs)]
            for name in (*part.source_topics, *part.repartition_sinks, *internal):
                may.require(TOPIC_DESCRIBE, name)
            for name in internal:
                if name not in known and not may.allows(CLUSTER_CREATE):
                    may.require(TOPIC_CREATE, name)

    @api(ApiKey.STREAMS_GROUP_DESCRIBE, right=DESCRIBED)
    async def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """Each group asked for, with its topology, its members and where they are heading."""
        settled = self._broker.groups.settled
        return await describe_groups(
            ctx, request, self._describe, settled, group_state="", topology=None
        )

    def _describe(self, group_id: str) -> dict[str, Any]:
        group = self._broker.groups.coordinator(group_id).describe_streams(group_id)
        return {
            "group_state": group.state,
            "group_epoch": group.epoch,
            "assignment_epoch": group.target_epoch,
            "topology": group.topology
            and _topology_fields(group.topology, is_configured=group.is_configured),
            "members": [_member_fields(each) for each in group.members],
        }


# --- What a request says ----------------------------------------------------------------------


def _heartbeat(ctx: RequestContext, request: Struct) -> StreamsHeartbeat:
    endpoint, tags = request.user_endpoint, request.client_tags
    return StreamsHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=ctx.client_id or "",
        client_host=ctx.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=None if request.topology is None else _topology(request.topology),
        owned=_owned(request),
        process_id=request.process_id,
        endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        tags=None if tags is None else tuple((each.key, each.value) for each in tags),
        endpoint_epoch=request.endpoint_information_epoch,
        wants_shutdown=request.shutdown_application,
    )


def _owned(request: Struct) -> frozenset[Task] | None:
    """What the member says it owns; nothing where it does not say it of every role."""
    if request.active_tasks is None or request.standby_tasks is None:
        return None
    return frozenset(
        (role, each.subtopology_id, number)
        for role, tasks in (
            (Role.ACTIVE, request.active_tasks),
            (Role.STANDBY, request.standby_tasks),
        )
        for each in tasks
        for number in each.partitions
    )


def _topology(said: Struct) -> Topology:
    """The topology with names in place of indexes.

    Raises:
        InvalidTopologyError: an index leads nowhere, or sources are given as patterns.
    """
    by_id = sorted(said.subtopologies, key=lambda each: each.subtopology_id)
    return Topology(said.epoch, tuple(map(_subtopology, by_id)))


def _subtopology(said: Struct) -> Subtopology:
    if said.source_topic_regex:
        raise InvalidTopologyError(
            f"subtopology {said.subtopology_id!r} reads topics by pattern, which the Streams "
            "protocol cannot do: name them, or set group.protocol=classic"
        )
    repartition = tuple(map(_internal_topic, said.repartition_source_topics))
    names = tuple(each.name for each in repartition)
    copartitioned = tuple(
        tuple(_picked(said, said.source_topics, group.source_topics))
        + tuple(_picked(said, names, group.repartition_source_topics))
        for group in said.copartition_groups
    )
    return Subtopology(
        said.subtopology_id,
        tuple(said.source_topics),
        repartition,
        tuple(said.repartition_sink_topics),
        tuple(map(_internal_topic, said.state_changelog_topics)),
        copartitioned,
    )


def _picked(said: Struct, names: Sequence[str], indexes: Iterable[int]) -> Iterator[str]:
    for index in indexes:
        if not 0 <= index < len(names):
            raise InvalidTopologyError(
                f"a copartition group of subtopology {said.subtopology_id!r} names topic {index} "
                f"of {len(names)}"
            )
        yield names[index]


def _internal_topic(said: Struct) -> InternalTopic:
    configs = tuple((each.key, each.value) for each in said.topic_configs)
    return InternalTopic(said.name, said.partitions, said.replication_factor, configs)


# --- What an answer says ----------------------------------------------------------------------


def _answer(result: StreamsHeartbeatResult) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "member_id": result.member_id,
        "member_epoch": result.epoch,
        "heartbeat_interval_ms": result.heartbeat_interval_ms,
        # Both are about warm-up tasks, of which there are none.
        "acceptable_recovery_lag": 0,
        "task_offset_interval_ms": 0,
        # Clients keep the last statuses that they were told, so none are told, too.
        "status": [
            {"status_code": each.code, "status_detail": each.detail} for each in result.statuses
        ],
        "endpoint_information_epoch": result.endpoint_epoch,
        "partitions_by_user_endpoint": None
        if result.endpoints is None
        else list(map(_endpoint_fields, result.endpoints)),
    }
    if result.assignment is not None:
        answer |= _assignment_fields(result.assignment)
    return answer


def _assignment_fields(tasks: Iterable[Task]) -> dict[str, Any]:
    by_role: dict[Role, defaultdict[str, list[int]]] = {role: defaultdict(list) for role in Role}
    for role, subtopology_id, number in sorted(tasks):
        by_role[role][subtopology_id].append(number)
    fields = {
        role: [{"subtopology_id": each, "partitions": numbers} for each, numbers in found.items()]
        for role, found in by_role.items()
    }
    return {
        "active_tasks": fields[Role.ACTIVE],
        "standby_tasks": fields[Role.STANDBY],
        "warmup_tasks": [],
    }


def _endpoint_fields(each: EndpointPartitions) -> dict[str, Any]:
    return {
        "user_endpoint": {"host": each.endpoint.host, "port": each.endpoint.port},
        "active_partitions": _by_topic(each.active),
        "standby_partitions": _by_topic(each.standby),
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    found = numbers_by_topic(partitions)
    return [{"topic": name, "partitions": each} for name, each in found.items()]


def _topology_fields(topology: Topology, *, is_configured: bool) -> dict[str, Any]:
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopology_id": each.subtopology_id,
                "source_topics": list(each.source_topics),
                "repartition_sink_topics": list(each.repartition_sinks),
                "state_changelog_topics": list(map(_topic_fields, each.changelogs)),
                "repartition_source_topics": list(map(_topic_fields, each.repartition_sources)),
            }
            for each in topology.subtopologies
        ]
        if is_configured
        else None,
    }


def _topic_fields(topic: InternalTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": topic.partition_count,
        "replication_factor": topic.replication_factor,
        "topic_configs": [{"key": key, "value": value} for key, value in topic.configs],
    }


def _member_fields(described: StreamsMemberDescription) -> dict[str, Any]:
    member = described.member
    endpoint = member.endpoint
    return {
        "member_id": member.member_id,
        "member_epoch": member.epoch,
        "instance_id": None,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": None
        if endpoint is None
        else {"host": endpoint.host, "port": endpoint.port},
        "client_tags": [{"key": key, "value": value} for key, value in member.tags],
        "task_offsets": [],
        "task_end_offsets": [],
        "assignment": _assignment_fields(member.assigned),
        "target_assignment": _assignment_fields(member.target),
        "is_classic": False,
    }

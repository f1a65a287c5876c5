"""AdminService: topics and groups, made, looked at, changed and deleted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.grpc.errors import InvalidRequestError
from goqueue.protocols.grpc.offsets import committed_offsets
from goqueue.protocols.grpc.rights import (
    CLUSTER_CREATE,
    GROUP_DESCRIBE,
    TOPIC_CREATE,
    TOPIC_DESCRIBE,
    caller,
)
from goqueue.topics.replica_assignments import (
    ANYWHERE,
    Replication,
    check_assignments,
    check_factor,
)
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import AdminServiceServicer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpc.aio import ServicerContext

    from goqueue.broker.broker import Broker
    from goqueue.groups.describe import GroupListing
    from goqueue.partitions.elsewhere.figures import Figures
    from goqueue.topics.catalogue import Topic

_UNKNOWN: Final = -1
"""The offsets of a partition of which no replica tells; HTTP says the same."""


class AdminService(AdminServiceServicer):
    """What administrators do."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    # --- Topics ----------------------------------------------------------------------------------

    async def CreateTopic(
        self, request: pb.CreateTopicRequest, context: ServicerContext[Any, Any]
    ) -> pb.Topic:
        """Make a topic."""
        may = caller()
        if not may.allows(CLUSTER_CREATE):
            may.require(TOPIC_CREATE, request.name)
        count = request.partitions if request.HasField("partitions") else None
        factor = request.replication_factor if request.HasField("replication_factor") else None
        if not self._broker.facts.is_cluster:
            check_factor(factor)
        topic = await self._broker.create_topic(
            request.name, count, dict(request.settings), Replication(factor)
        )
        if self._broker.facts.is_cluster:
            await self._broker.topic_changes.opened(topic)
        return await self._exact(topic)

    async def ListTopics(
        self, request: pb.ListTopicsRequest, context: ServicerContext[Any, Any]
    ) -> pb.ListTopicsResponse:
        """Every topic, by name."""
        known = self._broker.topics.catalogue.by_name
        names = sorted(caller().visible(TOPIC_DESCRIBE, known, str))
        return pb.ListTopicsResponse(
            topics=(
                self._topic(topic, self._broker.figures.of_topic(topic))
                for topic in map(known.__getitem__, names)
                if request.include_internal or not topic.is_internal
            )
        )

    async def DescribeTopic(
        self, request: pb.TopicRequest, context: ServicerContext[Any, Any]
    ) -> pb.Topic:
        """One topic."""
        return await self._exact(self._broker.topics.catalogue.topic(request.name))

    async def ConfigureTopic(
        self, request: pb.ConfigureTopicRequest, context: ServicerContext[Any, Any]
    ) -> pb.Topic:
        """Set some settings of a topic and take others back; those not named stay."""
        twice = sorted(set(request.set) & set(request.unset))
        if twice:
            raise InvalidRequestError(f"unset: {', '.join(twice)} cannot be set and unset at once")
        topic = self._broker.topics.catalogue.topic(request.name)
        kept = {
            name: value
            for name, value in topic.settings.overrides.items()
            if name not in request.unset
        }
        changed = await self._broker.configure_topic(topic.name, {**kept, **request.set})
        return await self._exact(changed)

    async def GrowTopic(
        self, request: pb.GrowTopicRequest, context: ServicerContext[Any, Any]
    ) -> pb.Topic:
        """Give a topic more partitions."""
        replication = ANYWHERE
        if request.replica_assignments:
            topic = self._broker.topics.plan_growth(request.name, request.partitions)
            replicas = [each.node_ids for each in request.replica_assignments]
            replication = Replication(assignments=replicas)
            if not self._broker.facts.is_cluster:
                new_count = request.partitions - topic.partition_count
                check_assignments(replicas, self._broker.settings.node_id, new_count)
        grown = await self._broker.grow_topic(request.name, request.partitions, replication)
        return await self._exact(grown)

    async def DeleteTopic(
        self, request: pb.TopicRequest, context: ServicerContext[Any, Any]
    ) -> pb.DeleteTopicResponse:
        """Forget a topic and its messages."""
        await self._broker.delete_topic(request.name)
        return pb.DeleteTopicResponse()

    async def _exact(self, topic: Topic) -> pb.Topic:
        return self._topic(topic, await self._broker.figures.exact(topic))

    @staticmethod
    def _topic(topic: Topic, figures: Sequence[Figures | None]) -> pb.Topic:
        return pb.Topic(
            name=topic.name,
            topic_id=str(topic.topic_id),
            is_internal=topic.is_internal,
            settings=dict(topic.settings.overrides),
            partitions=(
                pb.PartitionInfo(partition=number, log_start=_UNKNOWN, log_end=_UNKNOWN)
                if each is None
                else pb.PartitionInfo(
                    partition=number,
                    log_start=each.log_start,
                    log_end=each.log_end,
                    size_bytes=each.size_bytes,
                )
                for number, each in enumerate(figures)
            ),
        )

    # --- Groups ----------------------------------------------------------------------------------

    async def ListGroups(
        self, request: pb.ListGroupsRequest, context: ServicerContext[Any, Any]
    ) -> pb.ListGroupsResponse:
        """Every group, by name."""
        groups = await self._broker.groups.told(self._broker.group_views.all)
        seen = caller().visible(GROUP_DESCRIBE, groups, lambda each: each.group_id)
        return pb.ListGroupsResponse(groups=map(_group, seen))

    async def DescribeGroup(
        self, request: pb.GroupRequest, context: ServicerContext[Any, Any]
    ) -> pb.Group:
        """One group with its members and how far it has read."""
        return await self._broker.groups.told(partial(self._group, request.name), request.name)

    def _group(self, name: str) -> pb.Group:
        view = self._broker.group_views.view(name)
        group = _group(view.listing)
        for member in view.members:
            group.members.add(
                member_id=member.member_id,
                client_id=member.client_id,
                client_host=member.client_host,
                partitions=(
                    pb.TopicPartition(topic=each.topic, partition=each.partition)
                    for each in member.partitions
                    if caller().allows(TOPIC_DESCRIBE, each.topic)
                ),
            )
        group.offsets.extend(committed_offsets(self._broker, name))
        return group

    async def DeleteGroup(
        self, request: pb.GroupRequest, context: ServicerContext[Any, Any]
    ) -> pb.DeleteGroupResponse:
        """Delete a group without members, with its offsets."""
        await self._broker.group_administrator.delete(request.name)
        return pb.DeleteGroupResponse()

    # --- Maintenance -----------------------------------------------------------------------------

    async def DescribeMaintenance(
        self, request: pb.MaintenanceRequest, context: ServicerContext[Any, Any]
    ) -> pb.Maintenance:
        """Whether retention and TTL are stopped by a jump of the wall clock."""
        return self._maintenance()

    async def ResumeMaintenance(
        self, request: pb.MaintenanceRequest, context: ServicerContext[Any, Any]
    ) -> pb.Maintenance:
        """Accept the wall clock's time and let retention and TTL go on."""
        before = self._maintenance()
        self._broker.clock_guard.resume()
        return before

    def _maintenance(self) -> pb.Maintenance:
        guard = self._broker.clock_guard
        jump = guard.jump()
        return pb.Maintenance(
            stopped=jump is not None,
            reason=guard.stopped() or "",
            clock_jump_ms=0 if jump is None else jump.jumped_ms,
        )


def _group(listing: GroupListing) -> pb.Group:
    return pb.Group(
        name=listing.group_id,
        protocol=listing.group_type.value,
        state=listing.state,
        generation=listing.generation,
        member_count=listing.member_count,
    )

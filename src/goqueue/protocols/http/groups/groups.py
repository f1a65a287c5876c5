"""Groups of any kind, seen from outside: list, describe, delete, who has what, rebalances."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from goqueue.groups.rebalances import rebalance_stats
from goqueue.model.errors import UnknownMemberError
from goqueue.model.topic_partition import numbers_by_topic
from goqueue.protocols.http.api.paths import GroupPath
from goqueue.protocols.http.api.places import gather, group
from goqueue.protocols.http.api.rights import (
    ALTER_CONFIGS,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP_DESCRIBE,
    TOPIC_DESCRIBE,
    on_cluster,
    on_group,
    within,
)
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import (
    doc,
)
from goqueue.protocols.http.api.topic_maps import (
    committed_by_topic,
    lag_by_topic,
    log_ends_by_topic,
)
from goqueue.protocols.http.groups.group_merges import merge_groups, merge_rebalances
from goqueue.protocols.http.groups.group_shapes import (
    AssignmentAnswer,
    GroupDeleted,
    GroupInfo,
    GroupList,
    ListedGroup,
    MemberInfo,
    PartitionCounts,
    QueueInfo,
    RebalanceStats,
)
from goqueue.protocols.http.groups.queue_settings_shapes import (
    SettingsAnswer,
    SettingsBody,
    settings_shape,
)
from goqueue.protocols.permissions import Permissions
from goqueue.queues.views import queue_views

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.groups.stats import GroupStats
    from goqueue.insight.group_views import GroupLine as GroupLineView, GroupView
    from goqueue.model.lag import PartitionLag


class QueueSettingsRoutes:
    """The settings of queue groups."""

    def __init__(self, broker: Broker) -> None:
        self._queues = broker.queues

    @route(
        "GET",
        "/groups/{group}/settings",
        right=on_group(DESCRIBE_CONFIGS),
        tag="groups",
        place=group(),
    )
    async def show(self, path: GroupPath) -> SettingsAnswer:
        """The settings of a queue group."""
        return self._answer(path.group)

    @route(
        "PUT",
        "/groups/{group}/settings",
        right=on_group(ALTER_CONFIGS),
        tag="groups",
        place=group(),
    )
    async def change(self, path: GroupPath, body: SettingsBody) -> SettingsAnswer:
        """Change the settings of a queue group.

        Omitted settings stay as they are. Messages in flight keep their visibility timeouts.
        """
        changes = body.changes(self._queues.group(path.group).settings)
        if changes:
            await self._queues.configure(path.group, changes)
        return self._answer(path.group)

    def _answer(self, group_id: str) -> SettingsAnswer:
        settings = self._queues.group(group_id).settings
        start = "latest" if settings.start_at_latest else "earliest"
        if settings.start_ago:
            start = f"by_duration:{settings.start_ago}"
        return SettingsAnswer(group_id, settings.mode, start, settings_shape(settings))


_TAG: Final = "groups"
_MAX_TOPICS: Final = 20
"""Shown of one group in a list."""


class AssignmentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of an assignment."""

    member_id: Annotated[str | None, doc("All members if omitted.")] = None


class GroupRoutes(BrokerRoutes):
    """Groups."""

    @route(
        "GET",
        "/groups",
        right=within(GROUP_DESCRIBE, note="the groups that it covers"),
        tag=_TAG,
        place=gather(merge_groups),
    )
    async def list_all(self, may: Permissions) -> GroupList:
        """List the groups of all protocols."""

        def listed() -> GroupList:
            lines = self._broker.group_views.all()
            seen = may.visible(GROUP_DESCRIBE, lines, lambda line: line.group_id)
            return GroupList([self._listed(may, each) for each in seen])

        return await self._broker.groups.told(listed)

    def _lags(self, may: Permissions, group_id: str) -> list[PartitionLag]:
        """Of the topics that the client may see."""
        return may.visible(TOPIC_DESCRIBE, self._broker.lag.of(group_id), lambda each: each.topic)

    def _listed(self, may: Permissions, listing: GroupLineView) -> ListedGroup:
        lags = self._lags(may, listing.group_id)
        now_ms = self._broker.clock.now_ms()
        ages = [
            now_ms - each.oldest_ms
            for each in self._broker.backlogs.of(listing.group_id)
            if each.lag and each.oldest_ms
        ]
        return ListedGroup(
            **_line(listing),
            total_lag=sum(each.lag for each in lags),
            uncommitted_lag=sum(each.uncommitted_lag for each in lags),
            oldest_age_ms=max(0, *ages) if ages else None,
            topics=sorted({each.topic for each in lags})[:_MAX_TOPICS],
        )

    @route("GET", "/groups/{group}", right=on_group(DESCRIBE), tag=_TAG, place=group())
    @route("GET", "/groups/{group}/cooperative", right=on_group(DESCRIBE), tag=_TAG, place=group())
    async def describe(self, path: GroupPath, may: Permissions) -> GroupInfo:
        """Describe a group: members, committed offsets, lag."""
        return await self._broker.groups.told(partial(self._described, may, path.group), path.group)

    def _described(self, may: Permissions, group_id: str) -> GroupInfo:
        view = self._broker.group_views.view(group_id)
        lags = self._lags(may, group_id)
        return GroupInfo(
            **_line(view.listing),
            assignor=view.assignor,
            members=self._members(may, view),
            offsets=committed_by_topic(lags),
            log_ends=log_ends_by_topic(lags),
            lag=lag_by_topic(lags),
            total_lag=sum(each.lag for each in lags),
            uncommitted_lag=sum(each.uncommitted_lag for each in lags),
            queue=self._queue(may, view) if view.listing.mode else None,
        )

    def _queue(self, may: Permissions, view: GroupView) -> QueueInfo:
        group = self._broker.queues.group(view.listing.group_id)
        routed = self._broker.measures.tallies.of(group.group_id).dead.total()
        whole = QueueInfo(0, 0, 0, routed, settings_shape(group.settings), {})
        for each in queue_views(self._broker.queues, group):
            counts = PartitionCounts(
                each.ready,
                each.in_flight,
                each.waiting,
                each.dead,
                each.committed,
                each.partition.log_end,
            )
            whole.ready += counts.ready
            whole.in_flight += counts.in_flight
            whole.waiting += counts.waiting
            whole.dead += counts.dead
            topic, number = each.partition.id
            if may.allows(TOPIC_DESCRIBE, topic):
                whole.partitions.setdefault(topic, {})[number] = counts
        return whole

    def _members(self, may: Permissions, view: GroupView) -> list[MemberInfo]:
        group = self._broker.queues.find(view.listing.group_id)
        return [
            MemberInfo(
                member_id=each.member_id,
                client_id=each.client_id,
                client_host=each.client_host,
                protocol=each.protocol,
                partitions=numbers_by_topic(
                    may.visible(TOPIC_DESCRIBE, each.partitions, lambda place: place[0])
                ),
                unacked=None if group is None else group.unacked.get(each.member_id, 0),
            )
            for each in view.members
        ]

    @route("DELETE", "/groups/{group}", right=on_group(DELETE), tag=_TAG, place=group())
    async def delete(self, path: GroupPath) -> GroupDeleted:
        """Delete a group without members, with its committed offsets."""
        await self._broker.group_administrator.delete(path.group)
        return GroupDeleted(path.group)

    @route("GET", "/groups/{group}/assignment", right=on_group(DESCRIBE), tag=_TAG, place=group())
    async def assignment(
        self, path: GroupPath, query: AssignmentQuery, may: Permissions
    ) -> AssignmentAnswer:
        """List the partitions of each member."""
        broker = self._broker
        view = await broker.groups.told(partial(broker.group_views.view, path.group), path.group)
        members = [
            each for each in self._members(may, view) if query.member_id in {None, each.member_id}
        ]
        if query.member_id is not None and not members:
            raise UnknownMemberError(f"group {path.group!r} has no member {query.member_id!r}")
        return AssignmentAnswer(path.group, view.listing.generation, members)

    @route(
        "GET", "/groups/{group}/rebalance/stats", right=on_group(DESCRIBE), tag=_TAG, place=group()
    )
    async def rebalances(self, path: GroupPath) -> RebalanceStats:
        """Rebalances of one group since the server started."""
        return _rebalances(rebalance_stats(self._broker.groups, path.group))

    @route(
        "GET",
        "/rebalance/stats",
        right=on_cluster(DESCRIBE),
        tag=_TAG,
        place=gather(merge_rebalances),
    )
    async def all_rebalances(self) -> RebalanceStats:
        """Rebalances of all groups since the server started."""
        return _rebalances(rebalance_stats(self._broker.groups))


def _line(listing: GroupLineView) -> dict[str, Any]:
    return {
        "group": listing.group_id,
        "state": listing.state,
        "protocol": listing.group_type.value,
        "generation": listing.generation,
        "member_count": listing.member_count,
        "type": "log" if listing.mode is None else "queue",
        "mode": listing.mode,
    }


def _rebalances(stats: GroupStats) -> RebalanceStats:
    return RebalanceStats(
        total=stats.total,
        successful=stats.successful,
        failed=stats.failed,
        superseded=stats.superseded,
        partitions_revoked=stats.partitions_revoked,
        partitions_assigned=stats.partitions_assigned,
        revocation_timeouts=stats.revocation_timeouts,
        last_duration_ms=stats.last_duration_ms,
        average_duration_ms=stats.average_duration_ms,
        last_at=stats.last_at_ms or None,
        reasons={reason.value: count for reason, count in stats.reasons.items()},
        joins=stats.joins,
        leaves={reason.value: count for reason, count in stats.leaves.items()},
        heartbeats=stats.heartbeats,
        offset_commits=stats.offset_commits,
        offset_commit_errors=stats.offset_commit_errors,
    )

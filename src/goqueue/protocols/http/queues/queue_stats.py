"""Statistics of queue groups: deliveries, acknowledgements, dead letters, and their lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from goqueue.insight.group_views import is_listed
from goqueue.protocols.http.api.merging import total
from goqueue.protocols.http.api.places import gather, group
from goqueue.protocols.http.api.rights import (
    DESCRIBE,
    GROUP_DESCRIBE,
    TOPIC_DESCRIBE,
    on_cluster,
    within,
)
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import LANES, GroupName, TopicName, doc
from goqueue.protocols.http.queues.queue_merges import merge_priorities
from goqueue.protocols.http.queues.queue_stats_shapes import (
    Dead,
    GroupLane,
    GroupLanes,
    GroupReliability,
    PartitionLane,
    PriorityStats,
    ReliabilityStats,
    Verdicts,
    Visibility,
)
from goqueue.protocols.permissions import Permissions
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.views import LaneView, lane_views, queue_views

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.partitions.tallies import Tally
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.reading.record_reader import RecordSource

_TAG: Final = "statistics"


class PriorityQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters."""

    topic: Annotated[TopicName | None, doc("Restrict to this one.")] = None
    group: Annotated[GroupName | None, doc("Restrict to this one.")] = None


class QueueStatsRoutes(BrokerRoutes):
    """Statistics of queue groups."""

    @route("GET", "/reliability/stats", right=on_cluster(DESCRIBE), tag=_TAG, place=gather(total))
    async def reliability(self) -> ReliabilityStats:
        """Delivery counts of queue groups, in total and by group."""
        groups = {each.group_id: each for each in self._broker.queues if is_listed(each)}
        tallies = self._broker.measures.tallies
        return ReliabilityStats(
            _reliability(list(groups.values()), tallies.total(groups)),
            {
                group_id: _reliability([group], tallies.of(group_id))
                for group_id, group in sorted(groups.items())
            },
            dict(tallies.expired),
            dict(tallies.redriven),
        )

    @route(
        "GET",
        "/priority/stats",
        right=within(GROUP_DESCRIBE, TOPIC_DESCRIBE, note="the groups and topics that they cover"),
        tag=_TAG,
        place=group("query.group", otherwise=gather(merge_priorities)),
    )
    async def priorities(self, query: PriorityQuery, may: Permissions) -> PriorityStats:
        """Lanes of queue groups: deliveries, weights and waiting messages."""
        if query.topic is not None:
            may.require(TOPIC_DESCRIBE, query.topic)
            self._broker.topics.catalogue.topic(query.topic)
        if query.group is not None:
            may.require(GROUP_DESCRIBE, query.group)
            chosen = [self._broker.queues.group(query.group)]
        else:
            seen = may.visible(GROUP_DESCRIBE, self._broker.queues, lambda each: each.group_id)
            chosen = sorted(seen, key=lambda each: each.group_id)
        return PriorityStats(
            LANES,
            {
                group.group_id: await self._lanes(may, group, query.topic)
                for group in chosen
                if is_listed(group)
            },
        )

    async def _lanes(self, may: Permissions, group: QueueGroup, topic: str | None) -> GroupLanes:
        settings, stats = group.settings, group.lane_stats()
        rates: Sequence[float | None] = self._broker.history.lanes_per_s(group) or (
            [None] * len(stats)
        )
        lanes = {
            label: GroupLane(weight, 0, 0, lane.served, rate, lane.boosts, lane.last_served_ms)
            for label, weight, lane, rate in zip(LANES, settings.weights, stats, rates, strict=True)
        }
        topics: dict[str, dict[int, dict[str, PartitionLane]]] = {}
        for view in queue_views(self._broker.queues, group):
            name, number = view.partition.id
            if topic not in {None, name} or not may.allows(TOPIC_DESCRIBE, name):
                continue
            found = topics.setdefault(name, {})[number] = {}
            for label, lane in zip(LANES, lane_views(view), strict=True):
                lanes[label].ready += lane.ready
                lanes[label].in_flight += lane.in_flight
                found[label] = await self._lane(view.partition, lane)
        return GroupLanes(settings.mode, settings.starvation_ms, lanes, topics)

    async def _lane(self, partition: RecordSource, lane: LaneView) -> PartitionLane:
        timestamp_ms = None
        if lane.oldest is not None:
            place = [(lane.oldest, lane.oldest + 1)]
            loaded = await self._broker.record_reader.load(partition, place)
            timestamp_ms = next((each.timestamp_ms for each in loaded.records()), None)
        return PartitionLane(lane.ready, lane.in_flight, lane.oldest, timestamp_ms)


def _reliability(groups: list[QueueGroup], tally: Tally) -> GroupReliability:
    queues = [queue for group in groups for queue in group.queues.values()]
    in_flight = sum(queue.total(MessageState.IN_FLIGHT) for queue in queues)
    waiting = sum(queue.waiting for queue in queues)
    said = tally.verdicts
    return GroupReliability(
        tally.delivered,
        Verdicts(said["ack"], said["nack"], said["release"], said["reject"], said["extend"]),
        Visibility(in_flight + waiting, in_flight, waiting, tally.timeouts),
        Dead(
            tally.dead.total(),
            dict(tally.dead),
            sum(queue.total(MessageState.DOOMED) for queue in queues),
        ),
    )

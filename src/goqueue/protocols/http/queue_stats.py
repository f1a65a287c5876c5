"""How queue groups fare: what became of their messages, and how their lanes share the turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from goqueue.broker.queue_views import lane_views, queue_views
from goqueue.delivery.pages import MessageState
from goqueue.insight.group_views import is_listed
from goqueue.model.delivery import Priority
from goqueue.protocols.http.routing import route
from goqueue.protocols.http.shapes import GroupName, Milliseconds, TopicName, doc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.broker.broker import Broker
    from goqueue.broker.queue_views import LaneView
    from goqueue.delivery.group import QueueGroup
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.tallies import Tally

_TAG: Final = "statistics"
_LABELS: Final = [priority.label for priority in Priority]


# --- What became of messages ---------------------------------------------------------------------


class Verdicts(msgspec.Struct):
    """What members said of messages, since this server started."""

    acks: int
    nacks: int
    releases: Annotated[int, doc("Handed back to be tried again at once.", 0)]
    rejects: int
    extensions: int


class Visibility(msgspec.Struct):
    """Messages that members have, and those that they kept for too long."""

    tracked: Annotated[int, doc("In flight, or waiting for a retry.", 3)]
    in_flight: int
    waiting: Annotated[int, doc("For a retry.", 1)]
    expired: Annotated[int, doc("Came back because nothing was heard of them in time.", 0)]


class Dead(msgspec.Struct):
    """Messages that nobody could process."""

    routed: Annotated[int, doc("Put into a dead-letter topic.", 2)]
    reasons: Annotated[dict[str, int], doc("How many by why.", {"REJECTED": 2})]
    pending: Annotated[int, doc("On their way there.", 0)]


class GroupReliability(msgspec.Struct):
    """What became of the messages of one group, or of all."""

    delivered: Annotated[int, doc("Messages handed out, retries counted along.", 40)]
    acknowledgement: Verdicts
    visibility: Visibility
    dead_letters: Dead


class ReliabilityStats(msgspec.Struct):
    """What became of messages, since this server started; what is in flight, now."""

    total: GroupReliability
    groups: dict[str, GroupReliability]
    expired: Annotated[
        dict[str, int], doc("Messages that outlived their TTL, by topic.", {"orders": 1})
    ]
    redriven: Annotated[
        dict[str, int], doc("Dead letters published again, by where they came from.", {"orders": 2})
    ]


# --- Lanes ---------------------------------------------------------------------------------------


class PriorityQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whose lanes are wanted."""

    topic: Annotated[TopicName | None, doc("Only this one.")] = None
    group: Annotated[GroupName | None, doc("Only this one.")] = None


class PartitionLane(msgspec.Struct):
    """One lane of one partition."""

    ready: Annotated[int, doc("That somebody could be handed now, counted up to 100000.", 7)]
    in_flight: int
    oldest_offset: Annotated[int | None, doc("The first that could be handed out.", 42)]
    oldest_timestamp: Annotated[Milliseconds | None, doc("When that was published.")]


class GroupLane(msgspec.Struct):
    """One lane of a group."""

    weight: Annotated[int, doc("Its share of the turns.", 15)]
    ready: int
    in_flight: int
    served: Annotated[int, doc("Messages handed out since this server started.", 120)]
    served_per_s: Annotated[
        float | None, doc("Over the last minute; null in the first seconds of a group.", 2.5)
    ]
    boosts: Annotated[int, doc("How often it had to be saved from starving.", 0)]
    last_served: Annotated[Milliseconds | None, doc("Null before the first.")]


class GroupLanes(msgspec.Struct):
    """The lanes of one group, and of each partition that it reads."""

    mode: Annotated[str, doc("`exclusive` or `shared`.", "shared")]
    starvation_timeout: Annotated[int, doc("In milliseconds; 0 is never.", 30_000)]
    lanes: Annotated[dict[str, GroupLane], doc("By priority.")]
    topics: Annotated[
        dict[str, dict[int, dict[str, PartitionLane]]], doc("By topic, partition and priority.")
    ]


class PriorityStats(msgspec.Struct):
    """How the lanes share the turns, by group."""

    priorities: Annotated[list[str], doc("The most urgent first.", _LABELS)]
    groups: dict[str, GroupLanes]


class QueueStatsRoutes:
    """Statistics of queue groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @route("GET", "/reliability/stats", tag=_TAG)
    async def reliability(self) -> ReliabilityStats:
        """What became of the messages of queue groups, in all and by group."""
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

    @route("GET", "/priority/stats", tag=_TAG)
    async def priorities(self, query: PriorityQuery) -> PriorityStats:
        """How the lanes of queue groups share the turns, and what waits in them."""
        if query.topic is not None:
            self._broker.topics.catalogue.topic(query.topic)
        if query.group is not None:
            chosen = [self._broker.queues.group(query.group)]
        else:
            chosen = sorted(self._broker.queues, key=lambda each: each.group_id)
        return PriorityStats(
            _LABELS,
            {
                group.group_id: await self._lanes(group, query.topic)
                for group in chosen
                if is_listed(group)
            },
        )

    async def _lanes(self, group: QueueGroup, topic: str | None) -> GroupLanes:
        settings, stats = group.settings, group.lane_stats()
        rates: Sequence[float | None] = self._broker.history.lanes_per_s(group) or (
            [None] * len(stats)
        )
        lanes = {
            label: GroupLane(weight, 0, 0, lane.served, rate, lane.boosts, lane.last_served_ms)
            for label, weight, lane, rate in zip(
                _LABELS, settings.weights, stats, rates, strict=True
            )
        }
        topics: dict[str, dict[int, dict[str, PartitionLane]]] = {}
        for view in queue_views(self._broker.queues, group):
            name, number = view.partition.id
            if topic not in {None, name}:
                continue
            found = topics.setdefault(name, {})[number] = {}
            for label, lane in zip(_LABELS, lane_views(view), strict=True):
                lanes[label].ready += lane.ready
                lanes[label].in_flight += lane.in_flight
                found[label] = await self._lane(view.partition, lane)
        return GroupLanes(settings.mode, settings.starvation_ms, lanes, topics)

    async def _lane(self, partition: Partition, lane: LaneView) -> PartitionLane:
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

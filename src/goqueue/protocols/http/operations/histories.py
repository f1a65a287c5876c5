"""What the charts show: values over time of the node or cluster, of a topic, of a group."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from goqueue.insight.lines import RANGES, RESOLUTIONS
from goqueue.insight.topic_history import TopicLines
from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.paths import GroupPath, TopicPath
from goqueue.protocols.http.api.places import gather, group
from goqueue.protocols.http.api.rights import DESCRIBE, on_cluster, on_group, on_topic
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import Milliseconds, doc
from goqueue.protocols.http.operations.history_merges import (
    Values,
    largest_values,
    summed_values,
)

if TYPE_CHECKING:
    from goqueue.insight.lines import Line, Range
    from goqueue.protocols.http.api.parts import Part
    from goqueue.protocols.http.api.places import Arguments

_TAG: Final = "overview"


class HistoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which stretch of time."""

    range: Annotated[
        Literal["5m", "15m", "30m", "1h", "6h", "24h"],
        doc(
            "Ends now. Points are 5 s apart up to 30m, 30 s up to 6h, and 2 minutes for 24h.", "1h"
        ),
    ] = "30m"


class NodeHistory(Gathered):
    """One value per step, the last one at `at`; null where it is not known.

    A coarse value is the mean of its step; of latency and lag it is the largest.
    """

    step_ms: int
    at: Milliseconds
    published_per_s: Values
    consumed_per_s: Values
    failed_per_s: Values
    bytes_in_per_s: Values
    bytes_out_per_s: Values
    publish_p99_ms: Values
    lag: Values


class TopicHistory(Gathered):
    """The history of a topic: one value per step, the last one at `at`."""

    topic: str
    step_ms: int
    at: Milliseconds
    published_per_s: Values
    consumed_per_s: Values
    bytes_in_per_s: Values
    bytes_out_per_s: Values


class GroupHistory(msgspec.Struct):
    """The history of a group: one value per step, the last one at `at`."""

    group: str
    step_ms: int
    at: Milliseconds
    lag: Values
    committed_per_s: Values
    published_per_s: Values
    in_flight: Annotated[Values, doc("Of a queue group; empty for a log group.")]
    failed_per_s: Annotated[
        Values, doc("Deliveries of a queue group that were nacked, rejected or timed out.")
    ]
    dead_lettered_per_s: Annotated[Values, doc("Of a queue group.")]
    oldest_age_ms: Annotated[
        int | None, doc("Age of the oldest unconsumed message; null if there is none.")
    ]
    time_to_drain_ms: Annotated[
        int | None, doc("Estimated time to catch up; null if unknown, or never.")
    ]


_SHARED: Final = frozenset({"topic", "step_ms", "at", "unanswered"})
"""Fields that are the same in the answers of all nodes."""
_LARGEST: Final = frozenset({"publish_p99_ms"})


def merge_histories(parts: list[Part], _arguments: Arguments) -> Any:
    """Values of all nodes added, step by step; of latencies the largest."""
    answers: list[Any] = [each.answer for each in parts]
    names = [each for each in answers[0].__struct_fields__ if each not in _SHARED]
    changed = {
        name: (largest_values if name in _LARGEST else summed_values)(
            [getattr(each, name) for each in answers]
        )
        for name in names
    }
    return msgspec.structs.replace(answers[0], **changed)


class HistoryRoutes(BrokerRoutes):
    """Values over time."""

    @route(
        "GET",
        "/history",
        right=on_cluster(DESCRIBE),
        tag=_TAG,
        place=gather(merge_histories),
    )
    async def node(self, query: HistoryQuery) -> NodeHistory:
        """Rates, latency and lag over time, of all nodes together.

        The history is bounded and survives a restart.
        """
        chosen, step_ms, at = self._chosen(query)
        lines = self._broker.history.node
        return NodeHistory(
            step_ms=step_ms,
            at=at,
            published_per_s=lines.published.within(chosen),
            consumed_per_s=lines.consumed.within(chosen),
            failed_per_s=lines.failed.within(chosen),
            bytes_in_per_s=lines.bytes_in.within(chosen),
            bytes_out_per_s=lines.bytes_out.within(chosen),
            publish_p99_ms=lines.publish_p99.within(chosen),
            lag=lines.lag.within(chosen),
        )

    @route(
        "GET",
        "/topics/{topic}/history",
        right=on_topic(DESCRIBE),
        tag=_TAG,
        place=gather(merge_histories),
    )
    async def topic(self, path: TopicPath, query: HistoryQuery) -> TopicHistory:
        """The history of a topic: messages and bytes published and consumed per second.

        Stored for the 200 topics with the most recent traffic on each node; empty for others.
        """
        self._broker.topics.catalogue.topic(path.topic)
        chosen, step_ms, at = self._chosen(query)
        lines = self._broker.history.topics.of(path.topic) or TopicLines()
        return TopicHistory(
            topic=path.topic,
            step_ms=step_ms,
            at=at,
            published_per_s=lines.published.within(chosen),
            consumed_per_s=lines.consumed.within(chosen),
            bytes_in_per_s=lines.bytes_in.within(chosen),
            bytes_out_per_s=lines.bytes_out.within(chosen),
        )

    @route("GET", "/groups/{group}/history", right=on_group(DESCRIBE), tag=_TAG, place=group())
    async def group(self, path: GroupPath, query: HistoryQuery) -> GroupHistory:
        """The history of a group: lag, commits, and what was published to its topics.

        Stored for the 200 most recently active groups; empty for others.
        """
        broker = self._broker
        broker.group_views.view(path.group)
        lines = broker.history.group(path.group)
        backlogs = broker.backlogs.of(path.group)
        drains = [each.drain_s for each in backlogs if each.lag]
        ages = [each.oldest_age_s(broker.clock.now_ms()) for each in backlogs if each.oldest_ms]
        chosen, step_ms, at = self._chosen(query)

        def points(name: str) -> Values:
            line: Line | None = None if lines is None else getattr(lines, name)
            return [] if line is None else line.within(chosen)

        return GroupHistory(
            group=path.group,
            step_ms=step_ms,
            at=at,
            lag=points("lag"),
            committed_per_s=points("committed"),
            published_per_s=points("published"),
            in_flight=points("in_flight"),
            failed_per_s=points("failed"),
            dead_lettered_per_s=points("dead"),
            oldest_age_ms=round(max(ages) * 1000) if ages else None,
            time_to_drain_ms=_longest_ms(drains) if backlogs else None,
        )

    def _chosen(self, query: HistoryQuery) -> tuple[Range, int, int]:
        """The points that show a range, how far apart they are, and the moment of the newest."""
        chosen = RANGES[query.range]
        at_ms = self._broker.history.newest_ms(chosen.resolution)
        return chosen, RESOLUTIONS[chosen.resolution].step_ms, at_ms


def _longest_ms(drains_s: list[float | None]) -> int | None:
    known = [each for each in drains_s if each is not None]
    if len(known) < len(drains_s) or any(math.isinf(each) for each in known):
        return None
    return round(max(known, default=0.0) * 1000)

"""What the last half hour looked like: one point every few seconds, of the node and of each group.

The pass that takes the points reads what others have counted and looked up; it reads no disk. All
of it is in memory and bounded: a restart begins anew.
"""

from __future__ import annotations

import itertools
from array import array
from collections import OrderedDict, deque
from math import isnan, nan
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.insight.group_views import is_listed
from goqueue.insight.vitals import (
    Counts,
    Percentiles,
    Rates,
    p99_between,
    percentiles_between,
    rates_between,
    read_counts,
)
from goqueue.metrics import names
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.insight.backlogs import Backlog, Backlogs
    from goqueue.metrics.registry import Metrics
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.runtime.clock import Clock

STEP_S: Final = 5.0
POINTS: Final = 360
"""Of each line; older ones are forgotten: half an hour."""
_MAX_GROUPS: Final = 200
"""Groups with a history; of more, those in which nothing happened for the longest have none."""
_MINUTE: Final = 12
"""Points in a minute, over which latencies are measured."""


class Line:
    """The newest points of one value; one that is not known is null."""

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points = array("d")

    def __len__(self) -> int:
        return len(self._points)

    def add(self, value: float | None) -> None:
        """One more point; the oldest goes when there are enough."""
        if len(self._points) >= POINTS:
            del self._points[0]
        self._points.append(nan if value is None else value)

    def newest(self, count: int) -> list[float | None]:
        """The last points, the newest at the end."""
        return [_shown(value) for value in self._points[-count:]]

    def values(self) -> list[float | None]:
        """All of them, the newest at the end."""
        return [_shown(value) for value in self._points]


def _shown(value: float) -> float | None:
    """As JSON shows it: whole numbers without a fraction, three digits behind the point."""
    if isnan(value):
        return None
    return int(value) if value == int(value) else round(value, 3)


class Lately(NamedTuple):
    """What happened in the last seconds, and, but for the rates, in the last minute."""

    rates: Rates
    publish: Percentiles
    fetch: Percentiles
    ack: Percentiles
    nacked_per_s: float
    acked_per_s: float


class _NodeLines(msgspec.Struct):
    published: Line
    consumed: Line
    failed: Line
    publish_p99: Line
    lag: Line


class GroupLines(msgspec.Struct):
    """How one group got on."""

    lag: Line
    uncommitted: Line
    """The part of the lag in partitions that the group has committed nothing of."""
    committed: Line
    published: Line


class History:
    """The points of the node and of its groups."""

    def __init__(
        self, metrics: Metrics, clock: Clock, queues: Iterable[QueueGroup], backlogs: Backlogs
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._queues = queues
        self._backlogs = backlogs
        self._counts: deque[Counts] = deque(maxlen=_MINUTE + 1)
        self._counts.append(self._read())
        self._published: deque[tuple[float, dict[tuple[str, ...], float]]] = deque(
            maxlen=_MINUTE + 1
        )
        """What was published to each topic, over the last minute."""
        self._acked: deque[tuple[float, dict[str, float]]] = deque(maxlen=_MINUTE + 1)
        """What each queue group was done with, message by message, over the last minute."""
        self._served: deque[tuple[float, dict[str, tuple[int, ...]]]] = deque(maxlen=_MINUTE + 1)
        """What each lane of each queue group was handed out, over the last minute."""
        self._note_published(self._counts[0].at_s)
        self._acked.append((self._counts[0].at_s, self._acks()))
        self.at_ms = clock.now_ms()
        """When the newest point was taken."""
        self.node = _NodeLines(*(Line() for _ in range(5)))
        self._groups: OrderedDict[str, GroupLines] = OrderedDict()
        """The one in which something happened last at the end."""

    def _read(self) -> Counts:
        return read_counts(self._metrics, self._clock.monotonic_s())

    async def sample(self) -> None:
        """Take one point of everything; run every `STEP_S`."""
        before, now = self._counts[-1], self._read()
        self._counts.append(now)
        self._note_published(now.at_s)
        self._acked.append((now.at_s, self._acks()))
        self._served.append((now.at_s, self._lanes_served()))
        self.at_ms = self._clock.now_ms()
        rates = rates_between(before, now)
        node = self.node
        node.published.add(rates.published_per_s)
        node.consumed.add(rates.consumed_per_s)
        node.failed.add(rates.failed_per_s)
        node.publish_p99.add(p99_between(before.publish, now.publish))
        backlogs = self._backlogs
        left = self._sample_groups(backlogs.all())
        node.lag.add(left if backlogs.has_looked else None)

    # --- The node --------------------------------------------------------------------------------

    def lately(self) -> Lately:
        """What happens a second, over the last point and what came after it; and the minute."""
        now = self._read()
        first = self._counts[0]
        last = self._counts[-2] if len(self._counts) > 1 else first
        span_s = max(now.at_s - first.at_s, 0.001)
        return Lately(
            rates=rates_between(last, now),
            publish=percentiles_between(first.publish, now.publish),
            fetch=percentiles_between(first.fetch, now.fetch),
            ack=percentiles_between(first.ack, now.ack),
            nacked_per_s=max(now.nacked - first.nacked, 0.0) / span_s,
            acked_per_s=max(now.acked - first.acked, 0.0) / span_s,
        )

    # --- Topics ----------------------------------------------------------------------------------

    def published_per_s(self) -> dict[str, float]:
        """By topic, over the last minute; those of which nothing was counted are left out."""
        before_s, before = self._published[0]
        span_s = max(self._clock.monotonic_s() - before_s, 0.001)
        counts = self._metrics.values(names.MESSAGES_PUBLISHED)
        return {
            labels[0]: round(max(count - before.get(labels, 0.0), 0.0) / span_s, 3)
            for labels, count in counts.items()
        }

    def _note_published(self, now_s: float) -> None:
        counts = self._metrics.values(names.MESSAGES_PUBLISHED)
        self._published.append((now_s, counts))

    # --- Groups ----------------------------------------------------------------------------------

    def group(self, group_id: str) -> GroupLines | None:
        """The lines of one group; None when it is new, gone, or not among the most active."""
        return self._groups.get(group_id)

    def _sample_groups(self, backlogs: Iterable[Backlog]) -> int:
        """Note a point of each group; returns what is left in all of them together."""
        sums: dict[str, tuple[int, int, float, float]] = {}
        for each in backlogs:
            lag, uncommitted, commits, appends = sums.get(each.group_id, (0, 0, 0.0, 0.0))
            sums[each.group_id] = (
                lag + each.lag,
                uncommitted + each.uncommitted_lag,
                commits + each.commits_per_s,
                appends + each.appends_per_s,
            )
        for group_id in [each for each in self._groups if each not in sums]:
            del self._groups[group_id]
        acked_per_s = self._acked_per_s()
        for group_id, (lag, uncommitted, moved, appends) in sums.items():
            commits = max(moved, acked_per_s.get(group_id, 0.0))
            lines = self._groups.get(group_id)
            if lines is None:
                lines = self._groups[group_id] = GroupLines(*(Line() for _ in range(4)))
                self._groups.move_to_end(group_id, last=bool(commits or appends))
            lines.lag.add(lag)
            lines.uncommitted.add(uncommitted)
            lines.committed.add(commits)
            lines.published.add(appends)
            if commits or appends:
                self._groups.move_to_end(group_id)
        while len(self._groups) > _MAX_GROUPS:
            self._groups.popitem(last=False)
        return sum(lag for lag, *_ in sums.values())

    def _lanes_served(self) -> dict[str, tuple[int, ...]]:
        groups = itertools.islice(filter(is_listed, self._queues), _MAX_GROUPS)
        return {
            group.group_id: tuple(lane.served for lane in group.lane_stats()) for group in groups
        }

    def lanes_per_s(self, group: QueueGroup) -> list[float] | None:
        """Messages a second that each lane of a queue group was handed out, over the last minute.

        None for a group that no point has: a new one, or one of too many.
        """
        points = (each for each in self._served if group.group_id in each[1])
        before_s, groups = next(points, (0.0, None))
        if groups is None:
            return None
        span_s = max(self._clock.monotonic_s() - before_s, 0.001)
        return [
            round(max(lane.served - before, 0) / span_s, 3)
            for lane, before in zip(group.lane_stats(), groups[group.group_id], strict=True)
        ]

    def _acks(self) -> dict[str, float]:
        """What the members of each queue group have acknowledged, of all topics."""
        found: dict[str, float] = {}
        for (_, group_id), count in self._metrics.values(names.MESSAGES_ACKED).items():
            found[group_id] = found.get(group_id, 0.0) + count
        return found

    def _acked_per_s(self) -> dict[str, float]:
        """By queue group, over the last minute.

        The committed offset of such a group stays where its oldest message waits, however many
        behind that one are done.
        """
        (before_s, before), (now_s, now) = self._acked[0], self._acked[-1]
        span_s = max(now_s - before_s, 0.001)
        return {
            group_id: max(count - before.get(group_id, 0.0), 0.0) / span_s
            for group_id, count in now.items()
        }

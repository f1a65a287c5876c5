"""What the last day looked like: one point every few seconds, of the node, its topics and groups.

The pass that takes the points reads what others have counted and looked up; it reads no disk. All
of it is in memory and bounded, and a file keeps it over a restart.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.insight.group_views import is_listed
from goqueue.insight.history_file import StoredHistory, StoredLines
from goqueue.insight.lines import RESOLUTIONS, STEP_S, Line, StoredLine
from goqueue.insight.topic_history import TopicHistory, TopicLines
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
from goqueue.queues.delivery.pages import MessageState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.insight.backlogs import Backlog, Backlogs
    from goqueue.metrics.registry import Metrics
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.runtime.clock import Clock

_MAX_GROUPS: Final = 200
"""Groups with a history; of more, those in which nothing happened for the longest have none."""
_MAX_ABSENT: Final = 120
"""Points that may find no such group before its lines are forgotten: ten minutes."""
_FAILURES: Final = (names.MESSAGES_NACKED, names.MESSAGES_REJECTED, names.VISIBILITY_TIMEOUTS)
_MINUTE: Final = 12
"""Points in a minute, over which latencies are measured."""


class Lately(NamedTuple):
    """What happened in the last seconds, and, but for the rates, in the last minute."""

    rates: Rates
    publish: Percentiles
    fetch: Percentiles
    ack: Percentiles
    nacked_per_s: float
    acked_per_s: float


def _peaks() -> Line:
    return Line(is_peak=True)


class NodeLines(msgspec.Struct):
    """The node, or what it knows of all groups."""

    published: Line = msgspec.field(default_factory=Line)
    consumed: Line = msgspec.field(default_factory=Line)
    failed: Line = msgspec.field(default_factory=Line)
    bytes_in: Line = msgspec.field(default_factory=Line)
    bytes_out: Line = msgspec.field(default_factory=Line)
    publish_p99: Line = msgspec.field(default_factory=_peaks)
    lag: Line = msgspec.field(default_factory=_peaks)


class GroupLines(msgspec.Struct):
    """How one group got on; the last three are empty for log groups."""

    lag: Line = msgspec.field(default_factory=_peaks)
    uncommitted: Line = msgspec.field(default_factory=_peaks)
    """The part of the lag in partitions that the group has committed nothing of."""
    committed: Line = msgspec.field(default_factory=Line)
    published: Line = msgspec.field(default_factory=Line)
    in_flight: Line = msgspec.field(default_factory=_peaks)
    failed: Line = msgspec.field(default_factory=Line)
    """Deliveries a second that were nacked or rejected, or timed out."""
    dead: Line = msgspec.field(default_factory=Line)
    """Messages a second that were dead-lettered."""
    absent: int = 0
    """Points in a row that did not find the group."""


class History:
    """The points of the node, of its topics and of its groups."""

    def __init__(
        self, metrics: Metrics, clock: Clock, queues: Iterable[QueueGroup], backlogs: Backlogs
    ) -> None:
        self._tick = 0
        """How many points were taken, those that a stopped process could not take included."""
        self.topics = TopicHistory(metrics)
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
        self.node = NodeLines()
        self._groups: OrderedDict[str, GroupLines] = OrderedDict()
        """The one in which something happened last at the end."""
        self._failures = self._queue_failures()

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
        self._tick += 1
        tick, node = self._tick, self.node
        rates = rates_between(before, now)
        node.published.add(rates.published_per_s, tick)
        node.consumed.add(rates.consumed_per_s, tick)
        node.failed.add(rates.failed_per_s, tick)
        node.bytes_in.add(rates.bytes_in_per_s, tick)
        node.bytes_out.add(rates.bytes_out_per_s, tick)
        node.publish_p99.add(p99_between(before.publish, now.publish), tick)
        span_s = max(now.at_s - before.at_s, 0.001)
        self.topics.sample(span_s, tick)
        backlogs = self._backlogs
        left = self._sample_groups(backlogs.all())
        self._sample_queues(span_s)
        node.lag.add(left if backlogs.has_looked else None, tick)

    def newest_ms(self, resolution: int) -> int:
        """The moment of the newest point of a resolution."""
        steps = RESOLUTIONS[resolution].steps
        return self.at_ms - round(self._tick % steps * STEP_S * 1000)

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
        acked_per_s = self._acked_per_s()
        for group_id, (lag, uncommitted, moved, appends) in sums.items():
            commits = max(moved, acked_per_s.get(group_id, 0.0))
            lines = self._groups.get(group_id)
            if lines is None:
                lines = self._groups[group_id] = GroupLines()
                self._groups.move_to_end(group_id, last=bool(commits or appends))
            lines.absent = 0
            lines.lag.add(lag, self._tick)
            lines.uncommitted.add(uncommitted, self._tick)
            lines.committed.add(commits, self._tick)
            lines.published.add(appends, self._tick)
            if commits or appends:
                self._groups.move_to_end(group_id)
        self._sample_absent(sums)
        while len(self._groups) > _MAX_GROUPS:
            self._groups.popitem(last=False)
        return sum(lag for lag, *_ in sums.values())

    def _sample_absent(self, found: Iterable[str]) -> None:
        """Groups that are not there have no values, and after a while no lines.

        Their coordinator has not read them yet, or they were deleted.
        """
        for group_id in self._groups.keys() - set(found):
            lines = self._groups[group_id]
            lines.absent += 1
            if lines.absent > _MAX_ABSENT:
                del self._groups[group_id]
                continue
            for line in (lines.lag, lines.uncommitted, lines.committed, lines.published):
                line.add(None, self._tick)

    def _sample_queues(self, span_s: float) -> None:
        """Note a point of what only queue groups have."""
        before, self._failures = self._failures, self._queue_failures()
        for group in self._queues:
            lines = self._groups.get(group.group_id)
            if lines is None or not is_listed(group):
                continue
            was = before.get(group.group_id, (0.0, 0.0))
            now = self._failures.get(group.group_id, (0.0, 0.0))
            queues = group.queues.values()
            lines.in_flight.add(sum(q.total(MessageState.IN_FLIGHT) for q in queues), self._tick)
            lines.failed.add(max(now[0] - was[0], 0.0) / span_s, self._tick)
            lines.dead.add(max(now[1] - was[1], 0.0) / span_s, self._tick)

    def _queue_failures(self) -> dict[str, tuple[float, float]]:
        """Of each queue group: failed deliveries, and messages that were dead-lettered."""
        failed: dict[str, float] = {}
        dead: dict[str, float] = {}
        for name in _FAILURES:
            for (_, group_id), count in self._metrics.values(name).items():
                failed[group_id] = failed.get(group_id, 0.0) + count
        for (_, group_id, _), count in self._metrics.values(names.DEAD_LETTERS).items():
            dead[group_id] = dead.get(group_id, 0.0) + count
        return {each: (failed.get(each, 0.0), dead.get(each, 0.0)) for each in failed | dead}

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

    # --- The file --------------------------------------------------------------------------------

    def stored(self) -> StoredHistory:
        """Everything there is, for the file."""
        return StoredHistory(
            self.at_ms,
            self._tick,
            _stored(self.node),
            {topic: _stored(lines) for topic, lines in self.topics.lines.items()},
            {group_id: _stored(lines) for group_id, lines in self._groups.items()},
        )

    def restore(self, stored: StoredHistory) -> None:
        """Go on from the file; what it misses until now is not known. For a new history only."""
        missed = max(round((self._clock.now_ms() - stored.at_ms) / (STEP_S * 1000)), 0)
        self._tick = stored.tick + missed
        passed = [self._tick // each.steps - stored.tick // each.steps for each in RESOLUTIONS]
        _restore(self.node, stored.node, passed)
        for topic, lines in stored.topics.items():
            _restore(self.topics.lines.setdefault(topic, TopicLines()), lines, passed)
        for group_id, lines in stored.groups.items():
            _restore(self._groups.setdefault(group_id, GroupLines()), lines, passed)


def _lines_of(lines: msgspec.Struct) -> dict[str, Line]:
    found = {name: getattr(lines, name) for name in lines.__struct_fields__}
    return {name: line for name, line in found.items() if isinstance(line, Line)}


def _stored(lines: msgspec.Struct) -> StoredLines:
    return {name: line.stored() for name, line in _lines_of(lines).items() if len(line)}


def _restore(lines: msgspec.Struct, stored: dict[str, StoredLine], passed: Sequence[int]) -> None:
    for name, line in _lines_of(lines).items():
        if name in stored:
            line.restore(stored[name])
            line.skip(passed)

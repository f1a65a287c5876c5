"""`lag-report`: the lag of every group, in messages and in time, and when it will have caught up.

Everything is asked for over Kafka's protocol, many groups and partitions at a time; no message is
read but the first that a group has not read, and Spark is not needed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from goqueue.client.consuming.log_offsets import READ_COMMITTED, READ_UNCOMMITTED
from goqueue.model.lag import PartitionLag, counted_partitions
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark import clock
from goqueue.spark.errors import OptionsError
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.report import JobReport, Progress, Row, Table, silent
from goqueue.spark.jobs.reports.lag_history import history_rows
from goqueue.spark.jobs.showing import show_span, show_time
from goqueue.spark.kafka.group_members import Reading, readings
from goqueue.spark.kafka.groups import GroupLine, committed, list_groups, times_at
from goqueue.spark.reading.resolving import find_ends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.spark.http_client import Http
    from goqueue.spark.kafka.cluster import Cluster, TopicView

HOUR_MS: Final = 3_600_000
_MAX_HOURS: Final = 24 * 31
_BEHIND: Final = 2**62
"""An offset behind every other."""
_EMPTY: Final = frozenset({"empty", "dead"})


class Read(PartitionLag, frozen=True):
    """How far one group has read one partition, by the definition that the broker's views use."""

    group: str

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Lags:
    """Everything that was found out."""

    now_ms: int
    groups: Sequence[GroupLine]
    reads: Sequence[Read]
    oldest: Mapping[tuple[TopicPartition, int], int]
    """When the message at an offset was written."""
    marks: Mapping[int, Mapping[TopicPartition, int]]
    """The first offset of each full hour, by its time."""
    hour_ago: Mapping[TopicPartition, int]
    """The first offset of the last sixty minutes."""
    earlier: Sequence[Read] = field(default=())
    """The same some seconds before, if it was measured."""
    seconds: float = 0.0


def lag_report(
    servers: str,
    *,
    groups: str = "*",
    topics: str = "*",
    measure_s: float = 0.0,
    hours: int = 24,
    partitions: bool = False,
    http: Http | None = None,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Show how far groups are behind.

    Args:
        servers: The broker.
        groups: Which groups, as in `billing-*`.
        topics: Which topics, likewise.
        measure_s: Look twice, so many seconds apart: then it is known how fast each group reads,
            and when it is done. 0: only what was written in the last hour is known.
        hours: So many hours back, unread messages are told by the hour of their writing.
        partitions: Show each partition too.
        http: The broker's HTTP API, which knows the lag of the last half hour.
        options: Options of the connection, such as `kafka.sasl.username`.
        progress: Called with the progress of the job.

    Returns:
        Tables `groups` (a row for each group and topic), `idle_groups` (nobody is in them),
        `unread` (by hour of writing), `history` (where the broker remembers it), and `partitions`
        if asked for.

    Raises:
        OptionsError: arguments are invalid.
        SparkSourceError: the broker is unavailable, or refuses.
    """
    if not 0 <= hours <= _MAX_HOURS or measure_s < 0:
        raise OptionsError([f"expected measure_s of 0 and up, and hours of 0 to {_MAX_HOURS}"])
    with Link(servers, options or {}).cluster() as cluster:
        look = _Look(cluster, groups, topics)
        lags = look.at_all(measure_s, hours, progress)
    rows = _group_rows(lags)
    tables = [
        Table("groups", rows),
        Table("idle_groups", _idle_rows(lags)),
        Table("unread", _unread_rows(lags)),
    ]
    history = history_rows(http, _largest_first(lags)) if http is not None else []
    if history:
        tables.append(Table("history", history))
    if partitions:
        tables.append(Table("partitions", _partition_rows(lags)))
    summary = {
        "at": show_time(lags.now_ms),
        "group_count": len(lags.groups),
        "idle_count": len(tables[1].rows),
        "topic_count": len({each.topic for each in lags.reads}),
        "partition_count": len({each.place for each in lags.reads}),
        "lag": sum(each.lag for each in lags.reads),
        "uncommitted_lag": sum(each.uncommitted_lag for each in lags.reads),
        "lost": sum(each.lost for each in lags.reads),
        "oldest_unread": show_span(_oldest_age(lags, lags.reads)),
    }
    return JobReport("lag-report", summary, tables, warnings=_warnings(lags))


# --- Looking -------------------------------------------------------------------------------------


class _Look:
    """Asks for everything, in as few requests as there can be."""

    def __init__(self, cluster: Cluster, groups: str, topics: str) -> None:
        self._cluster = cluster
        self._topics = topics
        self._lines = [each for each in list_groups(cluster) if fnmatchcase(each.name, groups)]

    def at_all(self, measure_s: float, hours: int, progress: Progress) -> Lags:
        """Look, twice if it is to be measured."""
        cluster = self._cluster
        earlier: Sequence[Read] = ()
        began_s = clock.monotonic_s()
        if measure_s:
            earlier = self.reads()
            steps = math.ceil(measure_s)
            for step in range(steps):
                progress("measuring", step, steps)
                clock.sleep(measure_s / steps)
        seconds = clock.monotonic_s() - began_s
        progress("looking up offsets", 0, 3)
        reads = self.reads()
        now_ms = clock.now_ms()
        progress("looking up offsets", 1, 3)
        behind = {(each.place, each.position) for each in reads if each.lag}
        views = cluster.topics({topic for (topic, _), _ in behind})
        ids = {name: view.topic_id for name, view in views.items()}
        oldest = times_at(cluster, ids, behind, READ_COMMITTED)
        progress("looking up offsets", 2, 3)
        full = now_ms // HOUR_MS * HOUR_MS
        moments = [full - HOUR_MS * number for number in range(hours)] if behind else []
        places = sorted({each.place for each in reads})
        marks = {moment: _offsets_at(cluster, places, moment) for moment in sorted(moments)}
        hour_ago = _offsets_at(cluster, places, now_ms - HOUR_MS)
        progress("looking up offsets", 3, 3)
        return Lags(now_ms, self._lines, reads, oldest, marks, hour_ago, earlier, seconds)

    def reads(self) -> list[Read]:
        """How far every group is in every partition that counts for it and is still there."""
        offsets = committed(self._cluster, self._lines)
        members = readings(self._cluster, self._lines)
        named = {topic for each in offsets.values() for topic, _ in each}
        named |= {topic for each in members.values() for topic, _ in each.assigned}
        known = self._cluster.topics({topic for topic in named if fnmatchcase(topic, self._topics)})
        places: dict[str, list[TopicPartition]] = {}
        for group, of_group in sorted(offsets.items()):
            reading = members.get(group, Reading())
            counted = counted_partitions(
                of_group,
                reading.assigned,
                lambda topic: len(known[topic].partitions) if topic in known else 0,
                is_subscriber=reading.is_subscriber,
            )
            places[group] = [place for place in counted if _has(known, *place)]
        every = {place for each in places.values() for place in each}
        # The ends are those of everything stored, as the broker counts lag: open transactions too.
        earliest, latest = find_ends(self._cluster, every, READ_UNCOMMITTED)
        return [
            Read(*place, offsets[group].get(place), earliest[place], latest[place], group)
            for group, counted in places.items()
            for place in counted
            if place in latest
        ]


def _has(known: Mapping[str, TopicView], topic: str, number: int) -> bool:
    """Whether a partition is there; a group may remember what was deleted."""
    return topic in known and number in known[topic].partitions


def _offsets_at(
    cluster: Cluster, places: Sequence[TopicPartition], moment_ms: int
) -> dict[TopicPartition, int]:
    """The first offset of a moment or later; where there is none, one behind all."""
    found = cluster.offsets_at(dict.fromkeys(places, moment_ms), READ_COMMITTED)
    return {place: _BEHIND if offset < 0 else offset for place, offset in found.items()}


# --- Telling -------------------------------------------------------------------------------------


def _group_rows(lags: Lags) -> list[Row]:
    states = {each.name: each for each in lags.groups}
    by_topic: dict[tuple[str, str], list[Read]] = defaultdict(list)
    for each in lags.reads:
        by_topic[each.group, each.topic].append(each)
    before = {
        (each.group, each.place): each.committed
        for each in lags.earlier
        if each.committed is not None
    }
    rows: list[tuple[int, Row]] = []
    for (group, topic), reads in by_topic.items():
        lag = sum(each.lag for each in reads)
        coming = _coming(lags, reads)
        reading = None
        if lags.earlier:
            # What was not looked at before, or was set back, tells nothing of a speed.
            moved = [
                max(0, each.committed - before.get((group, each.place), each.committed))
                for each in reads
                if each.committed is not None
            ]
            reading = sum(moved) / lags.seconds
        row: Row = {
            "group": group,
            "type": states[group].kind,
            "state": states[group].state,
            "topic": topic,
            "partitions": len(reads),
            "lag": lag,
            "uncommitted_lag": sum(each.uncommitted_lag for each in reads),
            "worst_partition": max(each.lag for each in reads),
            "oldest_unread": show_span(_oldest_age(lags, reads)),
            "lost": sum(each.lost for each in reads),
            "written_per_s": round(coming, 3),
            "read_per_s": None if reading is None else round(reading, 3),
            "done_in": _done_in(lag, coming, reading),
        }
        rows.append((lag, row))
    return [row for _, row in sorted(rows, key=lambda each: -each[0])]


def _largest_first(lags: Lags) -> list[str]:
    """Groups by their lag."""
    by_group = _lag_by_group(lags)
    return sorted(by_group, key=lambda group: (-by_group[group], group))


def _lag_by_group(lags: Lags) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for each in lags.reads:
        found[each.group] += each.lag
    return found


def _coming(lags: Lags, reads: Sequence[Read]) -> float:
    """Messages a second that are written; of the time measured, or else of the last hour."""
    if lags.earlier:
        group = reads[0].group
        before = {each.place: each.log_end for each in lags.earlier if each.group == group}
        new = sum(max(0, each.log_end - before.get(each.place, each.log_end)) for each in reads)
        return new / lags.seconds
    new = sum(max(0, each.log_end - lags.hour_ago[each.place]) for each in reads)
    return new * 1000 / HOUR_MS


def _done_in(lag: int, coming: float, reading: float | None) -> str | None:
    """How long until nothing is left, at these speeds."""
    if not lag:
        return "0s"
    if reading is None:
        return None
    return show_span(lag / (reading - coming) * 1000) if reading > coming else "never"


def _oldest_age(lags: Lags, reads: Sequence[Read]) -> float | None:
    times = [lags.oldest.get((each.place, each.position)) for each in reads if each.lag]
    known = [at_ms for at_ms in times if at_ms is not None]
    return max(0, lags.now_ms - min(known)) if known else None


def _idle_rows(lags: Lags) -> list[Row]:
    """Groups that nobody is in, and those that never committed anything."""
    by_group = _lag_by_group(lags)
    reading = {each.group for each in lags.reads if each.committed is not None}
    return [
        {
            "group": each.name,
            "type": each.kind,
            "state": each.state,
            "lag": by_group.get(each.name, 0),
            "has_offsets": each.name in reading,
        }
        for each in lags.groups
        if each.state.lower() in _EMPTY or each.name not in reading
    ]


def _unread_rows(lags: Lags) -> list[Row]:
    """What is not read, by the hour in which it was written."""
    moments = sorted(lags.marks)
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for each in lags.reads:
        if not each.lag:
            continue
        bounds = [each.position, *(lags.marks[at][each.place] for at in moments), each.log_end]
        bounds = [min(max(bound, each.position), each.log_end) for bound in bounds]
        for number, (first, end) in enumerate(pairwise(bounds)):
            counts[number - 1, each.group] += max(0, end - first)
    return [
        {
            "written": "before" if number < 0 else show_time(moments[number]),
            "group": group,
            "unread": count,
        }
        for (number, group), count in sorted(counts.items())
        if count
    ]


def _partition_rows(lags: Lags) -> list[Row]:
    return [
        {
            "group": each.group,
            "topic": each.topic,
            "partition": each.partition,
            "committed": each.committed,
            "end": each.log_end,
            "lag": each.lag,
            "lost": each.lost,
            "oldest_unread": show_span(_oldest_age(lags, [each])),
        }
        for each in lags.reads
    ]


def _warnings(lags: Lags) -> list[str]:
    lost = sorted({each.group for each in lags.reads if each.lost})
    return [f"removed before they were read: messages of {', '.join(lost)}"] if lost else []

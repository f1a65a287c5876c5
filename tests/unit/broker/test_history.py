from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import given, strategies as st

from goqueue.insight.backlogs import Backlog
from goqueue.insight.history import _MAX_ABSENT, _MAX_GROUPS, History
from goqueue.insight.history_file import HISTORY_FILE, HistoryFile
from goqueue.insight.lines import POINTS, RANGES, STEP_S, Line, Range
from goqueue.insight.topic_history import _MAX_TOPICS
from goqueue.insight.vitals import quantile_ms
from goqueue.metrics import names
from goqueue.metrics.kinds import LATENCY_BUCKETS_S
from goqueue.metrics.registry import Metrics
from goqueue.model.delivery import Priority
from goqueue.partitions.lane_index import LaneIndex
from goqueue.queues.delivery.group import QueueGroup, Source
from goqueue.queues.delivery.operations import Opened
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.runtime.disk import SystemDisk
from support.clocks import ManualClock

if TYPE_CHECKING:
    from pathlib import Path


class Node:
    """As much of a broker as a history looks at."""

    def __init__(self) -> None:
        self.metrics = Metrics("1")
        self.clock = ManualClock()
        self.backlogs = SimpleNamespace(all=lambda: self.found, has_looked=True)
        self.found: list[Backlog] = []
        self.queues: list[QueueGroup] = []
        self.history = History(self.metrics, self.clock, self.queues, self.backlogs)  # type: ignore[arg-type]

    def step(self) -> None:
        self.clock.advance(round(STEP_S * 1000))
        asyncio.run(self.history.sample())


@pytest.fixture
def node() -> Node:
    return Node()


def backlog(group: str, lag: int, *, commits: float = 0.0, topic: str = "t") -> Backlog:
    return Backlog(group, topic, lag, 0, commits, 0.0, None, None)


def test_a_point_is_what_happened_since_the_last_one(node: Node) -> None:
    published = node.metrics.counter(names.MESSAGES_PUBLISHED, "a")
    for count in (10, 0, 50):
        published.add(count)
        node.metrics.counter(names.MESSAGES_PUBLISHED, "b").add(count)
        node.step()
    assert node.history.node.published.values() == [4, 0, 20]
    assert node.history.at_ms == node.clock.now_ms()


def test_a_deleted_topic_makes_no_rate_negative(node: Node) -> None:
    node.metrics.counter(names.MESSAGES_PUBLISHED, "a").add(10)
    node.step()
    node.metrics.forget("topic", "a")
    node.step()
    assert node.history.node.published.values() == [2, 0]


def test_latencies_are_those_of_the_last_minute(node: Node) -> None:
    latency = node.metrics.histogram(names.PUBLISH_LATENCY, "a")
    latency.observe(1.5)
    assert node.history.lately().publish.p50 == 1500
    for _ in range(14):
        node.step()
    assert node.history.lately().publish.p50 is None
    latency.observe(0.003)
    assert node.history.lately().publish.p99 == pytest.approx(4.97)
    node.step()
    assert node.history.node.publish_p99.values()[-2:] == [None, pytest.approx(4.97)]


def test_the_lag_of_a_group_is_that_of_all_its_topics(node: Node) -> None:
    node.found = [backlog("g", 3), backlog("g", 4, topic="u"), backlog("h", 5)]
    node.step()
    lines = node.history.group("g")
    assert lines is not None
    assert lines.lag.values() == [7]
    assert node.history.node.lag.values() == [12]
    node.found = [backlog("h", 5)]
    for _ in range(_MAX_ABSENT):
        node.step()
    assert lines.lag.newest(2) == [None, None]
    assert node.history.group("g") is lines
    node.step()
    assert node.history.group("g") is None


def test_what_is_left_is_unknown_until_somebody_has_looked(node: Node) -> None:
    node.backlogs.has_looked = False
    node.step()
    node.backlogs.has_looked = True
    node.step()
    assert node.history.node.lag.values() == [None, 0]


def test_a_queue_group_gets_on_while_its_oldest_message_waits(node: Node) -> None:
    acked = node.metrics.counter(names.MESSAGES_ACKED, "t", "g")
    node.found = [backlog("g", 9, commits=0.0)]
    acked.add(10)
    node.step()
    lines = node.history.group("g")
    assert lines is not None
    assert lines.committed.values() == [2]
    for _ in range(14):
        node.step()
    assert lines.committed.newest(1) == [0]


def test_of_many_groups_the_active_ones_have_a_history(node: Node) -> None:
    idle = [backlog(f"idle-{number}", 1) for number in range(_MAX_GROUPS)]
    busy = [backlog(f"busy-{number}", 1, commits=2.0) for number in range(5)]
    for _ in range(3):
        node.found = [*idle, *busy]
        node.step()
    for each in busy:
        lines = node.history.group(each.group_id)
        assert lines is not None
        assert lines.committed.values() == [2, 2, 2]
    kept = [each for each in idle if node.history.group(each.group_id)]
    assert len(kept) == _MAX_GROUPS - len(busy)


def test_a_line_holds_half_an_hour() -> None:
    line = Line()
    for number in range(2 * POINTS):
        line.add(number)
    assert line.values() == list(range(POINTS, 2 * POINTS))
    assert line.newest(2) == [2 * POINTS - 2, 2 * POINTS - 1]


def test_a_coarse_point_is_the_mean_of_its_fine_ones_or_the_largest() -> None:
    mean, peak = Line(), Line(is_peak=True)
    for tick in range(1, 25):
        for line in (mean, peak):
            line.add(None if tick == 3 else tick, tick)
    assert mean.within(Range(1, 9)) == [3.6, 9.5, 15.5, 21.5]
    assert peak.within(Range(1, 9)) == [6, 12, 18, 24]
    assert peak.within(Range(2, 9)) == [24]
    assert mean.within(RANGES["5m"]) == [1, 2, None, *range(4, 25)]


def test_the_history_goes_on_after_a_restart_and_shows_the_gap(node: Node, tmp_path: Path) -> None:
    published = node.metrics.counter(names.MESSAGES_PUBLISHED, "t")
    node.found = [backlog("g", 7)]
    for _ in range(24):
        published.add(10)
        node.step()
    file = HistoryFile(SystemDisk(), tmp_path)
    file.write(node.history.stored())

    later = Node()
    later.clock.advance(node.clock.now_ms() - later.clock.now_ms() + 60_000)
    stored = file.read()
    assert stored is not None
    later.history.restore(stored)
    gap = [None] * 12
    lines = later.history.topics.of("t")
    assert lines is not None
    assert lines.published.values() == [2] * 24 + gap
    assert lines.published.within(RANGES["1h"]) == [2] * 4 + gap[:2]
    assert later.history.node.lag.within(RANGES["24h"]) == [7]
    group = later.history.group("g")
    assert group is not None
    assert group.lag.newest(13) == [7, *gap]
    later.step()
    assert lines.published.newest(2) == [None, 0]


def test_a_damaged_history_is_reported_and_begins_anew(
    node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = HistoryFile(SystemDisk(), tmp_path)
    assert file.read() is None
    node.step()
    file.write(node.history.stored())
    path = tmp_path / HISTORY_FILE
    data = path.read_bytes()
    for damaged in (data[:-1], data[:5], b"", data[:-1] + bytes([data[-1] ^ 1]), b"x" * 99):
        path.write_bytes(damaged)
        assert file.read() is None
        assert "begin anew" in caplog.text
        caplog.clear()
    path.write_bytes(data)
    assert file.read() is not None


def test_of_many_topics_those_with_the_newest_traffic_have_a_history(node: Node) -> None:
    for number in range(_MAX_TOPICS + 5):
        node.metrics.counter(names.MESSAGES_PUBLISHED, f"t{number}").add(5)
        if number == _MAX_TOPICS - 1:
            node.step()
    node.step()
    topics = node.history.topics
    assert len(topics.lines) == _MAX_TOPICS
    newest = topics.of(f"t{_MAX_TOPICS}")
    assert newest is not None
    assert newest.published.values() == [1]
    assert topics.of("t0") is None
    topics.forget(f"t{_MAX_TOPICS}")
    assert topics.of(f"t{_MAX_TOPICS}") is None


def test_internal_topics_have_no_history(node: Node) -> None:
    node.metrics.counter(names.MESSAGES_PUBLISHED, "__consumer_offsets").add(5)
    node.step()
    assert not node.history.topics.lines


@given(st.lists(st.sampled_from([*LATENCY_BUCKETS_S, 10.0]), min_size=1), st.floats(0.01, 1))
def test_a_quantile_lies_in_the_bucket_that_holds_it(values: list[float], share: float) -> None:
    bounds: Any = (*LATENCY_BUCKETS_S, float("inf"))
    counts = [0] * len(bounds)
    for value in values:
        counts[next(at for at, bound in enumerate(bounds) if value <= bound)] += 1
    found = quantile_ms(counts, share)
    assert found is not None
    # A dumb twin: sort them, take the one at the share.
    ordered = sorted(values)
    at = next(n for n in range(len(ordered)) if (n + 1) / len(ordered) >= share - 1e-9)
    upper = min(bound for bound in bounds if ordered[at] <= bound)
    lower = max((bound for bound in bounds if bound < upper), default=0.0)
    if upper == float("inf"):
        assert found == LATENCY_BUCKETS_S[-1] * 1000
    else:
        assert lower * 1000 - 0.001 <= found <= upper * 1000 + 0.001


def test_a_lane_has_the_rate_of_the_last_minute(node: Node) -> None:
    group = QueueGroup("g", QueueSettings(was_joined=True))
    node.queues[:] = [group]
    assert node.history.lanes_per_s(group) is None
    node.step()
    lanes, source = LaneIndex(), (uuid4(), 0)
    group.apply(source, Opened(0))
    group.queues[source].follow(lanes)
    lanes.note(0, bytes([Priority.NORMAL]) * 50)
    group.reserve("m", [Source(source, 50)], 50, 0)
    node.step()
    rates = node.history.lanes_per_s(group)
    assert rates is not None
    assert rates[Priority.NORMAL] == 50 / STEP_S
    assert sum(rates) == rates[Priority.NORMAL]

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.groups.describe import GroupType
from goqueue.insight.group_views import GroupLine
from goqueue.insight.history import GroupLines, Lately
from goqueue.insight.new_dead_letters import DeadLetterCount
from goqueue.insight.overview import Inventory, Totals
from goqueue.insight.vitals import Percentiles, Rates
from goqueue.metrics.registry import Metrics
from goqueue.model.pipeline_reports import PipelineReport, QueryReport
from goqueue.partitions.damage import DamageKind, DamageReports
from goqueue.partitions.health import HealthReport
from goqueue.protocols.http.operations.attention import _MAX_SHOWN, attention
from goqueue.runtime.disk import DiskUsage
from goqueue.runtime.process import ProcessUse

MINUTE = 12


class Scene:
    """A node in which all is well, until a test says otherwise."""

    def __init__(self) -> None:
        self.disk_full: str | None = None
        self.damage = DamageReports(Metrics("1"))
        self.pipelines: list[PipelineReport] = []
        self.letters: list[DeadLetterCount] = []
        self.failed: list[tuple[str, str]] = []
        self.groups: list[GroupLine] = []
        self.lines: dict[str, GroupLines] = {}
        self.transactions: list[Any] = []
        self.p99: float | None = None
        self.nacked = self.acked = 0.0
        self.free_bytes = 900
        self.loop_lag_s = 0.0
        self.open_files = 10

    def group(
        self,
        name: str,
        lags: list[int],
        *,
        members: int = 0,
        commits: float = 0.0,
        uncommitted: int = 0,
    ) -> None:
        self.groups.append(
            GroupLine(
                group_id=name,
                group_type=GroupType.CONSUMER,
                protocol_type="consumer",
                state="Stable",
                generation=1,
                member_count=members,
            )
        )
        lines = self.lines[name] = GroupLines()
        for lag in lags:
            lines.lag.add(lag)
            lines.uncommitted.add(uncommitted)
            lines.committed.add(commits)
            lines.published.add(0)

    def look(self) -> list[tuple[str, str, str]]:
        broker: Any = SimpleNamespace(
            publisher=SimpleNamespace(disk_full=self.disk_full),
            pipelines=SimpleNamespace(all=lambda: self.pipelines),
            history=SimpleNamespace(group=self.lines.get),
            transactions=SimpleNamespace(now_ms=lambda: 1_000_000),
            clock_guard=SimpleNamespace(stopped=lambda: None),
            damage=self.damage,
            settings=SimpleNamespace(exposed=None),
            audit=SimpleNamespace(failure=None),
            troubles={},
        )
        totals = Totals(*[0] * 13)
        inventory = Inventory(totals, self.groups, self.transactions, self.failed, self.letters)
        publish = Percentiles(1.0, 2.0, self.p99)
        none = Percentiles()
        lately = Lately(Rates(), publish, none, none, self.nacked, self.acked)
        health = HealthReport(
            process=ProcessUse(1.0, 4, 1000, self.open_files, 100, 5.0),
            disk=DiskUsage(1000, self.free_bytes),
            loop_lag_s=self.loop_lag_s,
            gc_collections=0,
            gc_pause_s=0.0,
        )
        found = attention(broker, inventory, lately, health)
        return [(each.severity, each.title, each.link) for each in found]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_node_in_which_all_is_well_needs_nobody(scene: Scene) -> None:
    scene.group("busy", [5] * MINUTE, members=2, commits=10.0)
    scene.group("done", [0] * MINUTE)
    scene.group("left behind", [5] * MINUTE)
    scene.p99 = 5.0
    assert scene.look() == []


def test_a_partition_that_refuses_appends_is_the_most_urgent(scene: Scene) -> None:
    scene.free_bytes = 100
    scene.failed = [("my-orders-2", "no space")]
    assert scene.look() == [
        ("critical", "my-orders-2 refuses appends", "/console/topics/my-orders"),
        ("warning", "The disk is 90% full", "/console"),
    ]
    scene.disk_full = "less than 10 % are left"
    assert scene.look()[1] == ("critical", "The disk is full", "/console")


def test_groups_that_do_not_get_on_are_named(scene: Scene) -> None:
    growing = list(range(20_000, 20_000 + MINUTE))
    scene.group("stuck", [7] * MINUTE, members=1)
    scene.group("nobody/here", growing)
    scene.group("slow", growing, members=1, commits=1.0)
    scene.group("young", [7], members=1)
    assert scene.look() == [
        ("critical", "Group stuck is stuck", "/console/groups/stuck"),
        ("warning", "Group nobody/here has no members", "/console/groups/nobody%2Fhere"),
        ("warning", "Group slow has a growing lag", "/console/groups/slow"),
    ]


def test_lag_that_counts_from_the_log_start_for_want_of_a_commit_is_no_reason_to_worry(
    scene: Scene,
) -> None:
    scene.group("begins at the end", [7] * MINUTE, members=1, uncommitted=7)
    scene.group("stuck", [7] * MINUTE, members=1, uncommitted=3)
    assert [title for _, title, _ in scene.look()] == ["Group stuck is stuck"]


def test_pipelines_that_failed_or_are_lost_are_critical(scene: Scene) -> None:
    query = QueryReport(name="totals", state="failed", error="no such column")
    scene.pipelines = [
        PipelineReport(name="a", state="failed", updated_at=1),
        PipelineReport(name="b", state="lost", updated_at=1),
        PipelineReport(name="c", state="running", updated_at=1, queries=(query,)),
        PipelineReport(name="d", state="stopped", updated_at=1),
    ]
    assert [title for _, title, _ in scene.look()] == [
        "Pipeline a has failed",
        "Pipeline b is lost",
        "Query totals of pipeline c has failed",
    ]


def test_messages_that_come_back_or_die_are_told(scene: Scene) -> None:
    scene.nacked, scene.acked = 5.0, 1.0
    scene.letters = [
        DeadLetterCount(9, "bills.dlq", source="bills"),
        DeadLetterCount(2, "rejected/rows", pipeline="revenue"),
        DeadLetterCount(1, "orders.dlq", source="orders"),
    ]
    assert scene.look() == [
        ("warning", "9 dead letters of bills", "/console/dead-letters/bills"),
        ("warning", "2 dead letters of pipeline revenue", "/console/topics/rejected%2Frows"),
        ("warning", "1 dead letter of orders", "/console/dead-letters/orders"),
        ("warning", "More messages are nacked than acknowledged", "/console/queues"),
    ]
    scene.acked = 6.0
    assert len(scene.look()) == 3


def test_a_transaction_that_is_open_for_long_is_told(scene: Scene) -> None:
    scene.transactions = [
        SimpleNamespace(transactional_id="old", started_ms=1_000_000 - 90_000),
        SimpleNamespace(transactional_id="new", started_ms=1_000_000 - 1000),
    ]
    assert scene.look() == [
        ("warning", "The transaction of old is open for 90 s", "/console/transactions")
    ]


@pytest.mark.parametrize(("p99", "severity"), [(60.0, "warning"), (150.0, "critical")])
def test_slow_publishing_is_told(scene: Scene, p99: float, severity: str) -> None:
    scene.p99 = p99
    assert scene.look() == [(severity, "Publishing is slow", "/console")]


def test_a_process_at_its_limits_is_told(scene: Scene) -> None:
    scene.loop_lag_s, scene.open_files = 0.8, 95
    assert [title for _, title, _ in scene.look()] == [
        "The event loop was blocked for 0.8 s",
        "The limit of open files is almost reached",
    ]


def test_much_of_the_same_is_a_few_lines(scene: Scene) -> None:
    scene.failed = [(f"orders-{number}", "no space") for number in range(100)]
    found = scene.look()
    assert len(found) == 5
    assert found[-1] == ("critical", "And 96 more like that", "/console/topics")
    assert len(found) < _MAX_SHOWN


def test_damage_is_told_the_lost_before_what_was_rebuilt(scene: Scene) -> None:
    scene.damage.note(DamageKind.SNAPSHOT, "snapshot-7.bin", "its checksum does not fit")
    scene.damage.note(DamageKind.STATE, "__queue_state-3", "offset 7 does not decode")
    assert scene.look() == [
        ("critical", "__queue_state-3: an entry of the broker's state is damaged", "/console"),
        ("warning", "snapshot-7.bin: a snapshot is damaged", "/console"),
    ]

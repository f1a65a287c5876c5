"""How old the oldest message is that a group is not done with, and when the group will be done."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from goqueue.insight import backlogs
from goqueue.insight.backlogs import SPACING_S, WINDOW_S, Progress
from goqueue.model.topic_partition import TopicPartition
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.settings import QueueSettings
from support.brokers import publish, running_broker
from support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.insight.backlogs import Backlog

PLACE = TopicPartition("t", 0)

# --- progress


def test_nothing_is_known_of_the_end_before_the_second_look() -> None:
    progress = Progress()
    progress.note(0, committed=0, log_end=10, partitions=1)
    assert progress.drain_s is None


def test_what_becomes_less_has_an_end() -> None:
    progress = Progress()
    progress.note(0, committed=0, log_end=1000, partitions=2)
    progress.note(10, committed=300, log_end=1100, partitions=2)
    assert (progress.commits_per_s, progress.appends_per_s) == (30, 10)
    assert progress.drain_s == 800 / 20


def test_what_does_not_become_less_never_ends() -> None:
    progress = Progress()
    progress.note(0, committed=0, log_end=100, partitions=1)
    progress.note(10, committed=50, log_end=150, partitions=1)
    assert progress.drain_s == math.inf


def test_a_group_that_keeps_up_is_done_when_it_has_dealt_with_what_is_under_way() -> None:
    progress = Progress()
    progress.note(0, committed=0, log_end=40, partitions=1)
    progress.note(10, committed=1000, log_end=1041, partitions=1)
    assert progress.drain_s == 41 / 100


def test_where_nothing_is_left_there_is_nothing_to_wait_for() -> None:
    progress = Progress()
    progress.note(0, committed=7, log_end=7, partitions=1)
    assert progress.drain_s == 0


@pytest.mark.parametrize(("committed", "partitions"), [(10, 1), (60, 2)])
def test_a_group_that_was_set_back_or_has_other_partitions_begins_anew(
    committed: int, partitions: int
) -> None:
    progress = Progress()
    progress.note(0, committed=50, log_end=100, partitions=1)
    progress.note(5, committed=committed, log_end=100, partitions=partitions)
    assert progress.drain_s is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=60))
def test_rates_are_those_of_the_window(steps: list[tuple[int, int]]) -> None:
    progress = Progress()
    committed, log_end, marks = 0, 10_000, []
    for number, (done, more) in enumerate(steps):
        committed, log_end = committed + done, log_end + more
        marks.append((number * 5.0, committed, log_end))
        progress.note(*marks[-1], partitions=1)
    last = marks[-1]
    first = max((mark for mark in marks if last[0] - mark[0] >= WINDOW_S), default=marks[0])
    span_s = last[0] - first[0]
    assert progress.commits_per_s == (last[1] - first[1]) / span_s
    assert progress.appends_per_s == (last[2] - first[2]) / span_s


def test_looks_in_quick_succession_take_no_more_room() -> None:
    progress = Progress()
    for look in range(10_000):
        progress.note(look / 100, committed=2 * look, log_end=100_000 + look, partitions=1)
    assert len(progress._marks) < 2 * WINDOW_S / SPACING_S
    assert progress.commits_per_s == pytest.approx(200)
    assert progress.appends_per_s == pytest.approx(100)


# --- a broker's groups


def in_a_broker(folder: Path, scenario: Callable[[Broker, ManualClock], Awaitable[None]]) -> None:
    """Run a scenario over a topic `t`: a message 30 s ago, one 20 s ago, one 10 s ago."""

    async def run() -> None:
        clock = ManualClock()
        async with running_broker(folder, clock=clock) as broker:
            await broker.create_topic("t", 1)
            for _ in range(3):
                publish(broker, "t", b"x")
                clock.advance(10_000)
            await scenario(broker, clock)

    asyncio.run(run())


async def _looked(broker: Broker, group_id: str) -> Backlog:
    await broker.backlogs.look()
    (found,) = broker.backlogs.of(group_id)
    return found


def test_the_oldest_message_is_the_one_that_a_log_group_goes_on_with(tmp_path: Path) -> None:
    async def scenario(broker: Broker, clock: ManualClock) -> None:
        await broker.group_administrator.set_offsets("g", {PLACE: 0})
        assert (await _looked(broker, "g")).oldest_age_s(clock.now_ms()) == 30
        await broker.group_administrator.set_offsets("g", {PLACE: 2})
        found = await _looked(broker, "g")
        assert (found.lag, found.oldest_age_s(clock.now_ms())) == (1, 10)
        await broker.group_administrator.set_offsets("g", {PLACE: 3})
        found = await _looked(broker, "g")
        assert (found.lag, found.oldest_ms, found.oldest_age_s(clock.now_ms())) == (0, None, 0)

    in_a_broker(tmp_path, scenario)


def test_the_oldest_of_a_queue_group_is_the_one_that_nobody_acknowledged(tmp_path: Path) -> None:
    async def scenario(broker: Broker, clock: ManualClock) -> None:
        member = await broker.queue_members.join("w", ["t"], QueueSettings())
        taken = await broker.deliverer.poll(member, limit=3, max_wait_ms=0)
        await broker.acknowledger.settle([taken[2].receipt], Acknowledgement(Verdict.ACK))
        assert (await _looked(broker, "w")).oldest_age_s(clock.now_ms()) == 30
        await broker.acknowledger.settle([taken[0].receipt], Acknowledgement(Verdict.ACK))
        assert (await _looked(broker, "w")).oldest_age_s(clock.now_ms()) == 20

    in_a_broker(tmp_path, scenario)


def test_what_retention_took_away_is_not_waited_for(tmp_path: Path) -> None:
    async def scenario(broker: Broker, clock: ManualClock) -> None:
        await broker.group_administrator.set_offsets("g", {PLACE: 0})
        await broker.delete_records(PLACE, 2)
        assert (await _looked(broker, "g")).oldest_age_s(clock.now_ms()) == 10

    in_a_broker(tmp_path, scenario)


def test_one_look_reads_so_many_messages_and_the_next_ones_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlogs, "_MAX_LOOKUPS", 2)

    async def scenario(broker: Broker, clock: ManualClock) -> None:
        for number in range(3):
            await broker.create_topic(f"t{number}", 1)
            publish(broker, f"t{number}", b"x")
        await broker.group_administrator.set_offsets(
            "g", {TopicPartition(f"t{number}", 0): 0 for number in range(3)}
        )
        for known in (2, 3):
            await broker.backlogs.look()
            found = broker.backlogs.of("g")
            assert sum(each.oldest_ms == clock.now_ms() for each in found) == known

    in_a_broker(tmp_path, scenario)


def test_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    async def scenario(broker: Broker, clock: ManualClock) -> None:
        await broker.group_administrator.set_offsets("g", {PLACE: 0})
        await broker.backlogs.look()
        await broker.delete_topic("t")
        await broker.backlogs.look()
        assert list(broker.backlogs.all()) == []
        assert not broker.backlogs._known
        assert not broker.backlogs._progress

    in_a_broker(tmp_path, scenario)

"""A wall clock that is set is told apart from time that passes and from a suspended machine."""

from __future__ import annotations

import pytest

from goqueue.runtime.clock_watch import JUMP_MS, ClockWatch
from support.clocks import ManualClock

HOUR_MS = 3600 * 1000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000 * HOUR_MS)


@pytest.fixture
def watch(clock: ManualClock) -> ClockWatch:
    return ClockWatch(clock)


def test_time_that_passes_is_no_jump(clock: ManualClock, watch: ClockWatch) -> None:
    clock.advance(500 * HOUR_MS)
    assert watch.look() is None
    assert not watch.was_set()
    assert watch.steady_ms() == clock.now_ms()


def test_a_suspended_machine_is_no_jump_but_its_timers_are_late(
    clock: ManualClock, watch: ClockWatch
) -> None:
    clock.suspend(100 * HOUR_MS)
    assert watch.look() is None
    assert watch.was_set()
    assert not watch.was_set()


@pytest.mark.parametrize("direction", [1, -1])
def test_more_than_an_hour_in_either_direction_is_a_jump(
    clock: ManualClock, watch: ClockWatch, direction: int
) -> None:
    clock.jump(direction * JUMP_MS)
    assert watch.look() is None
    assert watch.was_set()
    before_ms = clock.now_ms() - direction * JUMP_MS
    clock.jump(direction)
    clock.advance(5000)
    jump = watch.look()
    assert jump is not None
    assert jump.jumped_ms == direction * (JUMP_MS + 1)
    assert watch.steady_ms() == before_ms + 5000


def test_small_steps_add_up_to_a_jump(clock: ManualClock, watch: ClockWatch) -> None:
    for _ in range(3):
        clock.jump(25 * 60 * 1000)
        watch.look()
    assert watch.jump is not None


def test_a_clock_that_comes_back_has_no_jump_any_more(
    clock: ManualClock, watch: ClockWatch
) -> None:
    clock.jump(240 * HOUR_MS)
    assert str(watch.look()) == "the wall clock jumped forward by 10.0 days"
    clock.jump(-239 * HOUR_MS)
    assert watch.look() is None


def test_a_jump_that_is_accepted_is_where_the_clock_should_be(
    clock: ManualClock, watch: ClockWatch
) -> None:
    clock.jump(-5 * HOUR_MS)
    assert str(watch.accept()) == "the wall clock jumped back by 5.0 h"
    assert watch.look() is None
    assert watch.steady_ms() == clock.now_ms()
    clock.jump(5 * HOUR_MS)
    assert watch.look() is not None

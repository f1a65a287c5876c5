"""When a process of a worker is started again, and which settings no process can run with."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from goqueue import App
from goqueue.worker.errors import AppNotFoundError
from goqueue.worker.runner import Runner
from goqueue.worker.settings import WorkerSettings
from goqueue.worker.supervisor import CANNOT_START, REPLACE_ME, Restarts

KILLED = -9


def test_a_process_that_dies_at_once_is_started_later_each_time() -> None:
    restarts = Restarts()
    delays = [restarts.after(KILLED, 0.1) for _ in range(7)]
    assert delays == [1, 2, 4, 8, 16, 30, 30]


def test_a_process_that_ran_for_long_is_started_soon() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.after(1, 0.1)
    assert restarts.after(1, 3600) == 1
    assert restarts.after(1, 0.1) == 2


def test_a_process_that_ends_by_itself_is_not_started_in_a_busy_loop() -> None:
    assert Restarts().after(0, 0.1) == 1


def test_a_process_with_a_task_that_does_not_end_is_replaced_now() -> None:
    assert Restarts().after(REPLACE_ME, 6) == 0


def test_a_process_that_cannot_start_is_not_started_again() -> None:
    assert Restarts().after(CANNOT_START, 0.1) is None


def runner(assignment: Literal["shared", "exclusive"] = "shared", **settings: Any) -> Runner:
    app = App("images", assignment=assignment)
    app.task(len)
    app.task(name="other", topic="slow")(len)
    return Runner(app, WorkerSettings(app="tasks:app", **settings))


def test_a_worker_takes_from_topics_that_its_app_has() -> None:
    runner(topics=("slow",))
    with pytest.raises(
        AppNotFoundError, match="no task in topic fast; its topics are images, slow"
    ):
        runner(topics=("slow", "fast"))


@pytest.mark.parametrize("settings", [{"concurrency": 2}, {"prefetch": 2}])
def test_a_process_that_keeps_the_order_has_one_message_at_a_time(settings) -> None:
    runner(**settings)
    runner("exclusive")
    runner("exclusive", concurrency=1, prefetch=1)
    with pytest.raises(ValueError, match="one message at a time"):
        runner("exclusive", **settings)

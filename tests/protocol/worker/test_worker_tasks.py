"""What tasks do and raise, in a real worker against a real broker."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from support.waiting import eventually
from support.workers import Tasks, WorkerProcess, address_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.testing import Broker


@pytest.fixture(scope="module")
def tasks(goqueue_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tasks]:
    """Tasks, and a worker of two processes that runs them."""
    name = goqueue_broker.unique_name("tasks")
    made = Tasks(name, tmp_path_factory.mktemp("tasks"), address_of(goqueue_broker))
    with WorkerProcess(made, "--processes", "2", "--concurrency", "5") as worker:
        worker.ready(2)
        made.worker = worker
        yield made
        assert worker.stop() == 0
    made.app.close()


def dead_letter(broker: Broker, tasks: Tasks, text: str) -> dict[str, bytes]:
    """The headers of the dead letter whose value has this in it."""

    def look() -> dict[str, bytes] | None:
        if f"{tasks.name}.dlq" not in broker.topics():
            return None
        found = [m for m in broker.messages(f"{tasks.name}.dlq") if text.encode() in m.value]
        return dict(found[0].headers) if found else None

    headers: dict[str, bytes] = eventually(look, f"a dead letter with {text}")
    return headers


def test_tasks_with_and_without_asyncio_run_once_and_are_acknowledged(
    tasks: Tasks, goqueue_broker: Broker
) -> None:
    who = UUID(int=7)
    receipt = tasks.awaited.options(key="k", headers={"a": "b"}).send("async", who=who)
    tasks.plain.send("sync")
    asyncio.run(tasks.plain.send_async("from asyncio"))
    for mark in ("sync", "from asyncio"):
        (found,) = tasks.wait_for(mark, "ran")
        assert found["count"] == 1
    (found,) = tasks.wait_for("async", "ran")
    assert found["who"] == repr(who)
    assert found["id"] == f"{tasks.name}-{receipt.partition}@{receipt.offset}"
    assert found["key"] == "k"
    assert found["headers"]["a"] == "b"
    assert found["priority"] == "low"
    tasks.worker.wait_for_line(f"awaited[{found['id']}] succeeded in ")


def test_many_tasks_run_once_each(tasks: Tasks) -> None:
    tasks.plain.send_many([(f"many-{number}",) for number in range(300)])
    for number in range(300):
        tasks.wait_for(f"many-{number}", "ran")
    pids = {tasks.records(f"many-{number}")[0]["pid"] for number in range(300)}
    assert len(pids) == 2


@pytest.mark.parametrize(
    ("name", "count", "reason"),
    [
        ("fail", 3, "LookupError: {}"),
        ("fail_twice", 2, "failed 2 times: LookupError: {}"),
        ("fail_for_good", 1, "LookupError: {}"),
        ("reject", 1, "no use: {}"),
    ],
)
def test_a_task_that_fails_is_retried_and_then_dead_lettered(
    goqueue_broker: Broker, tasks: Tasks, name: str, count: int, reason: str
) -> None:
    mark = f"dead-{name}"
    getattr(tasks, name).send(mark)
    found = tasks.wait_for(mark, *["ran"] * count)
    assert [each["count"] for each in found] == list(range(1, count + 1))
    headers = dead_letter(goqueue_broker, tasks, mark)
    assert headers["goqueue-dlq-error"].decode() == reason.format(mark)
    assert len(tasks.records(mark)) == count


def test_the_log_has_the_traceback_of_an_error_from_the_task_on(tasks: Tasks) -> None:
    tasks.fail_for_good.send("traced")
    tasks.worker.wait_for_line("LookupError: traced", times=2)
    log = list(tasks.worker.log)
    at = next(i for i, line in enumerate(log) if "fail_for_good[" in line and "traced" in line)
    assert ", delivery 1: LookupError: traced" in log[at]
    assert log[at + 1] == "Traceback (most recent call last):"
    assert "worker_app.py" in log[at + 2]


def test_a_task_may_ask_for_a_retry(tasks: Tasks) -> None:
    tasks.retry_once.send("retry")
    assert [each["count"] for each in tasks.wait_for("retry", "ran", "ran")] == [1, 2]


@pytest.mark.parametrize("name", ["spin", "sleep"])
def test_a_task_that_exceeds_its_time_limit_is_interrupted_and_fails(
    goqueue_broker: Broker, tasks: Tasks, name: str
) -> None:
    getattr(tasks, name).send(f"limit-{name}")
    tasks.wait_for(f"limit-{name}", *["limit"] * 3)
    headers = dead_letter(goqueue_broker, tasks, f"limit-{name}")
    assert headers["goqueue-dlq-error"].startswith(b"TimeLimitExceeded: the time limit of 0.1 s")


@pytest.mark.parametrize(
    ("task", "value", "reason"),
    [
        ("nothing", b'{"args": ["unknown"]}', "unknown task 'nothing'; app "),
        (None, b"headless", "no task: the header goqueue-task is missing; app "),
        ("plain", b"not JSON", "plain: the value is not a call"),
        ("plain", b'{"args": ["too", "many"]}', "too many positional arguments"),
        ("plain", b'{"args": [71]}', "plain: argument mark: Expected `str`, got `int`"),
    ],
)
def test_a_message_that_calls_no_task_is_dead_lettered_at_once(
    goqueue_broker: Broker, tasks: Tasks, task: str | None, value: bytes, reason: str
) -> None:
    headers = {} if task is None else {"goqueue-task": task}
    goqueue_broker.publish(tasks.name, value, headers=headers)
    found = dead_letter(goqueue_broker, tasks, value.decode())
    assert reason in found["goqueue-dlq-error"].decode()
    assert found["goqueue-dlq-reason"] == b"REJECTED"
    if "app " in reason:
        assert b"fail_twice" in found["goqueue-dlq-error"]


def test_a_producer_without_python_calls_a_task(goqueue_broker: Broker, tasks: Tasks) -> None:
    value = '{"kwargs": {"mark": "by hand"}}'
    goqueue_broker.publish(tasks.name, value, headers={"goqueue-task": "plain"})
    tasks.wait_for("by hand", "ran")


def test_a_delayed_task_runs_when_it_is_due(tasks: Tasks) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=0.3)
    receipt = tasks.plain.options(delay=0.3).send("delayed")
    tasks.plain.options(deliver_at=moment).send("at a time")
    assert receipt.delayed_id is not None
    for mark in ("delayed", "at a time"):
        tasks.wait_for(mark, "ran")
    assert datetime.now(UTC) >= moment


def test_tasks_send_tasks(tasks: Tasks) -> None:
    tasks.send_another.send("child")
    tasks.send_another_async.send("child")
    tasks.wait_for("child-sync", "ran")
    tasks.wait_for("child-async", "ran")

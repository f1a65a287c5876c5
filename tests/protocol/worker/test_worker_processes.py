"""The processes of a worker: stopped in order or not, killed, stuck, without a broker."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from goqueue import Client
from support.server import make_server
from support.waiting import eventually
from support.workers import Tasks, WorkerProcess, address_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from goqueue.testing import Broker


@pytest.fixture
def make(goqueue_broker: Broker, tmp_path: Path) -> Iterator[Callable[..., Tasks]]:
    """Makes apps of their own, with what goes into the environment."""
    made: list[Tasks] = []

    def new(**environment: str) -> Tasks:
        name = goqueue_broker.unique_name("app")
        made.append(Tasks(name, tmp_path, address_of(goqueue_broker), **environment))
        return made[-1]

    yield new
    for tasks in made:
        tasks.app.close()


def lag(tasks: Tasks) -> int:
    with Client(tasks.address) as client:
        return sum(each.lag for each in client.groups.describe(tasks.name).offsets)


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_sigterm_lets_running_tasks_finish_and_takes_no_more(make) -> None:
    tasks = make()
    with WorkerProcess(tasks, "--concurrency", "2") as worker:
        worker.ready()
        tasks.hold.send("a")
        tasks.hold.send("b")
        for mark in "ab":
            tasks.wait_for(mark, "began")
        worker.signal(signal.SIGTERM)
        worker.wait_for_line("SIGTERM: stopping")
        tasks.plain.send("too late")
        tasks.let("a")
        tasks.wait_for("a", "began", "ended")
        tasks.let("b")
        assert worker.wait() == 0
    assert [each["what"] for each in tasks.records("b")] == ["began", "ended"]
    assert tasks.records("too late") == []
    assert lag(tasks) == 1
    with WorkerProcess(tasks) as worker:
        (found,) = tasks.wait_for("too late", "ran")
        assert found["count"] == 1
        worker.stop()


def test_what_a_stopping_process_has_prefetched_is_for_others_at_once(make) -> None:
    tasks = make(WORKER_VISIBILITY="3600")
    marks = [f"waiting {number}" for number in range(5)]
    flags = ("--concurrency", "1", "--prefetch", "6", "--stop-timeout", "1h")
    with WorkerProcess(tasks, *flags) as worker, Client(tasks.address) as client:
        worker.ready()
        tasks.hold.send("a")
        tasks.wait_for("a", "began")
        for mark in marks:
            tasks.plain.send(mark)
        # More is asked for when half of the room is free: one runs, and at least three wait.
        eventually(lambda: client.queues.describe(tasks.name).in_flight >= 4)
        worker.signal(signal.SIGTERM)
        with WorkerProcess(tasks) as other:
            for mark in marks:
                (found,) = tasks.wait_for(mark, "ran")
                assert found["count"] == 1
            other.stop()
        tasks.let("a")
        assert worker.wait() == 0
    assert [each["what"] for each in tasks.records("a")] == ["began", "ended"]
    assert lag(tasks) == 0


@pytest.mark.parametrize("name", ["hold", "hold_async"])
def test_what_does_not_finish_within_the_stop_timeout_is_redelivered_at_once(make, name) -> None:
    tasks = make(WORKER_VISIBILITY="3600")
    with WorkerProcess(tasks, "--stop-timeout", "100ms") as worker:
        worker.ready()
        getattr(tasks, name).send("a")
        tasks.wait_for("a", "began")
        assert worker.stop() == 0
        assert any("1 tasks have not finished" in line for line in worker.log)
    tasks.let("a")
    with WorkerProcess(tasks):
        found = eventually(lambda: [r for r in tasks.records("a") if r["count"] == 2])
        assert found[0]["what"] == "began"


def test_a_second_signal_does_not_wait(make) -> None:
    tasks = make(WORKER_VISIBILITY="3600")
    with WorkerProcess(tasks, "--stop-timeout", "1h") as worker:
        worker.ready()
        tasks.hold.send("a")
        tasks.wait_for("a", "began")
        worker.signal(signal.SIGINT)
        worker.wait_for_line("SIGINT: stopping")
        worker.signal(signal.SIGINT)
        assert worker.wait() == 0
        assert any("SIGINT received again" in line for line in worker.log)
    tasks.let("a")
    with WorkerProcess(tasks):
        eventually(lambda: [r for r in tasks.records("a") if r["count"] == 2])


def test_a_killed_process_is_replaced_and_its_messages_are_redelivered(make) -> None:
    tasks = make(WORKER_VISIBILITY="3600")
    with WorkerProcess(tasks, "--processes", "2") as worker:
        worker.ready(2)
        tasks.hold.send("a")
        (first,) = tasks.wait_for("a", "began")
        os.kill(first["pid"], signal.SIGKILL)
        tasks.let("a")
        found = tasks.wait_for("a", "began", "began", "ended")
        assert [each["count"] for each in found] == [1, 2, 2]
        assert found[1]["pid"] != first["pid"]
        worker.wait_for_line("ended with -9, restart in 1 s")
        worker.ready(3)
        assert len(set(worker.pids())) == 3
        assert worker.stop() == 0
    eventually(lambda: lag(tasks) == 0)


def test_no_task_is_lost_when_processes_are_killed_in_the_middle(make) -> None:
    tasks = make(WORKER_VISIBILITY="3600")
    tasks.brief.send_many([("brief", number) for number in range(400)])
    with WorkerProcess(
        tasks, "--processes", "2", "--concurrency", "5", "--prefetch", "20"
    ) as worker:
        eventually(lambda: len(tasks.records("brief")) >= 100)
        os.kill(tasks.records("brief")[-1]["pid"], signal.SIGKILL)
        eventually(lambda: len(tasks.records("brief")) >= 200)
        os.kill(tasks.records("brief")[-1]["pid"], signal.SIGKILL)
        eventually(lambda: {each["number"] for each in tasks.records("brief")} == {*range(400)})
        eventually(lambda: lag(tasks) == 0)
        assert worker.stop() == 0
    # Only what ran, and was not acknowledged, when a process was killed may have run again.
    assert len(tasks.records("brief")) <= 400 + 2 * 5


def test_the_processes_end_when_their_supervisor_is_killed(make) -> None:
    tasks = make()
    with WorkerProcess(tasks, "--processes", "2") as worker:
        worker.ready(2)
        tasks.hold.send("a")
        tasks.wait_for("a", "began")
        pids = worker.pids()
        worker.signal(signal.SIGKILL)
        tasks.let("a")
        eventually(lambda: not any(map(is_alive, pids)), "the end of the processes")
    assert [each["what"] for each in tasks.records("a")] == ["began", "ended"]
    assert lag(tasks) == 0


def test_a_task_longer_than_the_visibility_timeout_runs_once(make) -> None:
    tasks = make(WORKER_VISIBILITY="0.6")
    with WorkerProcess(tasks, "--processes", "2") as worker:
        worker.ready(2)
        tasks.hold.send("long")
        tasks.wait_for("long", "began")
        tasks.plain.options(delay=2.5).send("later")
        tasks.wait_for("later", "ran")
        tasks.let("long")
        (_, ended) = tasks.wait_for("long", "began", "ended")
        assert ended["count"] == 1
        assert worker.stop() == 0
    assert lag(tasks) == 0


def test_a_process_with_a_task_that_does_not_end_is_replaced(make) -> None:
    tasks = make()
    with WorkerProcess(tasks) as worker:
        worker.ready()
        tasks.stuck_once.send("stuck")
        first, second = tasks.wait_for("stuck", "ran", "ran")
        assert (first["count"], second["count"]) == (1, 2)
        assert first["pid"] != second["pid"]
        worker.wait_for_line("ended with 75, restart in 0 s")
        assert not is_alive(first["pid"])


def test_the_most_urgent_run_first(make) -> None:
    tasks = make()
    for priority in ("background", "normal", "critical"):
        tasks.plain.options(priority=priority).send(priority)
    with WorkerProcess(tasks, "--concurrency", "1"):
        for priority in ("background", "normal", "critical"):
            tasks.wait_for(priority, "ran")
    marks = [line.split('"')[3] for line in tasks.out.read_text().splitlines()]
    assert marks == ["critical", "normal", "background"]


def test_calls_of_a_key_run_in_order_also_when_they_are_retried(make) -> None:
    tasks = make(WORKER_IS_EXCLUSIVE="yes")
    for number in range(6):
        for key in "ab":
            tasks.fail_once.options(key=key).send(key, number)
    with WorkerProcess(tasks, "--processes", "2") as worker:
        for key in "ab":
            found = tasks.wait_for(key, *["ran"] * 12)
            assert [(each["number"], each["count"]) for each in found] == [
                (number, count) for number in range(6) for count in (1, 2)
            ]
        assert worker.stop() == 0


def test_a_worker_waits_for_its_broker_and_outlives_it(tmp_path: Path) -> None:
    server = make_server(tmp_path / "data")
    tasks = Tasks("restarts", tmp_path, address_of(server))
    try:
        with WorkerProcess(tasks) as worker:
            worker.wait_for_line("trying again in 1 s")
            server.start()
            worker.ready()
            tasks.plain.send("before")
            tasks.wait_for("before", "ran")
            tasks.hold.send("during")
            tasks.wait_for("during", "began")
            server.kill()
            server.restart()
            tasks.let("during")
            tasks.plain.send("after")
            tasks.wait_for("after", "ran")
            eventually(lambda: lag(tasks) == 0)
            assert worker.stop() == 0
        assert [each["what"] for each in tasks.records("during")] == ["began", "ended"]
    finally:
        tasks.app.close()
        server.close()


@pytest.mark.parametrize(
    ("target", "flags", "text"),
    [
        ("nowhere:app", (), "goqueue: nowhere:app: there is no module 'nowhere'"),
        ("support.worker_app:apps", (), "did you mean support.worker_app:app?"),
        ("support.waiting:WAIT_S", (), "is a float, not an App"),
        ("support.worker_app:app", ("--topic", "nowhere"), "has no task in topic nowhere"),
    ],
)
def test_a_worker_that_cannot_start_says_why_and_ends(make, target, flags, text) -> None:
    with WorkerProcess(make(), "--processes", "2", *flags, target=target) as worker:
        assert worker.wait() == 2
    assert any(text in line for line in worker.log)


def test_a_group_of_another_kind_is_refused(make) -> None:
    tasks = make()
    tasks.plain.send("first")
    with (
        Client(tasks.address) as client,
        client.queue(tasks.name, [tasks.name], assignment="exclusive"),
        WorkerProcess(tasks) as worker,
    ):
        assert worker.wait() == 2
    assert any("goqueue: " in line and "exclusive" in line for line in worker.log)


def test_a_module_that_fails_shows_its_traceback(make, tmp_path: Path) -> None:
    (tmp_path / "broken_worker.py").write_text("import nothing_like_it\n")
    tasks = make(PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with WorkerProcess(tasks, target="broken_worker:app") as worker:
        assert worker.wait() == 2
    assert any("No module named 'nothing_like_it'" in line for line in worker.log)
    assert any("broken_worker.py" in line for line in worker.log)

"""What the process says about itself: its event loop, its collections, its use of the machine."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from typing import TYPE_CHECKING

from goqueue.runtime.pauses import MUCH, GcWatch, LoopWatch, WorstLately
from goqueue.runtime.process import ProcessUse, count_threads, read_process

if TYPE_CHECKING:
    from pathlib import Path


def test_the_worst_value_is_kept_for_a_while_and_then_forgotten() -> None:
    worst = WorstLately(kept_s=30)
    worst.note(0.5, now_s=100)
    worst.note(0.1, now_s=110)
    assert worst.worst(129) == 0.5
    assert worst.worst(131) == 0.5
    worst.note(0.2, now_s=135)
    assert worst.worst(162) == 0.2
    assert worst.worst(300) == 0


def test_a_loop_that_is_held_is_late_by_as_much() -> None:
    seen: list[float] = []

    async def scenario() -> float:
        watch = LoopWatch(seen.append, interval_s=0.001)
        watch.start()
        watch.start()  # once is enough
        await asyncio.sleep(0)
        time.sleep(0.05)  # noqa: ASYNC251 - this is what is to be noticed
        while not seen:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.001)
        watch.stop()
        watch.stop()
        seen_then = len(seen)
        await asyncio.sleep(0.01)
        assert len(seen) == seen_then
        return watch.worst_s

    worst_s = asyncio.run(scenario())
    assert worst_s >= 0.04
    assert max(seen) == worst_s


def test_a_watch_that_was_never_started_has_seen_nothing() -> None:
    assert LoopWatch(lambda _: None).worst_s == 0


def test_collections_are_told_with_their_generation_until_the_watch_stops() -> None:
    seen: list[tuple[int, float]] = []
    watch = GcWatch(lambda generation, took_s: seen.append((generation, took_s)))
    gc.disable()  # no others than these
    try:
        watch.start()
        watch.start()
        gc.collect(1)
        watch.stop()
        watch.stop()
        gc.collect(2)
    finally:
        gc.enable()
    ((generation, took_s),) = seen
    assert generation == 1
    assert took_s > 0


def test_what_outlives_a_long_full_collection_after_much_growth_is_not_looked_at_again() -> None:
    watch = GcWatch(lambda generation, took_s: None, long_s=0.0)
    kept = [[] for _ in range(1000)]
    gc.disable()
    try:
        watch.start()
        gc.collect(2)  # nothing has come to stay
        watch.opened(MUCH)
        gc.collect(1)
        assert gc.get_freeze_count() == 0
        gc.collect(2)
        assert gc.get_freeze_count() >= len(kept)
    finally:
        watch.stop()
        gc.unfreeze()
        gc.enable()


TRIES = 50
"""What other tests have left in this process may open a file, or end a thread, just now."""


def with_one_file_more(path: Path) -> tuple[ProcessUse, ProcessUse]:
    """What was used before a file was opened, and with it."""
    before = read_process()
    file = os.open(path, os.O_CREAT)
    try:
        return before, read_process()
    finally:
        os.close(file)


def test_a_process_knows_what_it_uses(tmp_path: Path) -> None:
    for _ in range(TRIES):
        before, after = with_one_file_more(tmp_path / "file")
        assert before.open_files is not None
        if after.open_files == before.open_files + 1:
            break
    assert after.open_files == before.open_files + 1
    assert after.max_open_files is None or after.open_files < after.max_open_files
    assert after.resident_bytes is not None
    assert after.resident_bytes > 1_000_000
    assert after.cpu_s >= before.cpu_s > 0
    assert before.age_s is not None
    assert after.age_s is not None
    assert after.age_s >= before.age_s > 0


def with_one_thread_more() -> tuple[int, int, int]:
    """How many threads there were before one was started, and, asked twice, with it."""
    before = count_threads()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        return before, count_threads(), read_process().threads
    finally:
        done.set()
        thread.join()


def test_a_thread_more_is_a_thread_more() -> None:
    for _ in range(TRIES):
        before, counted, read = with_one_thread_more()
        if counted == read == before + 1:
            break
    assert counted == read == before + 1

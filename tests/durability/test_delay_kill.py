"""Delayed messages survive `kill -9` at any moment.

None comes early, none twice, none that was cancelled, and none is lost.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from goqueue.delays.entries import DelayedState
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record, decode_rows, walk
from support import delay_worker
from support.delay_worker import PARTITIONS, TOPIC, open_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.broker.broker import Broker

WORKER = Path(delay_worker.__file__)


class Promises:
    """What workers were told, in all their lives."""

    def __init__(self) -> None:
        self.published: dict[str, tuple[int, int]] = {}
        self.doubtful: set[str] = set()
        """Somebody tried to cancel it, and nobody told how that ended."""
        self.cancelled: set[str] = set()

    def note(self, lines: list[str]) -> None:
        for line in lines:
            words = line.split()
            if words[0] == "published":
                self.published[words[1]] = (int(words[2]), int(words[3]))
            elif words[0] == "cancelling":
                self.doubtful.add(words[1])
            elif words[0] == "refused":
                self.doubtful.discard(words[1])
            elif words[0] == "cancelled":
                self.doubtful.discard(words[1])
                self.cancelled.add(words[1])


def live_and_be_killed(folder: Path, seed: int, policy: str, seconds: float) -> list[str]:
    """One life of a worker; what it said. A last line that was cut off was not said."""
    command = [sys.executable, str(WORKER), str(folder), str(seed), policy]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        lines = list(_first_lines(process.stdout))
        time.sleep(seconds)
    finally:
        process.kill()
    said, _ = process.communicate()
    lines += (line for line in said.splitlines(keepends=True) if line.endswith(b"\n"))
    return [line.decode() for line in lines]


def _first_lines(said: IO[bytes]) -> Iterator[bytes]:
    """What a worker says until it has got somewhere."""
    wanted = Counter({b"published": 60, b"cancelled": 6})
    while wanted.total():
        line = said.readline()
        assert line, "it ended by itself"
        yield line
        wanted -= Counter([line.split()[0]])


async def judge(folder: Path, promises: Promises) -> Counter[str]:
    """Let everything come that is due soon, and hold it against what was promised."""
    broker = await open_broker(folder)
    try:
        deadline_s = time.monotonic() + 120
        soon_ms = broker.clock.now_ms() + 60_000
        while any(each.deliver_at_ms < soon_ms for each in await broker.delays.list(TOPIC, 10**6)):
            assert time.monotonic() < deadline_s, "something that is due does not come"
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)
        records = stored(broker)
        came = Counter((record.value or b"").decode() for record in records)
        assert max(came.values()) == 1, "twice"
        for record in records:
            headers = dict(record.headers)
            if "goqueue-published-at" in headers:  # others were due when they were stored
                assert record.timestamp_ms >= int(headers["goqueue-deliver-at"] or b""), "early"
        assert not promises.cancelled & came.keys(), "although cancelled"
        for name, (delayed_id, due_ms) in promises.published.items():
            if due_ms < soon_ms:
                gone = name in promises.cancelled or name in promises.doubtful
                assert name in came or gone, f"{name} is lost"
            elif name not in promises.cancelled and name not in promises.doubtful:
                found = await broker.delays.get(TOPIC, delayed_id)
                assert (found.state, found.value) == (DelayedState.PENDING, name.encode())
        parts = broker.delays.shard().parts
        assert parts is not None
        parts.book.check_invariants()
        return came
    finally:
        await broker.stop()


def stored(broker: Broker) -> list[Record]:
    return [
        record
        for number in range(PARTITIONS)
        for chunk in broker.partitions.partition(TopicPartition(TOPIC, number)).chunks(0)
        for position, _ in walk(chunk.data)
        for record in decode_rows(chunk.data, position)
    ]


def play(folder: Path, policy: str, lives: int) -> None:
    rng = random.Random(lives)
    promises = Promises()
    for seed in range(lives):
        promises.note(live_and_be_killed(folder, seed, policy, rng.uniform(0.2, 1.2)))
    came = asyncio.run(judge(folder, promises))
    assert len(came) > 20 * lives
    assert len(promises.cancelled) > 5 * lives


@pytest.mark.parametrize("policy", ["always", "interval"])
def test_delayed_messages_survive_kills_at_any_moment(tmp_path: Path, policy: str) -> None:
    play(tmp_path, policy, 4)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", ["always", "interval", "never"])
def test_delayed_messages_survive_many_kills(tmp_path: Path, policy: str) -> None:
    play(tmp_path, policy, 40)

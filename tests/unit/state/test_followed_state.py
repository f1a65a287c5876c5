"""A copy of a state has what is committed, and nothing else, while another node leads."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from goqueue.model.errors import LeaderUnavailableError
from goqueue.model.topic_partition import TopicPartition
from goqueue.reading.fetch import Fetched
from goqueue.records import Record, encode
from goqueue.state import followed
from goqueue.state.followed import FollowedState
from support.effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.reading.fetch import FetchRequest
    from goqueue.state.log import StateEntry

PLACE = TopicPartition("__state", 0)


class Log:
    """The partition: entries, and how many of them are committed."""

    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes | None]] = []
        self.committed = 0
        self.is_leading = False
        self.asked = 0
        self.is_away = False

    def replica(self, _place: TopicPartition) -> Any:
        return SimpleNamespace(is_leading=self.is_leading)

    async def ends(self, _place: TopicPartition) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise LeaderUnavailableError("nobody leads it")
        return SimpleNamespace(high_watermark=self.committed)

    async def fetch(self, request: FetchRequest) -> list[Fetched]:
        (read,) = request.reads
        assert request.any_replica
        if read.offset >= self.committed and request.max_wait_ms:
            await asyncio.sleep(0.0005)
        some = self.entries[read.offset : min(read.offset + 3, self.committed)]
        end = read.offset + len(some)
        data = bytearray()
        for at, (key, value) in enumerate(some, read.offset):
            batch = encode([Record(0, 0, key, value)])
            batch[:8] = at.to_bytes(8, "big")
            data += batch
        return [Fetched(read, data, len(some), end, self.committed, self.committed, 0)]

    def state(self) -> dict[bytes, bytes]:
        """What the committed entries come to."""
        found: dict[bytes, bytes] = {}
        _take_in(found, self.entries[: self.committed])
        return found


class Copy:
    """A dictionary, and the one that is built."""

    def __init__(self) -> None:
        self.found: dict[bytes, bytes] = {}
        self._loading: dict[bytes, bytes] = {}

    def begin(self) -> None:
        self._loading = {}

    def replay(self, entries: Sequence[StateEntry]) -> None:
        _take_in(self._loading, entries)

    async def loaded(self, is_copy: Callable[[], bool]) -> None:
        await asyncio.sleep(0)
        if is_copy():
            self.found = self._loading

    async def apply(self, entries: Sequence[StateEntry], is_copy: Callable[[], bool]) -> None:
        await asyncio.sleep(0)
        if is_copy():
            _take_in(self.found, entries)


def _take_in(found: dict[bytes, bytes], entries: Sequence[StateEntry]) -> None:
    for key, value in entries:
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value


def _followed(log: Log, copy: Copy) -> FollowedState:
    anything: Any = log
    return FollowedState(PLACE, copy, anything, anything, anything, positions=anything)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "_RETRY_S", 0.0005)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32))
def test_a_copy_that_has_caught_up_is_what_was_committed(seed: int) -> None:
    """Entries come and are committed, and this node leads for a while and changes things itself."""
    rng = random.Random(seed)

    async def scenario() -> None:
        log, copy = Log(), Copy()
        state = _followed(log, copy)
        state.start()
        for number in range(rng.randrange(60)):
            match rng.randrange(6):
                case 0 | 1:
                    value = None if rng.random() < 0.2 else b"%d" % number
                    log.entries.append((b"%d" % rng.randrange(5), value))
                case 2:
                    log.committed = rng.randint(log.committed, len(log.entries))
                case 3:
                    await asyncio.sleep(rng.choice([0, 0, 0.001]))
                case 4 if not log.is_leading:
                    before = log.state()
                    await state.caught_up()
                    assert copy.found == before
                case _:
                    log.is_leading = not log.is_leading and rng.random() < 0.3
                    if log.is_leading:
                        copy.found = log.state()  # as the shard of the leader loads it
                        log.committed = len(log.entries)
                        copy.found = log.state()
        log.is_leading = False
        await state.caught_up()
        assert copy.found == log.state()
        await state.stop()

    asyncio.run(scenario())


def test_those_who_ask_at_once_share_two_questions() -> None:
    async def scenario() -> None:
        log, copy = Log(), Copy()
        state = _followed(log, copy)
        state.start()
        await asyncio.gather(*(state.caught_up() for _ in range(50)))
        assert log.asked == 1
        first = asyncio.ensure_future(state.caught_up())
        while log.asked < 2:  # noqa: ASYNC110 - until it has begun to ask
            await asyncio.sleep(0)
        await asyncio.gather(first, *(state.caught_up() for _ in range(50)))
        assert log.asked == 3, "what was committed after the first began is of the second"
        await state.stop()

    asyncio.run(scenario())


def test_a_copy_is_what_it_is_when_nobody_knows_what_is_committed() -> None:
    async def scenario() -> None:
        log, copy = Log(), Copy()
        log.entries, log.committed, log.is_away = [(b"k", b"v")], 1, True
        state = _followed(log, copy)
        state.start()
        await state.reached(1)
        await state.caught_up()
        assert copy.found == {b"k": b"v"}
        await state.stop()

    asyncio.run(scenario())

"""The stored high watermark, and those who wait for it, against a slow model."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import LeadershipLostError, NotEnoughReplicasAfterAppendError
from goqueue.partitions.replication.replicated_commit import ReplicatedCommit

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.wire.kafka.replies import Reply

ENDS = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), ENDS),
        st.tuples(st.just("write"), ENDS),
        st.tuples(st.just("advance"), ENDS),
        st.tuples(st.just("leave"), st.integers(0, 50)),
        st.tuples(st.sampled_from(["short", "lost", "led"]), st.just(0)),
    ),
    max_size=40,
)


def _log(start: int = 0, end: int = 30) -> Any:
    async def durable(_end: int) -> None:
        """Nobody asks for it here."""

    return cast("Any", SimpleNamespace(start_offset=start, end_offset=end, durable=durable))


class Twin:
    """The real one, and a list of all who ever waited, which is searched from the front."""

    def __init__(self) -> None:
        self.commit = ReplicatedCommit(_log())
        self.high_watermark = 0
        self.waiting: list[tuple[str, int, asyncio.Future[None] | Reply[None]]] = []
        self.told: dict[int, str] = {}
        self.is_over = False

    def publish(self, end: int) -> None:
        self._wait("publish", end, self.commit.acknowledged(end))

    def write(self, end: int) -> None:
        self._wait("write", end, self.commit.committed(end))

    def _wait(self, kind: str, end: int, future: asyncio.Future[None] | Reply[None]) -> None:
        self.waiting.append((kind, end, future))
        self._tell("done", lambda _, end: end <= self.high_watermark)
        if self.is_over:
            self._tell("lost", lambda *_: True)

    def _tell(self, what: str, whom: Callable[[str, int], bool]) -> None:
        for number, (kind, end, _) in enumerate(self.waiting):
            if whom(kind, end):
                self.told.setdefault(number, what)

    def advance(self, to: int) -> None:
        assert self.commit.advance(to) == (to > self.high_watermark)
        self.high_watermark = max(self.high_watermark, to)
        self._tell("done", lambda _, end: end <= self.high_watermark)

    def leave(self, whoever: int) -> None:
        if self.waiting:
            number = whoever % len(self.waiting)
            self.told.setdefault(number, "gone")
            self.waiting[number][2].cancel()

    def short(self, _: int) -> None:
        self.commit.fail_publishers(NotEnoughReplicasAfterAppendError("one is in sync"))
        self._tell("short", lambda kind, _: kind == "publish")

    def lost(self, _: int) -> None:
        self.commit.end(LeadershipLostError("node 2 leads"))
        self.is_over = True
        self._tell("lost", lambda *_: True)

    def led(self, _: int) -> None:
        self.commit.begin()
        self.is_over = False

    def check(self) -> None:
        self.commit.check_invariants()
        assert self.commit.high_watermark() == self.high_watermark
        for number, (_, end, future) in enumerate(self.waiting):
            assert _told(future) == self.told.get(number, "waits")
            assert self.commit.is_committed(end) == (end <= self.high_watermark)
        # Those who are gone are forgotten later.
        assert self.commit.waiting_count >= len(self.waiting) - len(self.told)


@given(STEPS)
def test_whoever_waits_hears_once_and_when_the_watermark_is_there(
    steps: list[tuple[str, int]],
) -> None:
    async def scenario() -> None:
        twin = Twin()
        for what, value in steps:
            getattr(twin, what)(value)
            await asyncio.sleep(0)  # publishers hear of refusals in the next turn
            twin.check()

    asyncio.run(scenario())


def _told(future: asyncio.Future[None] | Reply[None]) -> str:
    if not future.done():
        return "waits"
    if future.cancelled():
        return "gone"
    error = future.exception()
    if error is None:
        return "done"
    return "lost" if isinstance(error, LeadershipLostError) else "short"


@pytest.mark.parametrize(("known", "expected"), [(3, 10), (15, 15), (99, 20)])
def test_what_an_earlier_run_knew_is_believed_within_the_log(known: int, expected: int) -> None:
    assert ReplicatedCommit(_log(10, 20), known).high_watermark() == expected


def test_the_watermark_does_not_pass_the_end_of_the_log_and_follows_a_cut() -> None:
    log = _log(0, 10)
    commit = ReplicatedCommit(log, 4)
    assert commit.advance(50)
    assert commit.high_watermark() == 10
    log.end_offset = 7
    commit.cut()
    assert commit.high_watermark() == 7
    log.start_offset = log.end_offset = 20
    commit.cut()
    assert commit.high_watermark() == 20

"""Members of one partition are served in the order in which they asked, whatever comes between."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.lane_index import LaneIndex
from goqueue.partitions.waiting import Waiters
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.queues.members import QueueMember
from goqueue.queues.turn_order import Place, TurnOrder
from support.brokers import publish, running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from goqueue.broker.broker import Broker

PLACE = TopicPartition("t", 0)
POLLS = 8
LONG_MS = 3_600_000


class Line:
    """Polls of one member each, which take one message; who was served, in order."""

    def __init__(self, broker: Broker, members: Iterator[QueueMember]) -> None:
        self.broker = broker
        self.members = members
        self.served: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, *, max_wait_ms: int = LONG_MS) -> None:
        """One more asks; returns when it waits, or has been served."""
        self.start(max_wait_ms=max_wait_ms)
        for _ in range(50):
            await asyncio.sleep(0)

    def start(self, *, max_wait_ms: int = LONG_MS, **wanted: Any) -> asyncio.Task[None]:
        """One more asks, in the next turn of the event loop."""
        polled = self._poll(len(self.tasks), max_wait_ms, wanted)
        task = asyncio.get_running_loop().create_task(polled)
        self.tasks.append(task)
        return task

    async def _poll(self, number: int, max_wait_ms: int, wanted: dict[str, Any]) -> None:
        wanted = {"limit": 1, **wanted}
        member = next(self.members)
        if await self.broker.deliverer.poll(member, max_wait_ms=max_wait_ms, **wanted):
            self.served.append(number)

    async def store(self, count: int = 1) -> None:
        """Messages come; returns when whoever they are for has them."""
        publish(self.broker, "t", *[b"m"] * count)
        await self.have_been(len(self.served) + count)

    async def have_been(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.served) < count:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.001)


@asynccontextmanager
async def lined_up(folder: Path, polls: int = POLLS) -> AsyncIterator[Line]:
    async with running_broker(folder) as broker:
        await broker.create_topic("t", 1)
        joined = [
            await broker.queue_members.join("g", ["t"], QueueSettings()) for _ in range(2 * POLLS)
        ]
        line = Line(broker, iter(joined))
        for _ in range(polls):
            await line.ask()
        try:
            yield line
        finally:
            for task in line.tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def played(folder: Path, scenario: Callable[[Line], Awaitable[None]], polls: int = POLLS) -> None:
    async def main() -> None:
        async with lined_up(folder, polls) as line:
            await scenario(line)

    asyncio.run(main())


def places(line: Line) -> list[Place]:
    return [each for each in line.broker.queues.waiters("g") if isinstance(each, Place)]


def test_polls_are_served_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    async def scenario(line: Line) -> None:
        for number in range(POLLS):
            await line.store()
            assert line.served == list(range(number + 1))

    played(tmp_path, scenario)


def test_one_that_comes_while_others_are_woken_comes_after_them(tmp_path: Path) -> None:
    async def scenario(line: Line) -> None:
        for number in range(POLLS):
            line.start(max_wait_ms=0)  # it runs before those whom the message wakes
            await line.store()
            assert line.served == list(range(number + 1))

    played(tmp_path, scenario)


@pytest.mark.parametrize("late", range(1, POLLS))
def test_one_whose_own_wait_ends_in_the_same_moment_overtakes_nobody(
    tmp_path: Path, late: int
) -> None:
    async def scenario(line: Line) -> None:
        places(line)[late]._end(woken=False)  # as its timer does, in the turn before
        await line.store(1)
        assert line.served == [0]
        await line.store(2)
        assert line.served == [0, 1, 2]

    played(tmp_path, scenario)


class SlowReads:
    """The reader of a broker, whose first read waits until it may go on."""

    def __init__(self, broker: Broker) -> None:
        self._load = broker.record_reader.load
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()
        reader: Any = broker.record_reader
        reader.load = self.load

    async def load(self, *given: Any, **named: Any) -> Any:
        if not self.has_begun.is_set():
            self.has_begun.set()
            await self.may_end.wait()
        return await self._load(*given, **named)


def test_messages_that_are_given_back_go_to_whoever_asked_next(tmp_path: Path) -> None:
    async def scenario(line: Line) -> None:
        reads = SlowReads(line.broker)
        publish(line.broker, "t", *[b"x" * 1000] * POLLS)
        line.start(limit=1000, max_bytes=1)  # all are on their way to it, and it keeps one
        await reads.has_begun.wait()
        for _ in range(POLLS - 1):
            await line.ask()
        reads.may_end.set()
        await line.have_been(POLLS)
        assert line.served == list(range(POLLS))

    played(tmp_path, scenario, polls=0)


def test_messages_of_a_read_that_came_to_nothing_go_to_whoever_waits(tmp_path: Path) -> None:
    async def scenario(line: Line) -> None:
        reads = SlowReads(line.broker)
        publish(line.broker, "t", b"x")
        failing = line.start()
        await reads.has_begun.wait()
        await line.ask()
        failing.cancel()
        await line.have_been(1)
        assert line.served == [1]

    played(tmp_path, scenario, polls=0)


def test_after_its_source_is_another_one_those_who_waited_come_first(tmp_path: Path) -> None:
    async def scenario(line: Line) -> None:
        read_at(line.broker)
        for _ in range(POLLS):
            await line.ask()
        read_at(line.broker)
        publish(line.broker, "t", b"a", b"b")  # nobody is told of them
        await line.ask(max_wait_ms=0)
        await line.have_been(2)
        assert line.served == [0, 1]

    played(tmp_path, scenario, polls=0)


def read_at(broker: Broker) -> None:
    """Let groups read another source from now on."""
    sources: Any = broker.queues.sources
    source = SameLog(broker)
    sources.of = sources.find = lambda _place: source


class SameLog:
    """Another source of the same messages, which tells nobody of new ones."""

    def __init__(self, broker: Broker) -> None:
        self._partition = broker.partitions.partition(PLACE)
        self._waiters = Waiters()
        self.lanes = LaneIndex()
        self.lanes.advance_to(2)

    def waiters_for(self, _isolation: Any) -> Waiters:
        return self._waiters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partition, name)


def test_whoever_has_asked_earlier_comes_first_also_when_it_was_heard_of_later(
    tmp_path: Path,
) -> None:
    async def scenario(line: Line) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        for number, asked_s in enumerate((started - 1, started - 3, started - 2)):
            task = line.broker.deliverer.acquire(
                QueueMember("g", f"m{number}", Mode.SHARED),
                [PLACE],
                limit=1,
                max_wait_ms=LONG_MS,
                max_bytes=1 << 20,
                grant=lambda wanted: wanted,
                asked_s=asked_s,
            )

            async def polled(number: int = number, task: Any = task) -> None:
                assert await task
                line.served.append(number)

            line.tasks.append(loop.create_task(polled()))
            await asyncio.sleep(0)
        for _ in range(3):
            await line.store()
        assert line.served == [1, 2, 0]

    played(tmp_path, scenario, polls=0)


def test_one_that_goes_before_its_turn_holds_up_nobody() -> None:
    async def scenario() -> None:
        order = TurnOrder()
        first, second, third = (Place(order, float(asked)) for asked in range(3))
        for each in (first, second):
            each.begin(1)
            order.add(each)
        order.wake()
        waiting = asyncio.ensure_future(third.turn())
        await asyncio.sleep(0)
        first.leave()
        await asyncio.sleep(0)
        assert not waiting.done()
        second.leave()
        await waiting
        assert not third.must_wait

    asyncio.run(scenario())

"""Messages handed over to whoever leads their partition: once, whatever is still under way."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from goqueue.client.link.addresses import Address
from goqueue.client.link.connection import Connection
from goqueue.client.settings import ClientSettings
from goqueue.model.errors import (
    BatchTooLargeError,
    FencedProducerError,
    HandoverUnknownError,
    LeaderUnavailableError,
    PeerUnavailableError,
    UnknownTopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.internal.handover import HandoverApi
from goqueue.protocols.kafka.registry import Registry
from goqueue.protocols.kafka.settings import ListenerSettings
from goqueue.publishing.handover import Handover
from goqueue.publishing.remote_target import RemoteTarget
from goqueue.records import Record
from goqueue.runtime.byte_room import ByteRoom
from support.cluster_brokers import OneOfThree, one_of_three
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from goqueue.publishing.handover import Target
    from goqueue.wire.kafka.api_keys import ApiKey

HANDOVER = Handover(7000)
PLACE = TopicPartition("t", 0)


class Dialled:
    """One connection to the node, in place of all that a node has to others."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.is_lost = False

    async def ask(self, _node: int, api: ApiKey, version: int, /, **fields: Any) -> Any:
        address = Address("127.0.0.1", self._port)
        connection = Connection(address, ClientSettings(call_timeout_ms=5000))
        await asyncio.get_running_loop().create_connection(
            lambda: connection, address.host, address.port
        )
        try:
            answer = await connection.ask(api, version, **fields)
        finally:
            connection.close()
        if self.is_lost:
            raise PeerUnavailableError("the answer was lost")
        return answer


class Stage:
    """A partition that node 1 leads, seen from there and from another node."""

    def __init__(self, node: OneOfThree, dialled: Any) -> None:
        self.node = node
        self.dialled = dialled
        self.topic_id = node.broker.topics.catalogue.topic("t").topic_id
        self.room = ByteRoom(4 << 20)

    def target(self, where: str) -> Target:
        if where == "here":
            return self.node.broker.targets.of(PLACE)
        return RemoteTarget(PLACE, self.topic_id, 1, self.dialled, self.room)

    @property
    def partition(self) -> Any:
        return self.node.broker.partitions.partition(PLACE)

    def commit(self) -> None:
        self.node.commit_all("t")


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    async with one_of_three(folder) as node:
        await node.topic("t", (1, 2, 3))
        broker = node.broker
        registry = Registry(HandoverApi(broker.topics, broker.targets))
        listener = Listener(registry, ListenerSettings(port=0))
        await listener.start()
        try:
            yield Stage(node, Dialled(listener.port))
        finally:
            await listener.stop(0.1)


def batch(*values: bytes, sequence: int = 0, handover: Handover = HANDOVER) -> bytearray:
    records = [Record(at, 1000, None, value) for at, value in enumerate(values)]
    return handover.batch(records, sequence)


async def soon(stage: Stage, waiting: asyncio.Task[Any]) -> Any:
    """What a call gives once the followers have fetched everything."""
    for _ in range(500):
        await asyncio.sleep(0.002)
        if waiting.done():
            break
        stage.commit()
    return await waiting


WHERE = pytest.mark.parametrize("where", ["here", "elsewhere"])


@WHERE
def test_a_batch_is_there_to_stay_when_the_append_returns(tmp_path: Path, where: str) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            target = it.target(where)
            assert await target.position(HANDOVER) == (0, 0)
            appending = asyncio.ensure_future(target.append(batch(b"a", b"b")))
            await asyncio.sleep(0.05)
            assert not appending.done()
            placed = await soon(it, appending)
            assert placed[:2] == (0, 2)
            assert it.partition.high_watermark == 2
            assert await target.position(HANDOVER) == (2, 2)

    asyncio.run(main())


@WHERE
def test_what_is_found_is_committed(tmp_path: Path, where: str) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            target = it.target(where)
            lost = asyncio.ensure_future(target.append(batch(b"a")))
            await asyncio.sleep(0.05)
            looking = asyncio.ensure_future(target.found(7000, 0, 0))
            await asyncio.sleep(0.05)
            assert not looking.done()  # a leader may still lose what nobody else has
            assert await soon(it, looking) == {0}
            await lost

    asyncio.run(main())


@WHERE
def test_a_batch_that_was_not_found_cannot_arrive_later(tmp_path: Path, where: str) -> None:
    """The request of an earlier leader may still be under way when its intention is resolved."""

    async def main() -> None:
        async with stage(tmp_path) as it:
            target = it.target(where)
            assert await soon(it, asyncio.ensure_future(target.found(7000, 0, 0))) == set()
            with pytest.raises(FencedProducerError):
                await target.append(batch(b"late"))
            following = batch(b"a", handover=Handover(7000, 1))
            await soon(it, asyncio.ensure_future(target.append(following)))
            again = asyncio.ensure_future(target.found(7000, 1, 0))
            assert await soon(it, again) == {0}
            assert it.partition.message_count == 1

    asyncio.run(main())


def test_a_leader_elsewhere_refuses_by_the_same_errors(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            target = it.target("elsewhere")
            large = batch(bytes(2_000_000))
            with pytest.raises(BatchTooLargeError):
                await target.publish(large, delivery=False, traced=False)
            gone = RemoteTarget(PLACE, type(it.topic_id)(int=5), 1, it.dialled, it.room)
            with pytest.raises(UnknownTopicError):
                await gone.position(HANDOVER)
            await it.node.broker.partitions.follow(PLACE, 2, 5)
            with pytest.raises(LeaderUnavailableError):
                await target.position(HANDOVER)

    asyncio.run(main())


def test_a_lost_answer_is_not_taken_for_a_refusal(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            target = it.target("elsewhere")
            it.dialled.is_lost = True
            with pytest.raises(HandoverUnknownError):
                await soon(it, asyncio.ensure_future(target.append(batch(b"a"))))
            it.dialled.is_lost = False
            assert await soon(it, asyncio.ensure_future(target.found(7000, 0, 0))) == {0}

    asyncio.run(main())


def test_a_leader_that_is_deposed_does_not_say_what_was_stored(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            target = it.target("here")
            appending = asyncio.ensure_future(target.append(batch(b"a")))
            await asyncio.sleep(0.02)
            await it.node.broker.partitions.follow(PLACE, 2, 5)
            with pytest.raises(HandoverUnknownError):
                await appending

    asyncio.run(main())


class Slow:
    """A node that answers when the test lets it."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Any]] = []

    async def ask(self, *_args: Any, **_fields: Any) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self.asked.append(answer)
        return await answer


def test_what_is_on_its_way_to_a_slow_leader_is_bounded() -> None:
    async def main() -> None:
        slow, room = Slow(), ByteRoom(500_000)
        targets = [
            RemoteTarget(TopicPartition("t", number), UUID(int=1), 2, slow, room)  # type: ignore[arg-type]  # it asks, no more
            for number in range(5)
        ]
        moving = [asyncio.ensure_future(each.append(batch(bytes(100_000)))) for each in targets]
        await until(lambda: len(slow.asked) == 2)
        assert 400_000 < room.held_bytes <= 500_000, "each is held in the request, too"
        assert not targets[4].has_room
        moving.pop(2).cancel()  # its turn would be the next
        for count in range(4):
            await until(lambda: len(slow.asked) > count)  # noqa: B023 - waited for here
            assert room.held_bytes <= 500_000
            slow.asked[count].set_exception(PeerUnavailableError("it is gone"))
        for each in moving:
            with pytest.raises(HandoverUnknownError):
                await each
        assert (len(slow.asked), room.held_bytes) == (4, 0)
        assert targets[4].has_room

    asyncio.run(main())

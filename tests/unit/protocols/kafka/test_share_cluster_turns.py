"""Turns of share consumers that the leader of a partition asks of another node."""

from __future__ import annotations

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import (
    CoordinatorUnavailableError,
    ForeignReceiptError,
    GroupNotFoundError,
    PeerUnavailableError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.share.cluster_turns import ClusterTurns
from goqueue.protocols.kafka.share.node_turns import ShareTurnsApi
from goqueue.protocols.kafka.share.turn_wire import request_of, turn_of
from goqueue.queues.delivery.decisions import Verdict
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.queues.share.acknowledging import AcknowledgedOffsets
from goqueue.queues.share.turns import Acquiring, Closing, ShareTurn
from goqueue.records import walk
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of
from support.brokers import publish, running_broker
from support.linked import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.share.turns import Taken

PLACE = TopicPartition("t", 0)
HERE, THERE = 1, 2
ANYONE: Any = None


class Coordinating:
    """The broker that coordinates the group, asked over the wire that nodes have."""

    def __init__(self, broker: Broker) -> None:
        self.api = ShareTurnsApi(broker)
        self.faults: deque[str] = deque()
        """What becomes of the next calls: `unheard`, `unanswered`, or nothing unusual."""
        self.calls = 0

    async def ask(
        self, node_id: int, api: ApiKey, version: int, /, wait_s: float = 0.0, **fields: Any
    ) -> Any:
        assert (node_id, api) == (THERE, ApiKey.SHARE_TURN)
        self.calls += 1
        fault = self.faults.popleft() if self.faults else ""
        if fault == "unheard":
            raise PeerUnavailableError("cut")
        request = _copied(fields, api, "request")
        answer = _copied(await self.api.take(ANYONE, request), api, "response")
        if fault == "unanswered":
            raise PeerUnavailableError("cut")
        return answer


def _copied(fields: Any, api: ApiKey, direction: Any) -> Any:
    schema, data = schema_of(api, 0, direction), bytearray()
    writer_of(schema)(data, fields)
    return reader_of(schema)(Cursor(memoryview(bytes(data))))


class Leading:
    """The broker that leads the partition: the same one, which says that another coordinates."""

    def __init__(self, broker: Broker, peer: Coordinating) -> None:
        self._broker = broker
        self.coordinator: int | None = THERE
        self.routes = SimpleNamespace(node_id=HERE, peers=peer)
        self.groups = self

    def coordinator_of(self, _group_id: str) -> int:
        if self.coordinator is None:
            raise CoordinatorUnavailableError("nobody leads it")
        return self.coordinator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


def shared(tmp_path: Path, scenario: Callable[..., Any]) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            await broker.queues.join("g", QueueSettings())
            peer = Coordinating(broker)
            leader: Any = Leading(broker, peer)
            await asyncio.wait_for(scenario(broker, peer, leader, ClusterTurns(leader)), 60)

    asyncio.run(main())


def acquiring(limit: int = 100, max_wait_ms: int = 0, max_bytes: int = 1 << 20) -> Acquiring:
    return Acquiring([PLACE], limit, max_wait_ms, max_bytes, False, 1)


def saying(*said: tuple[int, int, Verdict], **others: Any) -> ShareTurn:
    return ShareTurn("g", "m", {PLACE: [AcknowledgedOffsets(*each) for each in said]}, **others)


def everything(wanted: int) -> int:
    return wanted


def ranges(taken: Taken) -> list[tuple[int, int, int]]:
    return [each for shared_ in taken.found.values() for each in shared_.acquired]


def states(broker: Broker, count: int) -> str:
    (queue,) = broker.queues.group("g").queues.values()
    return "".join(queue.window.state(offset).name[0] for offset in range(count))


def test_the_leader_sends_its_own_batches_for_the_ranges_that_it_is_told(tmp_path: Path) -> None:
    async def scenario(broker: Broker, peer: Any, leader: Any, turns: ClusterTurns) -> None:
        for _ in range(2):
            publish(broker, "t", b"a", b"b", b"c")
        taken = await turns.take(ShareTurn("g", "m", acquiring=acquiring(4)), everything)
        (found,) = taken.found.values()
        assert found.acquired == [(0, 2, 1), (3, 3, 1)]
        bases = [info.base_offset for data in found.records for _, info in walk(data)]
        assert bases == [0, 3]
        assert found.leader == (HERE, broker.partitions.partition(PLACE).leader_epoch)
        assert taken.lock_ms == broker.queues.group("g").settings.visibility_ms
        assert states(broker, 6) == "IIIIAA"

    shared(tmp_path, scenario)


def test_acknowledgements_are_stored_before_more_is_handed_out(tmp_path: Path) -> None:
    async def scenario(broker: Broker, peer: Any, leader: Any, turns: ClusterTurns) -> None:
        publish(broker, "t", b"a", b"b", b"c", b"d")
        await turns.take(ShareTurn("g", "m", acquiring=acquiring(2)), everything)
        turn = saying((0, 0, Verdict.ACK), (1, 1, Verdict.RELEASE), acquiring=acquiring(1))
        taken = await turns.take(turn, everything)
        assert taken.outcomes == {PLACE: None}
        assert ranges(taken) == [(1, 1, 2)]
        assert states(broker, 4) == "SIAA"
        refused = await turns.take(saying((0, 0, Verdict.ACK)), everything)
        assert isinstance(refused.outcomes[PLACE], ForeignReceiptError)

    shared(tmp_path, scenario)


def test_what_the_leader_has_no_memory_for_goes_back_as_if_never_delivered(tmp_path: Path) -> None:
    async def scenario(broker: Broker, peer: Any, leader: Any, turns: ClusterTurns) -> None:
        for _ in range(3):
            publish(broker, "t", b"x" * 1000)
        taken = await turns.take(ShareTurn("g", "m", acquiring=acquiring()), lambda _: 1)
        assert ranges(taken) == [(0, 0, 1)]
        await asyncio.gather(*turns._returning)
        assert states(broker, 3) == "IAA"
        taken = await turns.take(ShareTurn("g", "m", acquiring=acquiring()), everything)
        assert ranges(taken) == [(1, 1, 1), (2, 2, 1)]

    shared(tmp_path, scenario)


def test_a_session_that_ends_gives_back_what_it_had_of_partitions_led_here(tmp_path: Path) -> None:
    async def scenario(broker: Broker, peer: Any, leader: Any, turns: ClusterTurns) -> None:
        publish(broker, "t", b"a", b"b")
        await turns.take(ShareTurn("g", "m", acquiring=acquiring()), everything)
        key = broker.queues.key(PLACE)
        assert turns.closing([key]) == Closing((key,))
        await turns.take(ShareTurn("g", "m", closing=Closing(())), everything)
        assert states(broker, 2) == "II"
        await turns.take(ShareTurn("g", "m", closing=Closing((key,))), everything)
        assert states(broker, 2) == "AA"

    shared(tmp_path, scenario)


@pytest.mark.parametrize("fault", ["unheard", "unanswered"])
def test_an_ack_counts_once_whether_its_request_or_its_answer_was_lost(
    tmp_path: Path, fault: str
) -> None:
    async def scenario(broker: Broker, peer: Any, leader: Any, turns: ClusterTurns) -> None:
        publish(broker, "t", b"a", b"b")
        await turns.take(ShareTurn("g", "m", acquiring=acquiring()), everything)
        peer.faults.append(fault)
        taken = await turns.take(saying((0, 0, Verdict.ACK)), everything)
        assert taken.outcomes == {PLACE: None}
        assert states(broker, 2) == "SI"
        assert peer.calls == 3

    shared(tmp_path, scenario)


def test_a_turn_waits_for_a_coordinator_and_goes_where_it_is(tmp_path: Path) -> None:
    async def scenario(broker: Broker, peer: Any, leader: Any, turns: ClusterTurns) -> None:
        publish(broker, "t", b"a")
        leader.coordinator = None
        turn = ShareTurn("g", "m", acquiring=acquiring(max_wait_ms=20_000))
        waiting = asyncio.create_task(turns.take(turn, everything))
        await asyncio.sleep(0.05)
        leader.coordinator = HERE  # then nobody else is asked
        assert ranges(await waiting) == [(0, 0, 1)]
        assert peer.calls == 0

    shared(tmp_path, scenario)


def test_without_a_coordinator_there_is_nothing_to_send_and_acks_are_told_to_have_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.protocols.kafka.share.cluster_turns._SETTLE_S", 0.05)

    async def scenario(broker: Broker, peer: Any, leader: Any, turns: ClusterTurns) -> None:
        leader.coordinator = None
        taken = await turns.take(ShareTurn("g", "m", acquiring=acquiring()), everything)
        assert (taken.outcomes, taken.found) == ({}, {})
        taken = await turns.take(saying((0, 0, Verdict.ACK), acquiring=acquiring()), everything)
        assert isinstance(taken.outcomes[PLACE], CoordinatorUnavailableError)

    shared(tmp_path, scenario)


def test_a_call_is_given_up_when_the_coordinator_moves(tmp_path: Path) -> None:
    async def scenario(broker: Broker, peer: Any, leader: Any, turns: ClusterTurns) -> None:
        turn = ShareTurn("g", "m", acquiring=acquiring(max_wait_ms=30_000))
        waiting = asyncio.create_task(turns.take(turn, everything))
        await until(lambda: peer.calls)
        leader.coordinator = HERE
        publish(broker, "t", b"a")
        assert ranges(await waiting) == [(0, 0, 1)]

    shared(tmp_path, scenario)


def test_errors_of_the_coordinator_keep_their_class(tmp_path: Path) -> None:
    async def scenario(broker: Broker, peer: Any, leader: Any, turns: ClusterTurns) -> None:
        unknown = ShareTurn("nobody", "m", acquiring=acquiring(), must_exist=True)
        with pytest.raises(GroupNotFoundError, match="nobody"):
            await turns.take(unknown, everything)

    shared(tmp_path, scenario)


RANGES = st.lists(
    st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.sampled_from(Verdict)), max_size=3
)


@given(RANGES, st.booleans(), st.booleans(), st.booleans())
def test_a_turn_arrives_as_it_was_sent(
    said: list[tuple[int, int, Verdict]], in_doubt: bool, closes: bool, wants: bool
) -> None:
    keys = {PLACE: (UUID(int=7), 0)}
    turn = ShareTurn(
        "g",
        "m",
        {PLACE: [AcknowledgedOffsets(*each) for each in said]} if said else {},
        in_doubt,
        Closing((keys[PLACE],)) if closes else None,
        wants,
        acquiring() if wants else None,
    )
    request = _copied(request_of(turn, keys.__getitem__), ApiKey.SHARE_TURN, "request")
    assert turn_of(request, {key: place for place, key in keys.items()}.__getitem__).turn == turn


def test_verdicts_have_the_numbers_that_nodes_know_them_by() -> None:
    assert list(Verdict) == ["ack", "nack", "release", "reject", "extend", "return"]

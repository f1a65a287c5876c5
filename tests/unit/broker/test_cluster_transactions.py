"""Transactions on one node of a cluster; the test answers for the two others."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.cluster.records import PartitionRecord
from goqueue.model.errors import (
    FencedProducerError,
    NotTransactionCoordinatorError,
    PeerUnavailableError,
    TransactionCoordinatorLoadingError,
    TransactionCoordinatorUnavailableError,
    UnknownProducerError,
)
from goqueue.model.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.records import TRANSACTIONAL, Record, encode, peek
from goqueue.records.batch import stamp
from goqueue.transactions.cluster.service import ClusterTransactions
from goqueue.transactions.messages import Identity, InitRequest
from goqueue.transactions.states import TransactionState
from goqueue.transactions.transaction import Transaction
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from support.cluster_brokers import OneOfThree, one_of_three
from support.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goqueue.partitions.partition import Partition

HERE = TopicPartition("t", 0)
ELSEWHERE = TopicPartition("t", 1)
PRODUCER = Identity(7, 0)


_OURS = {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.WRITE_TXN_MARKERS, ApiKey.FIND_PRODUCERS}


class OtherNodes:
    """What nodes 2 and 3 answer; what they are asked about transactions is kept."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ApiKey, dict[str, Any]]] = []
        self.answers: dict[ApiKey, Callable[..., Any]] = {}

    async def ask(
        self, node_id: int, api: ApiKey, _version: int, /, wait_s: float = 0.0, **fields: Any
    ) -> Any:
        del wait_s
        if api in _OURS:
            self.asked.append((node_id, api, fields))
        await asyncio.sleep(0)
        answer = self.answers.get(api)
        if answer is None:
            raise PeerUnavailableError(f"node {node_id} is away")
        found = answer(node_id, **fields)
        return await found if asyncio.iscoroutine(found) else found


def _found(*shards: int, **producer: Any) -> SimpleNamespace:
    known = [SimpleNamespace(**producer)] if producer else []
    return SimpleNamespace(
        shards=[SimpleNamespace(number=each) for each in shards], producers=known
    )


def _added(code: ErrorCode) -> SimpleNamespace:
    part = SimpleNamespace(partition_error_code=code)
    result = SimpleNamespace(topic_results=[SimpleNamespace(results_by_partition=[part])])
    return SimpleNamespace(error_code=0, results_by_transaction=[result])


def _marked(code: ErrorCode) -> Callable[..., Any]:
    def answer(_: int, markers: list[dict[str, Any]]) -> SimpleNamespace:
        return SimpleNamespace(
            markers=[
                SimpleNamespace(
                    topics=[
                        SimpleNamespace(
                            name=topic["name"],
                            partitions=[
                                SimpleNamespace(partition_index=number, error_code=code)
                                for number in topic["partition_indexes"]
                            ],
                        )
                        for topic in marker["topics"]
                    ]
                )
                for marker in markers
            ]
        )

    return answer


def _service(made: OneOfThree) -> ClusterTransactions:
    transactions = made.broker.transactions
    assert isinstance(transactions, ClusterTransactions)
    return transactions


async def _started(made: OneOfThree, *leaders: int) -> OtherNodes:
    """Topic `t` with a partition here and one on node 2; ids are coordinated by `leaders`."""
    others = OtherNodes()
    made.broker.routes.connect(others)  # type: ignore[arg-type] # only `ask` is used
    await made.topic("t", (1, 2, 3), (2, 1, 3))
    await made.offsets_topic(1)
    await made.internal_topic(TRANSACTION_STATE, *leaders)
    return others


def _partition(made: OneOfThree) -> Partition:
    return made.broker.partitions.partition(HERE)


def _batch(identity: Identity = PRODUCER, sequence: int = 0) -> bytearray:
    return encode(
        [Record(0, 1, b"k", b"v")],
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL,
    )


async def _produce(made: OneOfThree, sequence: int = 0, identity: Identity = PRODUCER) -> ErrorCode:
    data = [{"index": 0, "records": _batch(identity, sequence)}]
    answer = await made.ask(
        ApiKey.PRODUCE,
        11,
        transactional_id="tx",
        acks=1,
        timeout=1000,
        topic_data=[{"name": "t", "partition_data": data}],
    )
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def _until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come to be")


# --- Refusals ---


async def _initialised(service: ClusterTransactions, asked: InitRequest) -> Identity:
    while True:
        with suppress(TransactionCoordinatorUnavailableError):  # it loads what is there
            return await service.init_producer(asked)
        await asyncio.sleep(0.01)


@scenario
async def test_a_producer_is_not_called_fenced_before_its_successor_is_committed(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        await _started(made, 1)
        service, asked = _service(made), InitRequest(transactional_id="tx", timeout_ms=60_000)
        async with made.committing(TRANSACTION_STATE):
            first = await _initialised(service, asked)
        second = asyncio.ensure_future(service.init_producer(asked))
        await asyncio.sleep(0.05)
        refused = asyncio.ensure_future(service.begin("tx", first))
        await asyncio.sleep(0.1)
        assert not second.done()
        assert not refused.done()
        async with made.committing(TRANSACTION_STATE):
            await second
            with pytest.raises(FencedProducerError):
                await refused


# --- The first batch of a transaction ---


@scenario
async def test_the_first_batch_is_verified_at_the_coordinator_and_later_ones_follow(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2)
        others.answers[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda *_, **__: _added(ErrorCode.none)
        assert await _produce(made, 0) is ErrorCode.none
        assert await _produce(made, 1) is ErrorCode.none
        ((node, api, fields),) = others.asked
        assert (node, api) == (2, ApiKey.ADD_PARTITIONS_TO_TXN)
        (asked,) = fields["transactions"]
        assert asked["verify_only"] is True
        assert (asked["transactional_id"], asked["producer_id"]) == ("tx", 7)
        assert asked["topics"] == [{"name": "t", "partitions": [0]}]


@scenario
async def test_a_batch_that_comes_after_its_transaction_is_refused_and_not_stored(
    tmp_path: Path,
) -> None:
    """Stored, it would open a transaction that nobody ends."""
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2)
        for code, told in (
            (ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable),
            (ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_producer_id_mapping),
            (ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
            (ErrorCode.not_coordinator, ErrorCode.not_enough_replicas),
        ):
            others.answers[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda *_, code=code, **__: _added(code)
            assert await _produce(made) is told, code
        del others.answers[ApiKey.ADD_PARTITIONS_TO_TXN]
        assert await _produce(made) is ErrorCode.not_enough_replicas, "try again"
        assert _partition(made).log_end == 0


@scenario
async def test_a_marker_that_comes_while_a_batch_is_verified_keeps_the_batch_out(
    tmp_path: Path,
) -> None:
    """The coordinator has let it in, and ended the transaction since."""
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2)

        def answer(*_: Any, **__: Any) -> Any:
            _partition(made).append_marker(Marker.COMMIT, *PRODUCER, 0)
            return _added(ErrorCode.none)

        others.answers[ApiKey.ADD_PARTITIONS_TO_TXN] = answer
        assert await _produce(made) is ErrorCode.not_enough_replicas
        assert _partition(made).transactions.first_of(7) is None


@scenario
async def test_batches_of_a_producer_keep_their_order_behind_the_one_that_is_verified(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2)
        asked = asyncio.Event()

        async def answer(*_: Any, **__: Any) -> Any:
            await asked.wait()
            return _added(ErrorCode.none)

        others.answers[ApiKey.ADD_PARTITIONS_TO_TXN] = answer
        first = asyncio.ensure_future(_produce(made, 0))
        await _until(lambda: bool(others.asked))
        later = [asyncio.ensure_future(_produce(made, n)) for n in (1,)]
        await asyncio.sleep(0.05)
        assert _partition(made).log_end == 0
        asked.set()
        codes = await asyncio.gather(first, *later)
        assert codes == [ErrorCode.none] * 2
        assert len(others.asked) == 1


# --- Offsets in transactions ---


async def _stage(made: OneOfThree, version: int = 3) -> ErrorCode:
    offset = {
        "partition_index": 0,
        "committed_offset": 5,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    answer = await made.ask(
        ApiKey.TXN_OFFSET_COMMIT,
        version,
        transactional_id="tx",
        producer_id=7,
        producer_epoch=0,
        group_id="g",
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": "t", "partitions": [offset]}],
    )
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@scenario
async def test_offsets_are_staged_where_the_group_is_once_the_other_coordinator_agrees(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2)
        await made.loaded("g")
        async with made.committing(CONSUMER_OFFSETS):
            for version, is_verified in ((3, True), (5, False)):
                others.answers[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda *_, **__: _added(
                    ErrorCode.none
                )
                assert await _stage(made, version) is ErrorCode.none
                (asked,) = others.asked[-1][2]["transactions"]
                assert asked["verify_only"] is is_verified
                assert asked["topics"] == [{"name": CONSUMER_OFFSETS, "partitions": [0]}]
            coordinator = made.broker.groups.coordinator("g")
            assert coordinator.transactions == {7: {"g"}}
            assert await _write_marker(made, 3, CONSUMER_OFFSETS) is ErrorCode.none
            committed = coordinator.fetch_offsets("g")[HERE]
            assert getattr(committed, "offset", None) == 5
            refused = ErrorCode.invalid_txn_state
            others.answers[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda *_, **__: _added(refused)
            assert await _stage(made) is refused
            assert coordinator.transactions == {}


@scenario
async def test_offsets_that_were_verified_before_their_transaction_ended_are_not_staged(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2)
        await made.loaded("g")

        async def answer(*_: Any, **__: Any) -> Any:
            await made.broker.groups.complete_transaction(0, 7, 0, commit=True)
            return _added(ErrorCode.none)

        others.answers[ApiKey.ADD_PARTITIONS_TO_TXN] = answer
        async with made.committing(CONSUMER_OFFSETS):
            assert await _stage(made) is ErrorCode.coordinator_not_available
        assert made.broker.groups.coordinator("g").transactions == {}


# --- What hangs ---


async def _hanging(made: OneOfThree) -> None:
    """An open transaction in the partition here that has been there for too long."""
    partition = _partition(made)
    batch = _batch()
    partition.append(batch, peek(batch))
    made.commit_all("t")
    await _service(made)._hanging.check()
    made.broker.clock.advance(15 * 60_000 + 1)  # type: ignore[attr-defined] # of the test


@scenario
async def test_a_transaction_that_another_node_coordinates_is_left_alone(tmp_path: Path) -> None:
    """Aborted by whoever does not know it, it would be torn: its coordinator commits the rest."""
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2, 1, 3)
        await _hanging(made)
        place = SimpleNamespace(topic="t", partition_index=0)
        known = {"transactional_id": "tx", "producer_id": 7, "is_open": True}
        others.answers[ApiKey.FIND_PRODUCERS] = lambda node, **_: (
            _found(0, **known, partitions=[place]) if node == 2 else _found(2)
        )
        await _until(lambda: 1 in _service(made).find_here([]).shards)
        assert await _service(made)._hanging.check() == 0
        assert _partition(made).transactions.first_of(7) == 0


@scenario
async def test_a_transaction_stays_while_one_coordinator_has_not_answered(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2, 1, 3)
        await _hanging(made)
        assert await _service(made)._hanging.check() == 0, "nobody answers"
        others.answers[ApiKey.FIND_PRODUCERS] = lambda node, **_: _found(
            *({2} if node == 3 else ())
        )
        assert await _service(made)._hanging.check() == 0, "node 2 is still loading"
        assert _partition(made).transactions.first_of(7) == 0


@scenario
async def test_what_every_coordinator_disowns_is_aborted(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2, 1, 3)
        await _hanging(made)
        others.answers[ApiKey.FIND_PRODUCERS] = lambda node, **_: _found(0 if node == 2 else 2)
        await _until(lambda: 1 in _service(made).find_here([]).shards)
        async with made.committing("t"):
            assert await _service(made)._hanging.check() == 1
        assert _partition(made).transactions.first_of(7) is None
        assert list(_partition(made).transactions.aborted_between(0, 1)) == [(7, 0)]


# --- Ends ---


async def _prepared(made: OneOfThree) -> None:
    """The coordinator on node 2 has stored a decision, and dies before it has sent a marker."""
    batch = _batch()
    _partition(made).append(batch, peek(batch))
    decided = Transaction(
        "tx",
        *PRODUCER,
        60_000,
        state=TransactionState.PREPARE_COMMIT,
        partitions={HERE, ELSEWHERE},
        started_ms=1,
        updated_ms=2,
    )
    entry = encode([Record(0, 5, *decided.stored())])
    stamp(entry, 0, 0, 0)
    replica = made.broker.partitions.replica(TopicPartition(TRANSACTION_STATE, 0))
    assert replica is not None
    replica.append_replica(bytes(entry))


@scenario
async def test_the_next_coordinator_finishes_what_was_decided(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2)
        others.answers[ApiKey.WRITE_TXN_MARKERS] = _marked(ErrorCode.not_leader_or_follower)
        await _prepared(made)
        topic = made.broker.topics.catalogue.topic(TRANSACTION_STATE)
        async with made.committing("t", TRANSACTION_STATE):
            await made.place(topic, 0, PartitionRecord((2, 1, 3), (1, 3), 1, 4))
            await _until(lambda: len(others.asked) > 1)
            assert _partition(made).transactions.first_of(7) is None, "its marker is there"
            state = _service(made).describe("tx").state
            assert state == "PrepareCommit", "node 2 has not answered"
            others.answers[ApiKey.WRITE_TXN_MARKERS] = _marked(ErrorCode.none)
            await _until(lambda: _service(made).describe("tx").state == "CompleteCommit")
            await _service(made).told(lambda: None)
        node, _, fields = others.asked[-1]
        (marker,) = fields["markers"]
        assert node == 2
        assert marker["coordinator_epoch"] == 4, "the epoch in which it leads"
        assert marker["transaction_result"] is True
        assert marker["topics"] == [{"name": "t", "partition_indexes": [1]}]
        assert _partition(made).sequences.coordinator_epoch_of(7) == 4


@scenario
async def test_a_coordinator_that_has_lost_its_ids_sends_no_more_markers(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2)
        others.answers[ApiKey.WRITE_TXN_MARKERS] = _marked(ErrorCode.not_leader_or_follower)
        await _prepared(made)
        topic = made.broker.topics.catalogue.topic(TRANSACTION_STATE)
        async with made.committing("t", TRANSACTION_STATE):
            await made.place(topic, 0, PartitionRecord((2, 1, 3), (1, 3), 1, 4))
            await _until(lambda: bool(others.asked))
            await made.place(topic, 0, PartitionRecord((2, 1, 3), (1, 3), 3, 5))
            await _until(lambda: not _service(made)._ends._ending)
        with pytest.raises(NotTransactionCoordinatorError):
            _service(made).describe("tx")


async def _write_marker(made: OneOfThree, coordinator_epoch: int, topic: str = "t") -> ErrorCode:
    answer = await made.ask(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        markers=[
            {
                "producer_id": 7,
                "producer_epoch": 0,
                "transaction_result": True,
                "coordinator_epoch": coordinator_epoch,
                "topics": [{"name": topic, "partition_indexes": [0]}],
            }
        ],
    )
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("topic", ["t", CONSUMER_OFFSETS])
def test_a_late_marker_of_an_old_coordinator_is_refused(tmp_path: Path, topic: str) -> None:
    @scenario
    async def run() -> None:
        async with one_of_three(tmp_path) as made:
            await _started(made, 2)
            await made.loaded("g")
            async with made.committing("t", CONSUMER_OFFSETS):
                assert await _write_marker(made, 6, topic) is ErrorCode.none
                fenced = ErrorCode.transaction_coordinator_fenced
                assert await _write_marker(made, 5, topic) is fenced
                assert await _write_marker(made, 6, topic) is ErrorCode.none

    run()


# --- Who coordinates what ----------------------------------------------------------------------


@scenario
async def test_a_transactional_id_is_asked_for_at_the_leader_of_its_partition(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        await _started(made, 2)
        assert _service(made).coordinator_of("tx") == 2
        answer = await made.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["tx"])
        assert [each.node_id for each in answer.coordinators] == [2]
        request = InitRequest(transactional_id="tx", timeout_ms=1000)
        with pytest.raises(NotTransactionCoordinatorError):
            await _service(made).init_producer(request)


@scenario
async def test_the_id_of_a_producer_is_found_wherever_it_is_coordinated(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        others = await _started(made, 2, 3)
        service = _service(made)
        with pytest.raises(TransactionCoordinatorUnavailableError, match="not every one"):
            await service.coordinator_of_producer(7)
        others.answers[ApiKey.FIND_PRODUCERS] = lambda node, **_: _found(node - 2)
        with pytest.raises(UnknownProducerError):
            await service.coordinator_of_producer(7)
        known = {"transactional_id": "tx", "producer_id": 7, "is_open": False, "partitions": []}
        others.answers[ApiKey.FIND_PRODUCERS] = lambda node, **_: _found(
            node - 2, **known if node == 3 else {}
        )
        assert await service.find_id(7) == "tx"
        others.answers.clear()
        assert await service.find_id(7) == "tx", "it is remembered"


@scenario
async def test_a_list_leaves_out_no_ids_that_are_being_loaded(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await _started(made, 2)
        await _prepared(made)
        service, topic = _service(made), made.broker.topics.catalogue.topic(TRANSACTION_STATE)
        async with made.committing("t", TRANSACTION_STATE):
            await made.place(topic, 0, PartitionRecord((2, 1, 3), (1, 3), 1, 4))
            await _until(lambda: bool(service.find_here([]).shards))
            (shard,) = service._family.opened()
            shard.state._load()
            with pytest.raises(TransactionCoordinatorLoadingError):
                await service.listed()
            await shard.state.rebuilt()
            assert [each.transactional_id for each in await service.listed()] == ["tx"]


@scenario
async def test_lists_tell_what_is_committed_and_nothing_else(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await _started(made, 1)
        service = _service(made)
        await _until(lambda: bool(service.find_here([]).shards))
        request = InitRequest(transactional_id="tx", timeout_ms=1000)
        asking = asyncio.ensure_future(service.init_producer(request))
        await asyncio.sleep(0.05)
        listing = asyncio.ensure_future(service.listed())
        done, _ = await asyncio.wait([asking, listing], timeout=0.05)
        assert not done, "a follower may never get it"
        made.commit_all(TRANSACTION_STATE)
        assert [each.transactional_id for each in await listing] == ["tx"]
        assert (await asking).epoch == 0

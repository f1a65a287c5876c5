"""Transactions over gRPC, by the contract alone."""

from __future__ import annotations

import grpc
import pytest
from grpc import aio

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.grpc_node import run


class Producer:
    """A producer that speaks the contract."""

    def __init__(self, node, name="tx"):
        self.service, self.name = node.stubs.transactions, name

    async def start(self):
        request = pb.InitTransactionalProducerRequest(transactional_id=self.name)
        told = await self.service.InitProducer(request)
        self.who = pb.ProducerIdentity(producer_id=told.producer_id, epoch=told.epoch)
        return self

    async def begin(self):
        return await self.service.BeginTransaction(pb.TransactionRequest(producer=self.who))

    async def send(self, *values, topic="t", partition=0, first_sequence=None):
        messages = [pb.NewMessage(value=value, partition=partition) for value in values]
        return await self.service.Publish(
            pb.TransactionalPublishRequest(
                producer=self.who, topic=topic, messages=messages, first_sequence=first_sequence
            )
        )

    async def commit(self):
        return await self.service.CommitTransaction(pb.TransactionRequest(producer=self.who))

    async def abort(self):
        return await self.service.AbortTransaction(pb.AbortTransactionRequest(producer=self.who))


async def _values(node, topic="t", partition=0):
    request = pb.ConsumeRequest(topic=topic, partition=partition, until_end=True)
    found = []
    async for response in node.stubs.consume.Consume(request):
        found += [message.value for message in response.messages]
    return found


def test_messages_count_with_the_commit_and_not_after_an_abort(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 2)
        producer = await Producer(node).start()
        assert (await producer.begin()).state == "Ongoing"
        answer = await producer.send(b"a", b"b")
        assert [result.offset for result in answer.results] == [0, 1]
        assert await _values(node) == []
        assert (await producer.commit()).state == "CompleteCommit"
        await producer.begin()
        await producer.send(b"never")
        assert (await producer.abort()).state == "CompleteAbort"
        assert await _values(node) == [b"a", b"b"]

    run(tmp_path, scenario)


def test_messages_sent_twice_are_recognised_by_their_numbers(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        producer = await Producer(node).start()
        first = await producer.send(b"a", b"b", first_sequence=0)
        again = await producer.send(b"a", b"b", first_sequence=0)
        assert (first.duplicate, again.duplicate) == (False, True)
        await producer.commit()
        assert await _values(node) == [b"a", b"b"]

    run(tmp_path, scenario)


def test_transactions_are_listed_described_and_ended_by_hand(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        producer = await Producer(node).start()
        service = producer.service
        await service.AddPartition(
            pb.AddPartitionRequest(producer=producer.who, topic="t", partition=0)
        )
        found = await service.DescribeTransaction(
            pb.DescribeTransactionRequest(transactional_id="tx")
        )
        assert (found.state, [each.topic for each in found.partitions]) == ("Ongoing", ["t"])
        listed = await service.ListTransactions(pb.ListTransactionsRequest(states=["Ongoing"]))
        assert [each.transactional_id for each in listed.transactions] == ["tx"]
        heard = await service.Heartbeat(pb.TransactionRequest(producer=producer.who))
        assert heard.state == "Ongoing"
        ended = await service.AbortTransaction(pb.AbortTransactionRequest(transactional_id="tx"))
        assert ended.state == "CompleteAbort"

    run(tmp_path, scenario)


BAD = {
    "nobody": (pb.TransactionRequest(), "CommitTransaction", "NOT_FOUND"),
    "an unknown id": (
        pb.DescribeTransactionRequest(transactional_id="absent"),
        "DescribeTransaction",
        "NOT_FOUND",
    ),
    "nobody's id": (
        pb.AbortTransactionRequest(transactional_id="absent"),
        "AbortTransaction",
        "NOT_FOUND",
    ),
    "no id": (pb.InitTransactionalProducerRequest(), "InitProducer", "INVALID_ARGUMENT"),
    "an unknown state": (
        pb.ListTransactionsRequest(states=["Odd"]),
        "ListTransactions",
        "INVALID_ARGUMENT",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_with_a_status(tmp_path, what):
    request, method, status = BAD[what]

    async def scenario(node):
        with pytest.raises(aio.AioRpcError) as refused:
            await getattr(node.stubs.transactions, method)(request)
        assert refused.value.code() is grpc.StatusCode[status]

    run(tmp_path, scenario)

"""AckService: every kind of receipt gets its status, with the error in the trailing metadata."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc
import pytest

from goqueue.publishing.new_messages import NewMessage
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.wire.grpc.contract import ERROR_KEY
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.grpc_node import run

NOT_FOUND = grpc.StatusCode.NOT_FOUND
EXPIRED = grpc.StatusCode.FAILED_PRECONDITION
INVALID = grpc.StatusCode.INVALID_ARGUMENT
FOREIGN = grpc.StatusCode.PERMISSION_DENIED


ODD: Any = 50  # no such value


def played(folder, scenario, count=3, **settings):
    """Play a scenario with messages in a topic, and a member of a queue group."""

    async def main(node):
        await node.broker.create_topic("t", 1)
        await node.broker.writer.publish("t", [NewMessage(b"%d" % n) for n in range(count)])
        member = await (await node.coordinated("g")).queue_members.join(
            "g", ["t"], QueueSettings(mode=Mode.SHARED, **settings)
        )
        await scenario(node, member)

    run(folder, main)


async def receipts(node, member, count=3, **options):
    polled = await node.coordinator("g").deliverer.poll(
        member, limit=count, max_wait_ms=60_000, **options
    )
    return [str(each.receipt) for each in polled]


async def refused(call):
    """The status of a call, and the name of the error that explains it."""
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await call
    for key, value in failure.value.trailing_metadata():
        if key == ERROR_KEY:
            assert isinstance(value, bytes)
            return failure.value.code(), pb.Error.FromString(value).name
    return failure.value.code(), ""


CALLS = [
    lambda acks, handle: acks.Ack(pb.AckRequest(receipt_handle=handle)),
    lambda acks, handle: acks.Nack(pb.NackRequest(receipt_handle=handle)),
    lambda acks, handle: acks.Reject(pb.RejectRequest(receipt_handle=handle, reason="bad")),
    lambda acks, handle: acks.ExtendVisibility(
        pb.ExtendVisibilityRequest(receipt_handle=handle, extend_ms=1000)
    ),
]
NAMES = ["ack", "nack", "reject", "extend"]


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_a_receipt_is_taken_and_wrong_ones_are_told_why_they_are(tmp_path, call):
    async def scenario(node, member):
        acks = node.stubs.acks
        first, used, late = await receipts(node, member)
        await call(acks, first)
        await acks.Ack(pb.AckRequest(receipt_handle=used))
        assert await refused(call(acks, used)) == (NOT_FOUND, "UnknownReceiptError")
        forged = late[:-16] + "0123456789abcdef"
        assert await refused(call(acks, forged)) == (NOT_FOUND, "UnknownReceiptError")
        never = late.replace(":2:1:", ":77:1:")
        assert await refused(call(acks, never)) == (NOT_FOUND, "UnknownReceiptError")
        elsewhere = "nowhere" + late[1:]
        assert await refused(call(acks, elsewhere)) == (NOT_FOUND, "UnknownReceiptError")
        for nonsense in ("", "t:0:0", late + "g", late.upper(), "x" * 10_000):
            assert await refused(call(acks, nonsense)) == (INVALID, "MalformedReceiptError")
        await acks.Nack(pb.NackRequest(receipt_handle=late, delay_ms=0))
        assert await refused(call(acks, late)) == (NOT_FOUND, "UnknownReceiptError")

    played(tmp_path, scenario)


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_a_receipt_whose_time_is_over_is_refused_also_after_the_next_delivery(tmp_path, call):
    async def scenario(node, member):
        (late,) = await receipts(node, member, 1, visibility_ms=100)
        again: list[str] = []
        while not again:
            again = [each for each in await receipts(node, member, 9) if ":0:0:2:" in each]
        assert await refused(call(node.stubs.acks, late)) == (EXPIRED, "ExpiredReceiptError")
        await call(node.stubs.acks, again[0])

    played(tmp_path, scenario, count=1)


def test_no_forged_receipt_is_the_broker_s_own_failure(tmp_path):
    """Bytes of a real receipt changed at random: each is refused, and told why."""

    async def scenario(node, member):
        (real,) = await receipts(node, member, 1)
        chance = random.Random(5)
        forged = set()
        while len(forged) < 400:
            letters = list(real)
            for _ in range(chance.randint(1, 3)):
                letters[chance.randrange(len(letters))] = chance.choice(
                    "0123456789abcdef:-t\u00e9 "
                )
            forged.add("".join(letters))
        forged.discard(real)
        request = pb.BatchAckRequest(receipt_handles=forged)
        outcomes = (await node.stubs.acks.BatchAck(request)).outcomes
        assert {each.error.name for each in outcomes} <= {
            "MalformedReceiptError",
            "UnknownReceiptError",
            "ExpiredReceiptError",
        }
        for handle in list(forged)[:30]:
            status, _ = await refused(node.stubs.acks.Ack(pb.AckRequest(receipt_handle=handle)))
            assert status in {NOT_FOUND, EXPIRED, INVALID}
        await node.stubs.acks.Ack(pb.AckRequest(receipt_handle=real))

    played(tmp_path, scenario)


def test_a_receipt_of_another_group_is_refused_where_a_group_is_named(tmp_path):
    async def scenario(node, member):
        (handle,) = await receipts(node, member, 1)
        other = pb.AckRequest(receipt_handle=handle, group="other")
        assert await refused(node.stubs.acks.Ack(other)) == (FOREIGN, "ForeignReceiptError")
        await node.stubs.acks.Ack(pb.AckRequest(receipt_handle=handle, group="g"))

    played(tmp_path, scenario)


def test_what_a_verdict_needs_is_asked_for(tmp_path):
    async def scenario(node, member):
        acks = node.stubs.acks
        (handle,) = await receipts(node, member, 1)
        for call in (
            acks.Reject(pb.RejectRequest(receipt_handle=handle)),
            acks.ExtendVisibility(pb.ExtendVisibilityRequest(receipt_handle=handle)),
            acks.ExtendVisibility(
                pb.ExtendVisibilityRequest(receipt_handle=handle, extend_ms=10**9)
            ),
            acks.Nack(pb.NackRequest(receipt_handle=handle, delay_ms=-1)),
            acks.Nack(pb.NackRequest(receipt_handle=handle, reason="x" * 2000)),
            acks.BatchAck(pb.BatchAckRequest()),
            acks.BatchAck(pb.BatchAckRequest(receipt_handles=["x"] * 5001)),
            acks.BatchAck(pb.BatchAckRequest(receipt_handles=[handle], verdict=ODD)),
        ):
            status, _ = await refused(call)
            assert status is INVALID
        await acks.Ack(pb.AckRequest(receipt_handle=handle))

    played(tmp_path, scenario)


def test_an_extension_says_until_when(tmp_path):
    async def scenario(node, member):
        answer = None
        while answer is None:  # until it is asked for in time, which a busy machine may miss
            (handle,) = await receipts(node, member, 1, visibility_ms=200)
            request = pb.ExtendVisibilityRequest(receipt_handle=handle, extend_ms=600_000)
            try:
                answer = await node.stubs.acks.ExtendVisibility(request)
            except grpc.aio.AioRpcError as error:
                if error.code() is not EXPIRED:
                    raise
        assert 0 <= answer.visible_until_ms - node.broker.clock.now_ms() <= 600_000
        await asyncio.sleep(0.4)
        await node.stubs.acks.Ack(pb.AckRequest(receipt_handle=handle))

    played(tmp_path, scenario)


def test_a_nack_comes_again_when_it_says(tmp_path):
    async def scenario(node, member):
        (handle,) = await receipts(node, member, 1)
        before_ms = node.broker.clock.now_ms()
        await node.stubs.acks.Nack(pb.NackRequest(receipt_handle=handle, delay_ms=250))
        (again,) = await receipts(node, member, 1)
        assert ":0:0:2:" in again
        assert node.broker.clock.now_ms() - before_ms >= 250

    played(tmp_path, scenario, count=1)


@pytest.mark.parametrize("verdict", [pb.VERDICT_ACK, pb.VERDICT_REJECT, pb.VERDICT_RELEASE])
def test_a_batch_is_told_of_each_receipt(tmp_path, verdict):
    async def scenario(node, member):
        a, b, c = await receipts(node, member)
        request = pb.BatchAckRequest(receipt_handles=[a, "no", b, a, c], verdict=verdict)
        response = await node.stubs.acks.BatchAck(request)
        assert [each.receipt_handle for each in response.outcomes] == [a, "no", b, a, c]
        assert [each.error.name for each in response.outcomes] == [
            "",
            "MalformedReceiptError",
            "",
            "UnknownReceiptError",
            "",
        ]
        again = await node.stubs.acks.BatchAck(request)
        assert all(each.error.name for each in again.outcomes)

    played(tmp_path, scenario)

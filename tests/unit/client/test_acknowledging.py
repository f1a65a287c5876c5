"""What is said of messages on its way to the broker: frames, their answers, and lost ones."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.client import acknowledging
from goqueue.client.acknowledging import Acknowledgement, Acknowledger, PendingAcknowledgement
from goqueue.client.delivered_messages import Run
from goqueue.client.errors import BrokerUnavailableError, ClientClosedError
from goqueue.client.queue_messages import AsyncQueueMessage
from goqueue.model.errors import ExpiredReceiptError, ReceiptError, UnknownReceiptError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

ACK = Acknowledgement(pb.VERDICT_ACK)
NACK = Acknowledgement(pb.VERDICT_NACK)
EXPIRED = pb.Error(name="ExpiredReceiptError", message="too late")
UNKNOWN = pb.Error(name="UnknownReceiptError", message="expired before a restart, perhaps")
DONE = pb.Error(name="UnknownReceiptError", message="used", details={"is_done": "1"})


def messages(count, session=1):
    columns = pb.MessageColumns(
        topic="t",
        priority=pb.PRIORITY_NORMAL,
        first_delivery_id=100,
        offsets=range(count),
        timestamps_ms=[0] * count,
        values=[b"v"] * count,
        nonces=range(count),
    )
    run = Run.of(columns, session)
    return [AsyncQueueMessage(None, run, at) for at in range(count)]


def played(scenario, timeout_s=60.0):
    async def main():
        calls = []
        await scenario(Acknowledger(timeout_s, lambda: calls.append(None)), calls)

    asyncio.run(main())


def test_what_is_said_alike_before_it_is_sent_is_one_frame():
    async def scenario(said, calls):
        a, b, c = messages(3)
        said.add(a, ACK)
        said.add(b, NACK)
        said.add(c, ACK)
        assert len(calls) == 2
        acks, nacks = said.next_frame(1), said.next_frame(1)
        assert (list(acks.delivery_ids), acks.verdict) == ([100, 102], pb.VERDICT_ACK)
        assert (list(nacks.delivery_ids), nacks.verdict) == ([101], pb.VERDICT_NACK)
        assert not acks.receipt_handles

    played(scenario)


def test_few_frames_are_under_way_and_the_next_one_grows():
    async def scenario(said, _calls):
        frames = []
        for message in messages(6):
            said.add(message, ACK)
            frames.append(said.next_frame(1))
        assert [frame and len(frame.delivery_ids) for frame in frames] == [1, 1] + [None] * 4
        said.answered(pb.SettleResult(correlation_id=frames[0].correlation_id))
        assert len(said.next_frame(1).delivery_ids) == 4

    played(scenario)


def test_a_frame_has_a_bound(monkeypatch):
    monkeypatch.setattr(acknowledging, "_MAX_FRAME", 2)

    async def scenario(said, _calls):
        for message in messages(3):
            said.add(message, ACK)
        assert len(said.next_frame(1).delivery_ids) == 2
        assert len(said.next_frame(1).delivery_ids) == 1

    played(scenario)


def test_each_is_told_its_own_failure():
    async def scenario(said, _calls):
        fine, late = messages(2)
        settled = [PendingAcknowledgement(said.add(each, ACK), each) for each in (fine, late)]
        result = pb.SettleResult(correlation_id=said.next_frame(1).correlation_id)
        result.failures.add(delivery_id=late.delivery_id, error=EXPIRED)
        said.answered(result)
        await settled[0]
        with pytest.raises(ExpiredReceiptError):
            await settled[1]
        with pytest.raises(ExpiredReceiptError):
            await said.flush()
        await said.flush()

    played(scenario)


def test_messages_of_an_earlier_stream_go_by_their_receipts():
    async def scenario(said, _calls):
        (old,), (new,) = messages(1, session=1), messages(1, session=2)
        said.add(old, ACK)
        said.add(new, ACK)
        frame = said.next_frame(2)
        assert list(frame.delivery_ids) == [new.delivery_id]
        assert list(frame.receipt_handles) == [old.receipt_handle] == ["t:0:0:1:" + "0" * 16]

    played(scenario)


@pytest.mark.parametrize(
    ("acknowledgement", "error", "counts"),
    [
        (ACK, DONE, True),
        (ACK, UNKNOWN, False),
        (ACK, EXPIRED, False),
        (NACK, DONE, True),
        (NACK, UNKNOWN, True),
        (NACK, EXPIRED, True),
    ],
)
def test_what_was_said_twice_because_an_answer_was_lost_counts_once(acknowledgement, error, counts):
    async def scenario(said, _calls):
        (message,) = messages(1)
        settled = PendingAcknowledgement(said.add(message, acknowledgement), message)
        said.next_frame(1)
        said.lost()
        again = said.next_frame(2)
        assert list(again.receipt_handles) == [message.receipt_handle]
        result = pb.SettleResult(correlation_id=again.correlation_id)
        result.failures.add(receipt_handle=message.receipt_handle, error=error)
        said.answered(result)
        if counts:
            await settled
        else:
            with pytest.raises(ReceiptError):
                await settled

    played(scenario)


def test_frames_that_were_lost_are_sent_again_before_others():
    async def scenario(said, _calls):
        a, b, c = messages(3)
        for each in (a, b):
            said.add(each, ACK)
            said.next_frame(1)
        said.add(c, ACK)
        said.lost()
        handles = [list(said.next_frame(2).receipt_handles) for _ in range(2)]
        assert handles == [[a.receipt_handle], [b.receipt_handle]]

    played(scenario)


def test_an_answer_that_does_not_come_is_given_up():
    async def scenario(said, _calls):
        sent, waiting = messages(2)
        settled = PendingAcknowledgement(said.add(sent, ACK), sent)
        said.next_frame(1)
        late = PendingAcknowledgement(said.add(waiting, NACK), waiting)
        for each in (settled, late):
            with pytest.raises(BrokerUnavailableError):
                await each
        assert said.next_frame(1) is None
        said.lost()
        assert said.next_frame(1) is None

    played(scenario, timeout_s=0.01)


def test_a_frame_that_fails_as_a_whole_tells_everyone():
    async def scenario(said, _calls):
        (message,) = messages(1)
        settled = PendingAcknowledgement(said.add(message, ACK), message)
        number = said.next_frame(1).correlation_id
        said.answered(pb.SettleResult(correlation_id=number, error=UNKNOWN))
        with pytest.raises(UnknownReceiptError):
            await settled

    played(scenario)


def test_nobody_hears_of_the_client_s_own_affairs():
    async def scenario(said, _calls):
        (message,) = messages(1)
        frame = said.add(message, Acknowledgement(pb.VERDICT_RETURN, is_quiet=True))
        said.fail_all(ClientClosedError("closed"))
        await frame.done()
        assert not said
        await said.flush()

    played(scenario)

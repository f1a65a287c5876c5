"""Acknowledgements on their way to the broker: frames, their answers, and lost ones."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from uuid import UUID

import pytest

from goqueue.client.errors import BrokerUnavailableError, ClientClosedError
from goqueue.client.queues import acknowledging
from goqueue.client.queues.acknowledgements import ACK, NACK, RETURN, Acknowledgement
from goqueue.client.queues.acknowledging import (
    Acknowledger,
    PendingAcknowledgement,
    settlements_of,
)
from goqueue.client.queues.deliveries import Deliveries
from goqueue.model.errors import ExpiredReceiptError, ReceiptError, UnknownReceiptError
from goqueue.wire.kafka.error_codes import ErrorCode

ACKED = Acknowledgement(ACK)
NACKED = Acknowledgement(NACK)
TOPIC = UUID(int=7)
EXPIRED = {"error_name": "ExpiredReceiptError", "is_done": False}
UNKNOWN = {"error_name": "UnknownReceiptError", "is_done": False}
DONE = {"error_name": "UnknownReceiptError", "is_done": True}


def delivered(count, first=0, partition=0):
    """Messages that were handed over together; the nonce of each is its offset."""
    nonces = b"".join((first + at).to_bytes(8, "little") for at in range(count))
    return Deliveries(
        None,
        TOPIC,
        partition,
        first=first,
        count=1,
        lane=2,
        nonces=memoryview(nonces),
        until_s=0.0,
    )


def offsets(frames):
    """What a request says: the offsets of each settlement, by its verdict."""
    found = []
    for topic in settlements_of(frames):
        for part in topic["partitions"]:
            for each in part["settlements"]:
                told = [
                    offset
                    for first, count in struct.iter_unpack(">qi", each["ranges"])
                    for offset in range(first, first + count)
                ]
                nonces = [number for (number,) in struct.iter_unpack("<q", each["nonces"])]
                assert nonces == told
                found.append((each["acknowledge_type"], told))
    return found


def result(*failures, partition=0, **refusal):
    """What a broker answers for a partition; `failures` are nonces and why."""
    told = [SimpleNamespace(nonce=nonce, message="no", **why) for nonce, why in failures]
    refused = {"error_code": 0, "error_name": None, "error_message": None, **refusal}
    return TOPIC, SimpleNamespace(partition_index=partition, failures=told, **refused)


def played(scenario, timeout_s=60.0):
    async def main():
        calls, answered = [], []
        said = Acknowledger(timeout_s, lambda: calls.append(None), answered.append)
        await scenario(said, calls, answered)

    asyncio.run(main())


def test_what_is_said_alike_before_it_is_sent_is_one_frame():
    async def scenario(said, calls, _answered):
        three = delivered(3)
        said.add(three, 0, ACKED)
        said.add(three, 1, NACKED)
        said.add(three, 2, ACKED)
        assert len(calls) == 2
        assert said.has_work
        assert offsets(said.next_frames()) == [(ACK, [0, 2]), (NACK, [1])]
        assert not said.has_work

    played(scenario)


def test_messages_of_several_deliveries_and_partitions_are_told_apart():
    async def scenario(said, _calls, _answered):
        for each in (delivered(2, first=5), delivered(3, first=20), delivered(1, partition=1)):
            for at in range(len(each.settled)):
                said.add(each, at, ACKED)
        (topic,) = settlements_of(said.next_frames())
        assert topic["topic_id"] == TOPIC
        assert [each["partition_index"] for each in topic["partitions"]] == [0, 1]
        ((settlement,), _) = [each["settlements"] for each in topic["partitions"]]
        assert list(struct.iter_unpack(">qi", settlement["ranges"])) == [(5, 2), (20, 3)]

    played(scenario)


def test_messages_that_are_acknowledged_out_of_order_travel_in_their_ranges():
    async def scenario(said, _calls, _answered):
        six = delivered(6)
        for at in (4, 0, 5, 1, 4):
            said.add(six, at, ACKED)
        assert offsets(said.next_frames()) == [(ACK, [0, 1, 4, 5])]

    played(scenario)


def test_few_requests_are_under_way_and_the_next_one_grows():
    async def scenario(said, _calls, _answered):
        six = delivered(6)
        requests = []
        for at in range(6):
            said.add(six, at, ACKED)
            if said.has_work:
                requests.append(said.next_frames())
        assert [offsets(frames) for frames in requests] == [[(ACK, [0])], [(ACK, [1])]]
        said.answered(requests[0], [result()])
        assert offsets(said.next_frames()) == [(ACK, [2, 3, 4, 5])]

    played(scenario)


def test_a_frame_has_a_bound(monkeypatch):
    monkeypatch.setattr(acknowledging, "_MAX_FRAME", 2)

    async def scenario(said, _calls, _answered):
        three = delivered(3)
        for at in range(3):
            said.add(three, at, ACKED)
        assert [frame.count for frame in said.next_frames()] == [2, 1]

    played(scenario)


def test_each_is_told_its_own_failure():
    async def scenario(said, _calls, answered):
        two = delivered(2)
        settled = [PendingAcknowledgement(said.add(two, at, ACKED), two, at) for at in range(2)]
        frames = said.next_frames()
        said.answered(frames, [result((1, EXPIRED))])
        assert answered == frames
        await settled[0]
        with pytest.raises(ExpiredReceiptError):
            await settled[1]
        with pytest.raises(ExpiredReceiptError):
            await said.flush()
        await said.flush()

    played(scenario)


def test_a_failure_of_one_partition_is_not_that_of_the_same_number_in_another():
    async def scenario(said, _calls, _answered):
        one, other = delivered(1), delivered(1, partition=1)
        first = PendingAcknowledgement(said.add(one, 0, ACKED), one, 0)
        second = PendingAcknowledgement(said.add(other, 0, ACKED), other, 0)
        said.answered(said.next_frames(), [result(), result((0, EXPIRED), partition=1)])
        await first
        with pytest.raises(ExpiredReceiptError):
            await second

    played(scenario)


@pytest.mark.parametrize(
    ("acknowledgement", "error", "counts"),
    [
        (ACKED, DONE, True),
        (ACKED, UNKNOWN, False),
        (ACKED, EXPIRED, False),
        (NACKED, DONE, True),
        (NACKED, UNKNOWN, True),
        (NACKED, EXPIRED, True),
    ],
)
def test_what_was_said_twice_because_an_answer_was_lost_counts_once(acknowledgement, error, counts):
    async def scenario(said, _calls, _answered):
        one = delivered(1)
        settled = PendingAcknowledgement(said.add(one, 0, acknowledgement), one, 0)
        said.lost(said.next_frames())
        again = said.next_frames()
        assert offsets(again) == [(acknowledgement.verdict, [0])]
        said.answered(again, [result((0, error))])
        if counts:
            await settled
        else:
            with pytest.raises(ReceiptError):
                await settled

    played(scenario)


def test_frames_that_were_lost_are_sent_again_before_others():
    async def scenario(said, _calls, _answered):
        three = delivered(3)
        lost = []
        for at in range(2):
            said.add(three, at, ACKED)
            lost.append(said.next_frames())
        said.add(three, 2, ACKED)
        for frames in reversed(lost):
            said.lost(frames)
        assert offsets(said.next_frames()) == [(ACK, [0]), (ACK, [1])]
        assert offsets(said.next_frames()) == [(ACK, [2])]

    played(scenario)


def test_an_answer_that_does_not_come_is_given_up():
    async def scenario(said, _calls, answered):
        two = delivered(2)
        settled = PendingAcknowledgement(said.add(two, 0, ACKED), two, 0)
        sent = said.next_frames()
        late = PendingAcknowledgement(said.add(two, 1, NACKED), two, 1)
        for each in (settled, late):
            with pytest.raises(BrokerUnavailableError):
                await each
        assert len(answered) == 2
        assert said.next_frames() == []
        said.lost(sent)
        assert said.next_frames() == []
        said.answered(sent, [result()])
        assert len(answered) == 2

    played(scenario, timeout_s=0.01)


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        ({"error_code": -1, "error_name": "UnknownReceiptError"}, UnknownReceiptError),
        ({"error_code": ErrorCode.unknown_topic_or_partition}, UnknownReceiptError),
    ],
)
def test_a_partition_that_is_refused_tells_everyone(refusal, kind):
    async def scenario(said, _calls, _answered):
        one = delivered(1)
        settled = PendingAcknowledgement(said.add(one, 0, ACKED), one, 0)
        said.answered(said.next_frames(), [result(**refusal)])
        with pytest.raises(kind):
            await settled

    played(scenario)


def test_a_request_that_is_refused_tells_everyone_and_is_not_sent_again():
    async def scenario(said, _calls, _answered):
        one = delivered(1)
        settled = PendingAcknowledgement(said.add(one, 0, ACKED), one, 0)
        said.refused(said.next_frames(), UnknownReceiptError("no such member"))
        with pytest.raises(UnknownReceiptError):
            await settled
        assert said.next_frames() == []

    played(scenario)


def test_nobody_hears_of_the_client_s_own_affairs():
    async def scenario(said, _calls, _answered):
        frame = said.add(delivered(1), 0, Acknowledgement(RETURN, is_quiet=True))
        said.fail_all(ClientClosedError("closed"))
        await frame.done()
        assert not said.has_work
        await said.flush()

    played(scenario)


def test_who_stops_waiting_does_not_stop_the_others():
    async def scenario(said, _calls, _answered):
        two = delivered(2)

        async def wait(at):
            await PendingAcknowledgement(said.add(two, at, ACKED), two, at)

        tasks = [asyncio.create_task(wait(at)) for at in range(2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        said.answered(said.next_frames(), [result()])
        await tasks[1]
        assert tasks[0].cancelled()

    played(scenario)

"""What a receipt is, which texts are none, and which deliveries it does not stand for."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, strategies as st

from goqueue.model.dead_letters import Reason
from goqueue.model.errors import (
    ExpiredReceiptError,
    MalformedReceiptError,
    ReceiptError,
    UnknownReceiptError,
)
from goqueue.partitions.lane_index import LaneIndex
from goqueue.queues.delivery import decisions, operations as ops, receipts as checks
from goqueue.queues.delivery.leases import _MAX_EXPIRED_RECEIPTS, ExpiredReceipts
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.delivery.settings import QueueSettings

SETTINGS = QueueSettings()
COUNT = 600

receipts = st.builds(
    Receipt,
    st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(1, 255),
    st.integers(0, 2**64 - 1),
    st.none() | st.integers(0, 999),
)


def queue_with_deliveries():
    """Everything is with ann until 1000; every fifth is in its second delivery."""
    lanes = LaneIndex()
    lanes.advance_to(COUNT)
    queue = PartitionQueue(0, {})
    queue.follow(lanes)
    again = ops.ranges_of(range(0, COUNT, 5))
    queue.apply(queue.taken([(2, *part) for part in again], "ann", 0, 1000, b"first"))
    queue.apply(ops.Released(again))
    queue.apply(queue.taken([(2, 0, COUNT)], "ann", 0, 1000, b"second"))
    return queue


def receipt(queue, offset):
    window = queue.window
    return Receipt("orders", 0, offset, window.count(offset), window.nonce(offset))


def kind(queue, shown, now_ms=500):
    found = checks.refusal(queue, shown, now_ms)
    return None if found is None else type(found)


@given(receipts)
def test_a_receipt_reads_back_as_it_was_written(receipt):
    assert Receipt.parse(str(receipt)) == receipt


@given(st.text())
@example("")
@example("::::")
@example("t:0:0:1:0000000000000000\n")
@example("t:0:0:1:000000000000000G")
@example("t:0:0:1:00000000000000AB")
@example("t:-1:0:1:0000000000000000")
@example("t:٣:0:1:0000000000000000")
@example("t:0:99999999999999999999:1:0000000000000000")
@example("t:0:0:0:0000000000000000")
@example("t:0:007:1:0000000000000000")
@example("t" * 250 + ":0:0:1:0000000000000000")
@example("\ud800:0:0:1:0000000000000000")
def test_a_text_that_is_no_receipt_is_malformed_and_nothing_else(text):
    with pytest.raises(MalformedReceiptError) as caught:
        Receipt.parse(text)
    str(caught.value).encode()
    assert len(str(caught.value)) < 600


@given(st.from_regex(re.compile(r"[a-z.]*:[0-9]*:[0-9]*:[0-9]*:[0-9a-fA-F]*\Z", re.ASCII)))
def test_there_is_one_way_to_write_a_receipt(text):
    try:
        parsed = Receipt.parse(text)
    except MalformedReceiptError:
        return
    assert str(parsed) == text


def test_every_receipt_of_a_delivery_counts_until_its_deadline():
    queue = queue_with_deliveries()
    shown = [receipt(queue, offset) for offset in range(COUNT)]
    assert {kind(queue, each, 999) for each in shown} == {None}
    assert {kind(queue, each, 1000) for each in shown} == {ExpiredReceiptError}
    assert len({each.nonce for each in shown}) == COUNT


@given(st.integers(0, COUNT - 1), receipts)
def test_a_forged_receipt_is_refused_whatever_was_changed(offset, other):
    queue = queue_with_deliveries()
    true = receipt(queue, offset)
    for forged in (
        true._replace(offset=other.offset),
        true._replace(offset=(offset + 1) % COUNT),
        true._replace(delivery_count=other.delivery_count),
        true._replace(nonce=other.nonce),
        true._replace(nonce=true.nonce ^ 1),
        other,
    ):
        refusal = checks.refusal(queue, forged, 500)
        if forged == true:
            assert refusal is None
        else:
            assert isinstance(refusal, ReceiptError)


def test_a_nonce_that_was_never_drawn_is_unknown():
    queue = queue_with_deliveries()
    true = receipt(queue, 3)
    assert kind(queue, true._replace(nonce=true.nonce ^ 1)) is UnknownReceiptError


def test_a_used_receipt_is_unknown():
    queue = queue_with_deliveries()
    shown = receipt(queue, 3)
    queue.apply(ops.Settled([(3, 4)]))
    assert kind(queue, shown) is UnknownReceiptError
    queue.apply(ops.Settled([(0, 512)]))
    assert kind(queue, shown) is UnknownReceiptError


def test_a_receipt_with_the_number_of_an_earlier_delivery_is_unknown():
    queue = queue_with_deliveries()
    second = receipt(queue, 5)
    assert second.delivery_count == 2
    assert kind(queue, second._replace(delivery_count=1)) is UnknownReceiptError


def test_a_receipt_of_a_delivery_to_come_is_unknown():
    queue = queue_with_deliveries()
    shown = receipt(queue, 5)
    assert kind(queue, shown._replace(delivery_count=3)) is UnknownReceiptError


@pytest.mark.parametrize(
    "operations",
    [
        lambda queue: decisions.release(queue, [(3, 4)], SETTINGS, 500),
        lambda queue: decisions.postpone(queue, [3], SETTINGS, 500),
        lambda _: decisions.doom([3], Reason.REJECTED, SETTINGS, 500),
    ],
    ids=["released", "postponed", "rejected"],
)
def test_a_receipt_of_what_was_handed_back_is_used(operations):
    queue = queue_with_deliveries()
    shown = receipt(queue, 3)
    for operation in operations(queue):
        queue.apply(operation)
    assert kind(queue, shown) is UnknownReceiptError


def expire(queue, now_ms=1000):
    for ranges in queue.overdue(now_ms):
        for operation in decisions.release(queue, ranges, SETTINGS, now_ms):
            queue.apply(operation)


@pytest.mark.parametrize(
    "operations",
    [
        lambda queue: [],
        lambda queue: [ops.Settled([(3, 4)])],
        lambda queue: [ops.Settled([(0, 512)])],
        lambda queue: decisions.postpone(queue, [3], SETTINGS, 1500),
        lambda _: decisions.doom([3], Reason.REJECTED, SETTINGS, 1500),
    ],
    ids=["available", "acknowledged", "all acknowledged", "postponed", "rejected"],
)
def test_an_expired_receipt_stays_expired_whatever_others_do_with_the_message(operations):
    queue = queue_with_deliveries()
    shown = receipt(queue, 3)
    expire(queue)
    for operation in operations(queue):
        queue.apply(operation)
    assert kind(queue, shown, 1500) is ExpiredReceiptError


def test_of_the_oldest_expired_receipts_nothing_is_remembered():
    expired = ExpiredReceipts()
    expired.add(range(_MAX_EXPIRED_RECEIPTS))
    expired.add(range(_MAX_EXPIRED_RECEIPTS, _MAX_EXPIRED_RECEIPTS + 5))
    assert {nonce in expired for nonce in range(5)} == {False}
    assert {nonce in expired for nonce in range(5, _MAX_EXPIRED_RECEIPTS + 5)} == {True}


def test_a_receipt_counts_for_as_long_as_its_time_was_extended():
    queue = queue_with_deliveries()
    shown = receipt(queue, 3)
    for operation in decisions.extend(queue, [(3, 4)], 5000):
        queue.apply(operation)
    assert kind(queue, shown, 4999) is None
    assert kind(queue, shown, 5000) is ExpiredReceiptError
    assert kind(queue, receipt(queue, 4), 1000) is ExpiredReceiptError


@pytest.mark.parametrize(
    ("operations", "is_done"),
    [
        ([ops.Settled([(3, 4)])], 1),
        ([ops.Settled([(0, 512)])], 1),
        (decisions.doom([3], Reason.REJECTED, SETTINGS, 500), 1),
        ([ops.Released([(3, 4)])], 0),
        ([ops.Postponed([(3, 900)], "")], 0),
        ([ops.Untaken([(3, 4)])], 0),
    ],
    ids=["acknowledged", "all acknowledged", "rejected", "released", "postponed", "returned"],
)
def test_with_an_unknown_receipt_it_is_told_whether_its_message_is_done(operations, is_done):
    queue = queue_with_deliveries()
    shown = receipt(queue, 3)
    for operation in operations:
        queue.apply(operation)
    refused = checks.refusal(queue, shown, 500)
    assert isinstance(refused, UnknownReceiptError)
    assert refused.is_done == is_done


def test_a_receipt_of_a_delivery_that_never_happened_is_unknown():
    queue = queue_with_deliveries()
    shown = receipt(queue, 3)
    queue.apply(ops.Untaken([(3, 4)]))
    assert kind(queue, shown) is UnknownReceiptError

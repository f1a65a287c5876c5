"""Queues, receipts, dead letters and delayed messages through the client's administration."""

from __future__ import annotations

import base64
import json
import time

import pytest

from goqueue.client.errors import BrokerError
from goqueue.model.errors import (
    DelayedNotPendingError,
    GroupModeError,
    GroupNotFoundError,
    MalformedReceiptError,
    OffsetOutOfRangeError,
    UnknownDelayedError,
    UnknownPartitionError,
    UnknownReceiptError,
    UnknownRedriveError,
    UnknownTopicError,
)
from goqueue.model.topic_partition import TopicPartition
from support.waiting import eventually

HOUR_MS = 3_600_000


@pytest.fixture
def join(api, topic, group):
    """`join()`: a member of a queue group of the topic; its id."""

    def made(**fields):
        body = {"topics": [topic], "assignment": "shared", "client_id": "worker", **fields}
        return api.post(f"/groups/{group}/join", body)["member_id"]

    return made


@pytest.fixture
def take(api, group):
    """`take(member, count)`: receipt handles of so many messages."""

    def taken(member, count):
        found = []
        while len(found) < count:
            path = f"/groups/{group}/poll?member_id={member}&timeout=60s"
            found += [each["receipt_handle"] for each in api.get(path)["messages"]]
        return found

    return taken


@pytest.fixture
def worker(api, topic, join, take):
    """`worker(*values, takes=)`: publish and take some of it; the member, and its receipts."""

    def working(*values, takes, **fields):
        api.publish(topic, *values, **fields)
        member = join(max_unacked=takes)
        return member, take(member, takes)

    return working


@pytest.fixture
def bury(client, api, topic, join, take):
    """`bury(*values)`: let messages die; what the publisher was told of each."""

    def dead_lettered(*values, reason="broken", **fields):
        before = client.dead_letters.count(topic)
        member = join()
        results = api.publish(topic, *values, **fields)
        for receipt in take(member, len(values)):
            client.receipts.reject(receipt, reason)
        eventually(lambda: client.dead_letters.count(topic) == before + len(values))
        return results

    return dead_lettered


# --- Queues ---------------------------------------------------------------------------------------


def test_a_queue_shows_what_waits_and_who_works_on_it(client, topic, group, worker):
    member, _ = worker(*"abcde", partition=1, takes=2)
    assert group in client.queues.list()
    found = client.queues.describe(group)
    assert (found.name, found.mode, found.lag) == (group, "shared", 5)
    assert (found.ready, found.in_flight, found.waiting, found.dead) == (3, 2, 0, 0)
    assert found.partitions[topic][1].log_end == 5
    assert found.settings.max_unacked == 2
    (worker,) = found.members
    assert (worker.member_id, worker.client_id, worker.unacked) == (member, "worker", 2)
    assert worker.partitions == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert client.queues.members(group) == found.members
    assert client.queues.lanes(group)["normal"].in_flight == 2
    stats = client.queues.stats()[group]
    assert (stats.delivered, stats.in_flight, stats.acks) == (2, 2, 0)


def test_the_settings_of_a_queue_are_changed_one_by_one(client, group, join):
    join()
    before = client.queues.settings(group)
    changed = client.queues.configure(
        group,
        visibility=90,
        max_deliveries=7,
        backoff=0.5,
        max_backoff=20,
        weights={"low": 3},
        starvation=0,
        dead_letters=False,
    )
    assert (changed.visibility_ms, changed.max_deliveries) == (90_000, 7)
    assert (changed.backoff_ms, changed.max_backoff_ms) == (500, 20_000)
    assert changed.weights == before.weights | {"low": 3}
    assert (changed.starvation_ms, changed.dead_letters) == (0, False)
    assert (changed.max_unacked, changed.max_waiting) == (before.max_unacked, before.max_waiting)
    assert client.queues.settings(group) == changed == client.queues.configure(group)


def test_a_log_group_is_no_queue(client, topic, group):
    client.offsets.commit(group, {TopicPartition(topic, 0): 0})
    assert group not in client.queues.list()
    with pytest.raises(ValueError, match="log group"):
        client.queues.describe(group)
    with pytest.raises((GroupModeError, GroupNotFoundError)):
        client.queues.settings(group)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda c: c.queues.describe("absent"), GroupNotFoundError),
        (lambda c: c.queues.settings("absent"), GroupNotFoundError),
        (lambda c: c.queues.configure("absent", max_deliveries=2), GroupNotFoundError),
        (lambda c: c.queues.lanes("absent"), GroupNotFoundError),
        (lambda c: c.queues.configure("absent", visibility=-1), ValueError),
        (lambda c: c.queues.configure("absent", visibility="long"), TypeError),
        (lambda c: c.receipts.ack("nonsense"), MalformedReceiptError),
        (lambda c: c.receipts.reject("nonsense", ""), BrokerError),
        (lambda c: c.dead_letters.list("absent"), UnknownTopicError),
        (lambda c: c.dead_letters.redrive("absent"), UnknownTopicError),
        (lambda c: c.dead_letters.purge("absent"), UnknownTopicError),
        (lambda c: c.dead_letters.progress(999_999), UnknownRedriveError),
        (lambda c: c.dead_letters.cancel(999_999), UnknownRedriveError),
        (lambda c: c.dead_letters.list("absent", limit=0), BrokerError),
        (lambda c: c.delayed.list("absent"), UnknownTopicError),
        (lambda c: c.delayed.get("absent", 1), UnknownTopicError),
        (lambda c: c.delayed.timeline(0), BrokerError),
    ],
)
def test_a_refusal_is_the_error_of_the_broker(client, ask, error):
    with pytest.raises(error) as caught:
        ask(client)
    assert str(caught.value)


# --- Receipts -------------------------------------------------------------------------------------


def test_a_receipt_may_be_settled_from_anywhere(client, group, worker):
    _, (a, b, c, d, e, f) = worker(*"abcdef", takes=6)
    client.receipts.ack(a)
    client.receipts.nack(b, delay=3600, reason="later")
    client.receipts.reject(c, "never")
    client.receipts.extend(d, 60)
    none, twice, malformed = client.receipts.ack_all([d, a, "no"])
    assert none is None
    assert isinstance(twice, UnknownReceiptError)
    assert isinstance(malformed, MalformedReceiptError)
    assert str(malformed)
    assert client.receipts.ack_all([e, f]) == [None, None]
    assert client.receipts.ack_all([]) == []
    with pytest.raises(UnknownReceiptError):
        client.receipts.ack(a)
    assert client.queues.describe(group).in_flight == 0


# --- Dead letters ---------------------------------------------------------------------------------


def test_dead_letters_are_looked_at_with_where_they_came_from_and_why(client, topic, group, bury):
    key = base64.b64encode(b"\xff\x00").decode()
    headers = {"plain": "text", "unit": "µ"}
    (published,) = bury(
        json.dumps({"n": 1}),
        reason="no such customer",
        key=key,
        key_encoding="base64",
        partition=1,
        headers=headers,
    )
    (letter,) = client.dead_letters.list(topic)
    assert (letter.key, letter.preview, letter.size_bytes) == (b"\xff\x00", b'{"n": 1}', 8)
    assert (letter.source_topic, letter.source_partition) == (topic, 1)
    assert letter.source_offset == published["offset"]
    assert (letter.group, letter.reason, letter.error) == (group, "REJECTED", "no such customer")
    assert (letter.deliveries, letter.redriven_count, letter.priority) == (1, 0, "normal")
    assert letter.source_timestamp_ms <= letter.first_delivery_ms <= letter.died_at_ms
    whole = client.dead_letters.get(topic, letter.partition, letter.offset)
    assert (whole.value, whole.is_redriven, whole.offset) == (b'{"n": 1}', False, letter.offset)
    assert {"plain": b"text", "unit": "µ".encode()}.items() <= dict(whole.headers).items()
    (queue,) = [each for each in client.dead_letters.queues() if each.topic == topic]
    assert (queue.dead_letter_topic, queue.total) == (f"{topic}.dlq", 1)
    assert queue.newest_at_ms == letter.died_at_ms
    with pytest.raises(OffsetOutOfRangeError):
        client.dead_letters.get(topic, letter.partition, 99)
    with pytest.raises(UnknownPartitionError):
        client.dead_letters.get(topic, 99, 0)


def test_dead_letters_are_chosen(client, topic, group, bury):
    bury("a", "b", "c")
    now_ms = round(time.time() * 1000)
    assert len(client.dead_letters.list(topic, limit=2)) == 2
    assert len(client.dead_letters.list(topic, skip=1, group=group, reason="REJECTED")) == 2
    assert client.dead_letters.list(topic, group="another") == []
    assert client.dead_letters.list(topic, since=now_ms + HOUR_MS) == []
    assert len(client.dead_letters.list(topic, until=now_ms + HOUR_MS)) == 3


def test_dead_letters_are_counted_and_then_redriven(client, name, topic, bury):
    bury("a", "b", "c", key="k")
    bury("d")
    counted = client.dead_letters.redrive(topic, key=b"k", dry_run=True)
    assert (counted.dry_run, counted.state, counted.total, counted.done) == (True, "done", 3, 0)
    assert client.dead_letters.count(topic) == 4
    target = client.topics.create(name("target"), partitions=1).name
    begun = client.dead_letters.redrive(topic, to=target, key="k", limit=2, rate=1000)
    assert (begun.topic, begun.to, begun.dry_run) == (topic, target, False)
    done = client.dead_letters.wait(begun.id)
    assert (done.state, done.done, done.failed, done.refused) == ("done", 2, 0, ())
    assert done.targets == {target: 2}
    assert done == client.dead_letters.progress(begun.id) == client.dead_letters.cancel(begun.id)
    assert done in client.dead_letters.redrives()
    assert client.dead_letters.count(topic) == 2
    letters = client.dead_letters.list(topic)
    offsets = {}
    for each in letters:
        offsets.setdefault(each.partition, []).append(each.offset)
    assert client.dead_letters.redrive(topic, offsets=offsets, dry_run=True).total == 2


def test_dead_letters_are_purged(client, topic, bury):
    bury("a", "b")
    assert client.dead_letters.purge(topic) == 2
    assert client.dead_letters.list(topic) == []


# --- Delayed messages -----------------------------------------------------------------------------


def test_delayed_messages_are_listed_looked_at_and_cancelled(client, api, topic):
    wish = {"delay": "1h", "key": "k", "headers": {"h": "v"}, "priority": "high", "partition": 1}
    first, second = api.publish(topic, "one", "two", **wish)
    found = client.delayed.list(topic)
    assert sorted(each.id for each in found) == sorted([first["id"], second["id"]])
    assert len(client.delayed.list(topic, limit=1, skip=1)) == 1
    message = client.delayed.get(topic, first["id"])
    assert (message.topic, message.partition, message.state) == (topic, 1, "pending")
    assert (message.key, message.value, message.priority) == (b"k", b"one", "high")
    assert dict(message.headers)["h"] == b"v"
    assert message.deliver_at_ms == first["deliverAt"]
    assert message.deliver_at_ms >= message.published_at_ms + HOUR_MS - 1
    assert client.delayed.cancel(topic, 1, first["id"]).state == "cancelled"
    with pytest.raises(DelayedNotPendingError):
        client.delayed.cancel(topic, 1, first["id"])
    with pytest.raises(UnknownDelayedError):
        client.delayed.get(topic, 999_999_999)
    stats = client.delayed.stats()
    assert stats.pending_by_topic[topic] == 1
    assert (stats.pending >= 1, stats.cancelled >= 1) == (True, True)
    timeline = client.delayed.timeline(10)
    assert len(timeline.counts) == 10
    assert sum(timeline.counts) + timeline.later >= stats.pending

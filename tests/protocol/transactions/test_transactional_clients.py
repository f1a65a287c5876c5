"""The transactional API of the clients, unmodified: commit, abort, fencing, offsets, timeouts."""

from __future__ import annotations

import time

import confluent_kafka
import pytest

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.kafka_clients import WAIT_S, confluent_consumer
from protocol.transactions.transactional_clients import PRODUCERS, READERS, Confluent, transactional
from support.pace import TooLateError, unhurried

pytestmark = [
    pytest.mark.parametrize("kind", PRODUCERS, ids=lambda kind: kind.__doc__),
    # A fenced client leaves sockets behind without closing them, as its own affair.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def topic(raw, name):
    found = name("t")
    raw.create(found, 2)
    return found


def _committed(broker, group, topic):
    """What is committed; a reader of committed records would wait for the transaction's end."""
    options = {"group_id": group, "isolation_level": "read_uncommitted"}
    with confluent_consumer(broker.kafka_address, **options) as consumer:
        (place,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=WAIT_S)
        return place.offset


def _state(raw, transactional_id):
    answer = raw.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id])
    return answer.transaction_states[0].transaction_state


def test_readers_of_committed_records_see_what_was_committed(broker, topic, name, kind):
    with transactional(kind, broker, name("tx")) as producer:
        for number, end in enumerate(("commit", "abort", "commit", "abort")):
            producer.begin()
            producer.send(topic, b"%d" % number)
            producer.send(topic, b"elsewhere", partition=1)
            getattr(producer, end)()
    for client, values in READERS.items():
        assert values(broker.kafka_address, topic, "read_committed", 2) == [b"0", b"2"], client
        everything = values(broker.kafka_address, topic, "read_uncommitted", 4)
        assert everything == [b"0", b"1", b"2", b"3"], client


def test_an_open_transaction_hides_itself_and_what_comes_behind(broker, topic, name, kind):
    with transactional(kind, broker, name("tx")) as producer:
        producer.begin()
        producer.send(topic, b"open")
        with transactional(Confluent, broker, name("other")) as other:
            other.begin()
            other.send(topic, b"behind")
            other.commit()
        read = READERS["confluent"]
        both = [b"open", b"behind"]
        assert read(broker.kafka_address, topic, "read_committed", 0) == []
        assert read(broker.kafka_address, topic, "read_uncommitted", 2) == both
        producer.commit()
        assert read(broker.kafka_address, topic, "read_committed", 2) == both


def test_a_second_instance_fences_the_first(broker, raw, topic, name, kind):
    transactional_id = name("tx")
    with transactional(kind, broker, transactional_id) as first:
        first.begin()
        first.send(topic, b"of the first")
        with transactional(kind, broker, transactional_id) as second:
            second.begin()
            second.send(topic, b"of the second")
            with pytest.raises(Exception, match=r"(?i)fence|epoch"):
                first.commit()
            second.commit()
    found = READERS["confluent"](broker.kafka_address, topic, "read_committed", 1)
    assert found == [b"of the second"]
    assert _state(raw, transactional_id) == "CompleteCommit"


def test_offsets_count_with_the_commit_and_not_without(broker, topic, name, kind):
    group = name("g")
    with transactional(kind, broker, name("tx")) as producer:
        producer.begin()
        producer.send(topic, b"out")
        producer.send_offsets(group, topic, 7)
        assert _committed(broker, group, topic) < 0
        producer.commit()
        assert _committed(broker, group, topic) == 7
        producer.begin()
        producer.send(topic, b"never")
        producer.send_offsets(group, topic, 9)
        producer.abort()
        assert _committed(broker, group, topic) == 7


def test_a_transaction_that_takes_too_long_is_aborted_by_the_broker(broker, raw, topic, name, kind):
    transactional_id = name("tx")

    def scenario(time_ms):
        with transactional(kind, broker, transactional_id, timeout_ms=600 + time_ms) as producer:
            producer.begin()
            try:
                producer.send(topic, b"slow")
            except Exception as error:
                raise TooLateError from error
            deadline = time.monotonic() + WAIT_S
            while _state(raw, transactional_id) != "CompleteAbort":
                assert time.monotonic() < deadline
                time.sleep(0.05)
            with pytest.raises(Exception, match=r"(?i)fence|epoch|timed|timeout|abort"):
                producer.commit()

    unhurried(scenario)
    assert READERS["confluent"](broker.kafka_address, topic, "read_committed", 0) == []

"""What a job asks of the broker for the letters that it has selected. No Spark is needed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from itertools import count

import pytest

from goqueue.records import Record
from goqueue.spark.errors import SparkSourceError
from goqueue.spark.http_client import Http
from goqueue.spark.jobs.dead_letters.broker_redrive import redrive_named
from support.committed import committed
from support.server import start_server
from support.topic_writer import TopicWriter

__all__ = ["start_server"]

names = (f"posted-{number}" for number in count())


def letters_of(address, topic, partition, values, *, create=0):
    """Dead letters of a topic in one partition of its dead-letter topic, each in a batch."""
    said = (("goqueue-dlq-topic", topic.encode()), ("goqueue-dlq-partition", b"%d" % partition))
    with TopicWriter(address) as writer:
        if create:
            writer.create(f"{topic}.dlq", create)
        for at, value in enumerate(values):
            headers = (*said, ("n", b"%d" % at), ("goqueue-priority", b"1"))
            writer.append(f"{topic}.dlq", partition, [Record(0, 1, b"k", value, headers)])


def test_letters_that_a_topic_refuses_are_put_aside_and_the_others_go_in_order(broker):
    topic = broker.create_topic(next(names), partitions=2, settings={"max.message.bytes": 450})
    sizes = [5, 500, 40, 40, 300, 600, 5, 5, 200, 900, 901, 5, 250, 5, 1000]
    values = [b"%03d" % at + b"x" * size for at, size in enumerate(sizes)]
    letters_of(broker.kafka_address, topic, 1, values, create=2)
    everything = {1: range(len(sizes))}
    answer = redrive_named(Http(broker.http_url), f"{topic}.dlq", everything)
    large = [at for at, size in enumerate(sizes) if size > 350]
    assert answer["targets"] == {topic: answer["done"]}
    assert (answer["done"], answer["failed"]) == (len(sizes) - len(large), len(large))
    assert [(each["partition"], each["offset"]) for each in answer["refused"]] == [
        (1, at) for at in large
    ]
    assert all("max.message.bytes" in each["error"] for each in answer["refused"])
    found = broker.messages(topic)
    small = [at for at in everything[1] if at not in large]
    assert [int(each.value[:3]) for each in found] == small
    assert {each.partition for each in found} == {1}
    assert [dict(each.headers)["n"] for each in found] == [b"%d" % at for at in small]
    again = redrive_named(Http(broker.http_url), f"{topic}.dlq", everything)
    assert (again["done"], again["failed"]) == (0, len(large))


def test_only_the_letters_that_are_named_go(broker):
    topic = broker.create_topic(next(names), partitions=1)
    other = broker.create_topic(next(names), partitions=1)
    letters_of(broker.kafka_address, topic, 0, [b"%d" % at for at in range(9)], create=1)
    done = []
    answer = redrive_named(
        Http(broker.http_url), f"{topic}.dlq", {0: [1, 4, 5, 70], 3: [1]}, to=other, rate=1e9,
        on_progress=done.append,
    )  # fmt: skip
    assert (answer["targets"], answer["refused"]) == ({other: 3}, [])
    assert [each.value for each in broker.messages(other)] == [b"1", b"4", b"5"]
    assert done[-1:] in ([], [3])


def test_a_letter_whose_topic_is_gone_stays_and_whoever_stops_asking_cancels_the_rest(broker):
    topic = broker.create_topic(next(names), partitions=1)
    letters_of(broker.kafka_address, topic, 0, [b"%d" % at for at in range(50)], create=1)
    http = Http(broker.http_url)

    def interrupted(done):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        redrive_named(http, f"{topic}.dlq", {0: range(50)}, rate=10, on_progress=interrupted)
    gone = len(broker.messages(topic))
    assert 0 < gone < 50
    assert http.ask("/redrives")["redrives"][-1]["state"] == "cancelled"
    http.ask(f"/topics/{topic}", method="DELETE")
    answer = redrive_named(http, f"{topic}.dlq", {0: range(50)})
    assert (answer["done"], answer["failed"]) == (0, 50 - gone)
    assert all(each["to"] == topic for each in answer["refused"])
    with pytest.raises(SparkSourceError, match="404"):
        redrive_named(http, "absent.dlq", {0: [1]})


def test_letters_go_once_whoever_else_redrives_them_and_whenever_the_broker_is_killed(start_server):
    server = start_server()
    http = Http(server.http_url)
    with TopicWriter(server.kafka_address) as writer:
        writer.create("work", 2)
    values = [b"%d" % at for at in range(400)]
    letters_of(server.kafka_address, "work", 0, values[:200], create=2)
    letters_of(server.kafka_address, "work", 1, values[200:])
    everything = {0: range(200), 1: range(200)}
    for _ in range(3):
        asking = threading.Thread(target=_killed, args=(http, everything))
        asking.start()
        before = len(committed(server, "work"))
        http.ask("/topics/work/dlq/redrive", {"rate": 40})  # somebody else's, of the same letters
        deadline = time.monotonic() + 60
        while len(committed(server, "work")) < before + 5:
            assert time.monotonic() < deadline
        server.kill()
        asking.join(60)
        server.restart()
    last = redrive_named(http, "work.dlq", everything)
    assert 0 < last["done"] < len(values)
    found = committed(server, "work")
    assert Counter(each.value for each in found) == Counter(values)
    assert not any(http.ask(f"/topics/work/dlq?limit={n}")["letters"] for n in (1, 9))


def _killed(http, everything):
    with pytest.raises(SparkSourceError, match="run this again"):
        redrive_named(http, "work.dlq", everything, rate=40)

"""Transactions over HTTP, by clients that know nothing of Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from support.http_api import HttpApi


@pytest.fixture
def api(broker):
    client = HttpApi(broker.http_port)
    yield client
    client.close()


@pytest.fixture
def topic(api, name):
    made = name("topic")
    api.post("/topics", {"name": made, "num_partitions": 2})
    return made


class Producer:
    """A producer that speaks HTTP."""

    def __init__(self, api, name, **wishes):
        self.api, self.name = api, name
        self.told = api.post("/producers/init", {"transactional_id": name, **wishes})
        self.who = {"producer_id": self.told["producer_id"], "epoch": self.told["epoch"]}

    def ask(self, what, **fields):
        return self.api.ask("POST", f"/transactions/{what}", {**self.who, **fields})

    def do(self, what, **fields):
        return self.api.post(f"/transactions/{what}", {**self.who, **fields})


@pytest.fixture
def producer(api, name):
    return Producer(api, name("tx"))


def _values(api, topic, partition=0):
    found = api.get(f"/topics/{topic}/partitions/{partition}/messages")
    return [message["value"] for message in found["messages"]]


def test_messages_count_with_the_commit(api, producer, topic):
    opened = producer.do("begin")
    assert opened["state"] == "Ongoing"
    assert opened["transaction_id"].startswith("txn-")
    for number in range(2):
        sent = producer.do("publish", topic=topic, partition=number, value="v", key="k")
        assert sent == {"partition": number, "offset": 0, "duplicate": False}
    assert _values(api, topic) == []
    done = producer.do("commit")
    assert (done["state"], done["partitions"]) == ("CompleteCommit", {})
    assert (_values(api, topic, 0), _values(api, topic, 1)) == (["v"], ["v"])


def test_messages_of_an_aborted_transaction_are_never_seen(api, producer, topic):
    for number, end in enumerate(("abort", "commit", "abort")):
        producer.do("begin")
        producer.do("publish", topic=topic, partition=0, value=f"{number}")
        api.publish(topic, f"beside {number}", partition=0)
        producer.do(end)
    assert _values(api, topic) == ["beside 0", "1", "beside 1", "beside 2"]


def test_a_message_sent_twice_is_recognised_by_its_number(api, producer, topic):
    producer.do("begin")
    wish = {"topic": topic, "partition": 0, "value": "v", "sequence": 0}
    assert producer.do("publish", **wish) == {"partition": 0, "offset": 0, "duplicate": False}
    assert producer.do("publish", **wish) == {"partition": 0, "offset": 0, "duplicate": True}
    refused = producer.ask("publish", **(wish | {"sequence": 5}))
    assert refused.code == "out_of_order_sequence"
    producer.do("commit")
    assert _values(api, topic) == ["v"]


def test_a_key_chooses_the_partition_and_the_broker_numbers_the_messages(api, producer, topic):
    places = [
        producer.do("publish", topic=topic, key=f"key-{number}", value="v")["partition"]
        for number in range(20)
    ]
    assert set(places) == {0, 1}
    producer.do("commit")
    assert len(_values(api, topic, 0) + _values(api, topic, 1)) == 20


def test_offsets_count_with_the_commit(api, producer, topic, name):
    group = name("group")
    api.publish(topic, "a", "b", partition=0)
    for end, committed in (("abort", None), ("commit", {topic: {"0": 2}})):
        producer.do("begin")
        producer.do("offsets", group=group, offsets={topic: {"0": 2}})
        producer.do(end)
        if committed is not None:
            assert api.get(f"/groups/{group}/offsets")["offsets"] == committed
    refused = producer.ask("offsets", group=group, offsets={"absent": {"0": 1}})
    assert (refused.code, refused.json["field"]) == ("unknown_topic", "offsets.absent.0")


def test_one_producer_has_one_transaction_at_a_time(producer):
    producer.do("begin")
    refused = producer.ask("begin")
    assert (refused.status, refused.code) == (409, "transaction_open")


def test_a_second_instance_fences_the_first(api, producer, topic):
    producer.do("begin")
    producer.do("publish", topic=topic, partition=0, value="of the first")
    second = Producer(api, producer.name)
    assert second.who["epoch"] > producer.who["epoch"]
    for what in ("begin", "commit", "abort"):
        refused = producer.ask(what)
        assert (refused.status, refused.code) == (409, "fenced_producer")
    refused = producer.ask("publish", topic=topic, partition=0, value="zombie")
    assert (refused.status, refused.code) == (409, "fenced_producer")
    second.do("begin")
    second.do("publish", topic=topic, partition=0, value="of the second")
    second.do("commit")
    assert _values(api, topic) == ["of the second"]


BAD: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "unknown producer": ("begin", {"producer_id": 10**9}, 404, "unknown_producer"),
    "another id": ("begin", {"transactional_id": "not-mine"}, 404, "unknown_producer"),
    "nothing open": ("commit", {}, 409, "invalid_transaction_state"),
    "nothing to abort": ("abort", {}, 409, "invalid_transaction_state"),
    "an epoch to come": ("commit", {"epoch": 99}, 409, "fenced_producer"),
    "half an identity": ("abort", {"epoch": None}, 400, "invalid_field"),
    "an unknown topic": (
        "publish",
        {"topic": "absent", "value": "v"},
        404,
        "unknown_topic",
    ),
    "an unknown partition": (
        "add-partition",
        {"topic": "absent", "partition": 0},
        404,
        "unknown_topic",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_told_what_is_wrong_with_it(producer, what):
    path, fields, status, code = BAD[what]
    refused = producer.ask(path, **fields)
    assert (refused.status, refused.code) == (status, code)


def test_a_timeout_out_of_bounds_is_refused(api, name):
    wish = {"transactional_id": name("tx"), "transaction_timeout_ms": 16 * 60_000}
    refused = api.ask("POST", "/producers/init", wish)
    assert (refused.status, refused.code) == (400, "invalid_transaction_timeout")
    assert refused.json["field"] == "transaction_timeout_ms"


def test_a_producer_without_a_transactional_id_only_gets_a_number(api):
    first, second = (api.post("/producers/init", {}) for _ in range(2))
    assert first["producer_id"] != second["producer_id"]
    who = {"producer_id": first["producer_id"], "epoch": 0}
    assert api.ask("POST", "/transactions/begin", who).status == 404


def test_a_heartbeat_is_heard(api, producer):
    path = f"/producers/{producer.who['producer_id']}/heartbeat"
    assert api.post(path, {"epoch": producer.who["epoch"]})["state"] == "Empty"
    assert api.ask("POST", path, {"epoch": 77}).code == "fenced_producer"
    assert api.ask("POST", "/producers/987654/heartbeat", {"epoch": 0}).status == 404


def test_transactions_are_listed_counted_and_ended_by_hand(api, producer, topic):
    before = api.get("/transactions/stats")
    producer.do("add-partition", topic=topic, partition=1)
    (found,) = api.get(f"/transactions?transactional_id={producer.name}")["transactions"]
    assert (found["state"], found["partitions"]) == ("Ongoing", {topic: [1]})
    assert producer.name in {
        each["transactional_id"] for each in api.get("/transactions?state=Ongoing")["transactions"]
    }
    after = api.get("/transactions/stats")
    assert after["active"] == before["active"] + 1
    assert after["producers"] == sum(after["by_state"].values())
    ended = api.post("/transactions/abort", {"transactional_id": producer.name})
    assert ended["state"] == "CompleteAbort"
    assert producer.ask("commit").code == "fenced_producer"
    refused = api.ask("POST", "/transactions/abort", {"transactional_id": "absent"})
    assert (refused.status, refused.code) == (404, "unknown_transactional_id")


def test_transactions_are_measured(api, producer, topic, broker):
    def counted():
        text = api.metrics()
        return [
            sum(
                float(line.split()[-1])
                for line in text.splitlines()
                if line.startswith(f"goqueue_broker_{what}{{")
            )
            for what in (
                "transactions_started_total",
                "transactions_committed_total",
                "transactions_aborted_total",
                "transaction_latency_seconds_count",
            )
        ]

    before = counted()
    for end in ("commit", "abort"):
        producer.do("begin")
        producer.do(end)
    assert [after - was for after, was in zip(counted(), before, strict=True)] == [2, 1, 1, 2]

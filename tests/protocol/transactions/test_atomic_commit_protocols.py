"""Transactions that end together, over HTTP and over our own Kafka API."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from goqueue.wire.kafka.api_keys import ApiKey
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


@pytest.fixture
def write(api, topic):
    """`write(id, value)`: a transaction with the value in both partitions, still open."""

    def begin(transactional_id, value):
        told = api.post("/producers/init", {"transactional_id": transactional_id})
        who = {"producer_id": told["producer_id"], "epoch": told["epoch"]}
        for partition in range(2):
            message = {"topic": topic, "partition": partition, "value": value}
            api.post("/transactions/publish", who | message)
        return who | {"transactional_id": transactional_id}

    return begin


@pytest.fixture
def values(api, topic):
    def read():
        pages = [api.get(f"/topics/{topic}/partitions/{n}/messages") for n in range(2)]
        first, second = ([message["value"] for message in page["messages"]] for page in pages)
        assert sorted(first) == sorted(second)
        return first

    return read


def test_a_batch_is_committed_over_http_once(api, name, write, values):
    series = name("series")
    members = [write(f"{series}::{number}", f"v{number}") for number in range(3)]
    body = {"series": series, "number": 0, "members": members[:2]}
    assert values() == []
    told = api.post("/transactions/commit-together", body)
    assert told == {"series": series, "number": 0, "is_new": True}
    assert sorted(values()) == ["v0", "v1"]
    assert api.post("/transactions/commit-together", body)["is_new"] is False
    again = {**body, "members": [write(f"{series}::again", "v0")]}
    assert api.post("/transactions/commit-together", again)["is_new"] is False
    assert sorted(values()) == ["v0", "v1"]


def test_a_batch_is_given_up_over_http(api, name, write, values):
    series = name("series")
    member = write(f"{series}::0", "v")
    api.post("/transactions/abort-together", {"series": series, "number": 0})
    body = {"series": series, "number": 0, "members": [member]}
    answer = api.ask("POST", "/transactions/commit-together", body)
    assert answer[0] == 409
    assert "another instance has taken over, or its transaction took too long" in str(answer[2])
    assert values() == []


def test_a_batch_is_committed_over_our_own_kafka_api(raw, name, write, values):
    series = name("series")
    member = write(f"{series}::0", "v")
    member["producer_epoch"] = member.pop("epoch")

    def ask(number, *members, committed=True):
        return raw.ask(
            ApiKey.COMMIT_TOGETHER,
            0,
            series=series,
            number=number,
            committed=committed,
            keep_ms=60_000,
            members=members,
        )

    answer = ask(0, member | {"producer_epoch": 3})
    assert (answer.error_code, answer.is_new) == (ErrorCode.producer_fenced, False)
    assert values() == []
    answer = ask(0, member)
    assert (answer.error_code, answer.is_new) == (0, True)
    assert ask(0, member).is_new is False
    assert values() == ["v"]
    assert ask(1, committed=False).error_code == 0


def test_clients_see_that_the_api_is_there(raw):
    answer = raw.ask(ApiKey.API_VERSIONS, 0)
    (found,) = [each for each in answer.api_keys if each.api_key == ApiKey.COMMIT_TOGETHER]
    assert (found.min_version, found.max_version) == (0, 0)

"""Everything of a broker, backed up while it runs and restored into an empty one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.testing import Broker
    from support.backups import BackupApi
    from support.http_api import HttpApi

_SHARED = {"topics": ["jobs"], "assignment": "shared"}
_FAST = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}


def _producer(broker: Broker, **settings: Any) -> confluent_kafka.Producer:
    return confluent_kafka.Producer({"bootstrap.servers": broker.kafka_address, **settings})


def _consume(broker: Broker, group: str, count: int, **settings: Any) -> list[tuple[int, int]]:
    """So many messages of a group, committed: their partitions and offsets."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.kafka_address, "group.id": group, **_FAST, **settings}
    )
    consumer.subscribe(["orders"])
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append((message.partition(), message.offset()))
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def test_messages_offsets_queues_delays_transactions_schemas_users_and_settings_come_back(
    source: Broker, target: Broker, backups: Callable[..., BackupApi]
) -> None:
    source.create_topic("orders", partitions=3, settings={"retention.ms": 86_400_000})
    producer = _producer(source, **{"enable.idempotence": True})
    for number in range(600):
        producer.produce("orders", f"value {number}".encode(), key=str(number).encode())
    producer.flush()
    read = _consume(source, "billing", 250)
    api = backups(source).api

    # a queue group with one message acknowledged, and another one in flight
    source.create_topic("jobs", partitions=1)
    for number in range(3):
        source.publish("jobs", f"job {number}")
    joined = api.ask("POST", "/groups/workers/join", {**_SHARED, "visibility_timeout": "2s"})
    assert joined.status == 200, joined
    member = joined.json["member_id"]
    messages = _poll(api, member, 2)
    acked = api.ask("POST", "/messages/ack", {"receipt_handle": messages[0]["receipt_handle"]})
    assert acked.status == 200, acked

    # delayed, schema, user, setting
    delayed = api.ask(
        "POST",
        "/topics/jobs/messages",
        {"messages": [{"value": "later", "delay": "4s"}, {"value": "much later", "delay": "1h"}]},
    )
    assert delayed.status == 200, delayed
    schema = {"schema": '{"type":"record","name":"o","fields":[]}', "schemaType": "AVRO"}
    assert api.ask("POST", "/subjects/orders-value/versions", schema).status == 200
    admin = AdminClient({"bootstrap.servers": source.kafka_address})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    upsert = UserScramCredentialUpsertion("alice", info, b"secret of alice")
    admin.alter_user_scram_credentials([upsert])["alice"].result()

    # one transaction committed, one aborted, one open
    for name, end in (("t1", "commit"), ("t2", "abort"), ("t3", None)):
        writer = _producer(source, **{"transactional.id": name})
        writer.init_transactions()
        writer.begin_transaction()
        writer.produce("orders", name.encode(), partition=0)
        writer.flush()
        if end == "commit":
            writer.commit_transaction()
        elif end == "abort":
            writer.abort_transaction()
    before = {(m.partition, m.offset): m.value for m in source.messages("orders")}

    made = backups(source)
    result = made.done(made.create())
    assert result["topics"] == 2
    source.publish("orders", "after the moment")
    restored = backups(target)
    plan = restored.done(restored.restore(dry_run=True))
    assert plan["with_state"], plan
    assert target.topics() == []
    restored.done(restored.restore())

    assert sorted(target.topics()) == sorted(source.topics())
    after = {(m.partition, m.offset): m.value for m in target.messages("orders")}
    committed = {place: value for place, value in before.items() if value != b"t3"}
    assert {place: value for place, value in after.items() if value != b"t3"} == committed
    target_api = restored.api
    assert "86400000" in str(target_api.ask("GET", "/topics/orders").json)
    rest = _consume(target, "billing", 351, **{"isolation.level": "read_committed"})
    assert len(rest) == 351
    assert not set(rest) & set(read), "what was committed is not read again"
    states = {
        each["transactional_id"]: each["state"]
        for each in target_api.ask("GET", "/transactions").json["transactions"]
    }
    assert states == {"t1": "CompleteCommit", "t2": "CompleteAbort", "t3": "CompleteAbort"}
    users = AdminClient({"bootstrap.servers": target.kafka_address})
    described: Any = users.describe_user_scram_credentials()
    assert "alice" in described.result()
    assert target_api.ask("GET", "/subjects").json == ["orders-value"]
    _check_queue(target_api)


def _poll(api: HttpApi, member: str, count: int) -> list[dict[str, Any]]:
    path = f"/groups/workers/poll?member_id={member}&limit={count}&timeout=1s"
    polled = api.ask("GET", path)
    assert polled.status == 200, polled
    found: list[dict[str, Any]] = polled.json["messages"]
    return found


def _check_queue(api: HttpApi) -> None:
    """The acknowledged job is not delivered again; the others and the delayed one are."""
    values: set[bytes] = set()
    member = api.ask("POST", "/groups/workers/join", _SHARED).json["member_id"]

    def look() -> bool:
        for each in _poll(api, member, 10):
            values.add(each["value"].encode())
            api.ask("POST", "/messages/ack", {"receipt_handle": each["receipt_handle"]})
        return values >= {b"job 1", b"job 2", b"later"}

    eventually(look, "jobs 1 and 2 and the delayed one", 60)
    assert b"job 0" not in values
    waiting = api.ask("GET", "/topics/jobs/delayed").json
    assert waiting["total"] == 1, waiting


def test_a_restored_topic_takes_messages_behind_those_of_the_backup(
    source: Broker, target: Broker, backups: Callable[..., BackupApi]
) -> None:
    source.create_topic("orders", partitions=1)
    for number in range(5):
        source.publish("orders", str(number))
    made, restored = backups(source), backups(target)
    made.done(made.create(topics=["orders"]))
    restored.done(restored.restore())
    assert target.publish("orders", "next").offset == 5
    target.restart()
    assert [m.value for m in target.messages("orders")] == [*map(str.encode, "01234"), b"next"]


def test_a_topic_is_restored_under_another_name_beside_the_first(
    source: Broker, backups: Callable[..., BackupApi]
) -> None:
    source.create_topic("orders", partitions=2)
    for number in range(10):
        source.publish("orders", str(number), key=str(number))
    made = backups(source)
    made.done(made.create())
    refused = made.restore()
    assert refused["state"] == "failed"
    assert "'orders' is there already" in refused["error"]
    made.done(made.restore(topics=["ord*"], rename={"orders": "orders-again"}))
    first, second = source.messages("orders"), source.messages("orders-again")
    assert [(m.partition, m.offset, m.value) for m in first] == [
        (m.partition, m.offset, m.value) for m in second
    ]
    made.done(made.restore(skip_existing=True))


def test_a_point_in_time_gives_the_messages_up_to_it(
    source: Broker, target: Broker, backups: Callable[..., BackupApi]
) -> None:
    source.create_topic("orders", partitions=1)
    producer = _producer(source)
    for number in range(20):
        producer.produce("orders", str(number).encode(), timestamp=1_000_000_000_000 + number)
    producer.flush()
    made, restored = backups(source), backups(target)
    made.done(made.create())
    restored.done(restored.restore(to=1_000_000_000_011))
    assert [m.value for m in target.messages("orders")] == [str(n).encode() for n in range(12)]
    assert target.publish("orders", "x").offset == 12


def test_what_was_deleted_from_the_start_of_a_log_stays_deleted(
    source: Broker, target: Broker, backups: Callable[..., BackupApi]
) -> None:
    source.create_topic("orders", partitions=1)
    producer = _producer(source)
    for number in range(50):
        producer.produce("orders", str(number).encode())
    producer.flush()
    admin = AdminClient({"bootstrap.servers": source.kafka_address})
    place = confluent_kafka.TopicPartition("orders", 0, 30)
    admin.delete_records([place])[place].result()
    source.create_topic("empty", partitions=1)
    for _ in range(3):
        source.publish("empty", "x")
    gone = confluent_kafka.TopicPartition("empty", 0, 3)
    admin.delete_records([gone])[gone].result()
    made, restored = backups(source), backups(target)
    made.done(made.create())
    restored.done(restored.restore())
    assert [m.offset for m in target.messages("orders")] == list(range(30, 50))
    assert target.messages("empty") == []
    assert target.publish("empty", "y").offset == 3

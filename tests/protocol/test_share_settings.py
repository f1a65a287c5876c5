"""The settings of share groups: their defaults and bounds, and that they are obeyed."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kio.schema.errors import ErrorCode

from support import group_wire
from support.groups import FAST_GROUPS, make_topic
from support.kafka_wire import WireClient
from support.server import ServerProcess, make_server
from support.share import (
    APPEND,
    DEFAULT,
    DELETE,
    GROUP,
    OF_GROUP,
    REJECT,
    SET,
    WAIT_S,
    RawMember,
    acquired,
    change,
    configure,
    http_join,
    http_settings,
    limits_of,
    settings_of,
    store,
)
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

ALTER_CONFIGS = 33
DAY_MS: Final = 24 * 3600 * 1000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("share") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[WireClient]:
    with WireClient(server.kafka_address) as wire_client:
        yield wire_client


@pytest.fixture
def join(server: ServerProcess, topic: str) -> Iterator[Callable[[str], RawMember]]:
    """Makes members of groups that read the topic."""
    with ExitStack() as made:

        def joined(group: str) -> RawMember:
            member = made.enter_context(closing(RawMember(server, group)))
            member.heartbeat(0, [topic])
            return member

        yield joined


@pytest.fixture
def topic(server: ServerProcess, name: Callable[[str], str]) -> str:
    made = name("share")
    make_topic(server, made, 2)
    return made


@pytest.fixture
def topic_id(client: WireClient, topic: str) -> UUID:
    return group_wire.topic_id(client, topic)


def test_settings_of_groups_have_defaults_are_changed_and_go_back(
    client: WireClient, name: Callable[[str], str]
) -> None:
    group = name("settings")
    assert settings_of(client, group) == {
        "share.auto.offset.reset": ("latest", DEFAULT),
        "share.record.lock.duration.ms": ("30000", DEFAULT),
        "share.delivery.count.limit": ("5", DEFAULT),
        "share.partition.max.record.locks": ("2000", DEFAULT),
        "share.isolation.level": ("read_uncommitted", DEFAULT),
        "share.renew.acknowledge.enable": ("true", DEFAULT),
        "share.heartbeat.interval.ms": ("5000", DEFAULT),
        "share.session.timeout.ms": ("45000", DEFAULT),
    }
    limit, lock = "share.delivery.count.limit", "share.record.lock.duration.ms"
    assert change(client, group, (limit, SET, "7"), (lock, SET, "15000")) is ErrorCode.none
    assert settings_of(client, group, limit, lock) == {
        limit: ("7", OF_GROUP),
        lock: ("15000", OF_GROUP),
    }
    assert change(client, group, (limit, DELETE, None)) is ErrorCode.none
    assert settings_of(client, group, limit)[limit] == ("5", DEFAULT)
    assert change(client, group, (limit, SET, "5")) is ErrorCode.none
    assert settings_of(client, group, limit)[limit] == ("5", OF_GROUP)
    (replaced,) = client.call(
        ALTER_CONFIGS,
        2,
        resources=[
            {
                "resource_type": GROUP,
                "resource_name": group,
                "configs": [{"name": "share.isolation.level", "value": "read_committed"}],
            }
        ],
        validate_only=False,
    ).responses
    assert replaced.error_code is ErrorCode.none
    assert settings_of(client, group, lock)[lock] == ("30000", DEFAULT)
    assert settings_of(client, group)["share.isolation.level"] == ("read_committed", OF_GROUP)


@pytest.mark.parametrize(
    ("setting", "operation", "value"),
    [
        ("share.auto.offset.reset", SET, "by_duration:P1Y"),
        ("share.auto.offset.reset", SET, "by_duration:-PT1H"),
        ("share.auto.offset.reset", SET, "by_duration:"),
        ("share.auto.offset.reset", SET, "none"),
        ("share.record.lock.duration.ms", SET, "60001"),
        ("share.record.lock.duration.ms", SET, "soon"),
        ("share.delivery.count.limit", SET, "1"),
        ("share.delivery.count.limit", SET, "11"),
        ("share.partition.max.record.locks", SET, "99"),
        ("share.partition.max.record.locks", SET, "4001"),
        ("share.session.timeout.ms", SET, "60001"),
        ("share.heartbeat.interval.ms", SET, "15001"),
        ("share.renew.acknowledge.enable", SET, "maybe"),
        ("share.isolation.level", SET, "none"),
        ("share.heartbeat.interval.ms", SET, "45000"),
        ("share.auto.offset.reset", APPEND, "earliest"),
        ("nonsense", DELETE, None),
    ],
)
def test_settings_that_groups_cannot_have_are_refused_and_change_nothing(
    client: WireClient,
    name: Callable[[str], str],
    setting: str,
    operation: int,
    value: str | None,
) -> None:
    group = name("settings")
    before = settings_of(client, group)
    assert change(client, group, (setting, operation, value)) is ErrorCode.invalid_config
    assert change(client, group, (setting, operation, value), dry=True) is ErrorCode.invalid_config
    assert settings_of(client, group) == before


def test_a_dry_run_checks_and_changes_nothing(
    client: WireClient, name: Callable[[str], str]
) -> None:
    group = name("settings")
    limit = "share.delivery.count.limit"
    assert change(client, group, (limit, SET, "9"), dry=True) is ErrorCode.none
    assert settings_of(client, group, limit)[limit] == ("5", DEFAULT)
    assert change(client, "", (limit, SET, "9")) is ErrorCode.invalid_request


def test_confluents_admin_client_reads_settings_of_groups(
    server: ServerProcess, name: Callable[[str], str]
) -> None:
    group = name("settings")
    configure(server, group, delivery_count_limit=9)
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.GROUP, group)]).values()
    assert future.result(WAIT_S)["share.delivery.count.limit"].value == "9"


def test_a_group_without_settings_begins_with_what_comes_next(
    server: ServerProcess,
    topic: str,
    topic_id: UUID,
    join: Callable[[str], RawMember],
    name: Callable[[str], str],
) -> None:
    store(server, topic, ["old"])
    member = join(name("latest"))
    store(server, topic, ["new"])
    assert acquired(member.fetch([(topic_id, 0)])) == [(1, 1, 1)]


@pytest.mark.parametrize(
    ("duration", "expected"), [("PT1H", 2), ("P1DT2H3M4.5S", 2), ("P4D", 3), ("P999999D", 3)]
)
def test_a_group_begins_with_what_was_published_in_the_duration_that_it_is_set_to(
    server: ServerProcess,
    client: WireClient,
    topic: str,
    topic_id: UUID,
    *,
    join: Callable[[str], RawMember],
    name: Callable[[str], str],
    duration: str,
    expected: int,
) -> None:
    producer = Producer({"bootstrap.servers": server.kafka_address, "log_level": 0})
    now_ms = time.time_ns() // 1_000_000
    for age_ms in (3 * DAY_MS, 60_000, 0):
        producer.produce(topic, b"x", partition=0, timestamp=now_ms - age_ms)
    assert producer.flush(WAIT_S) == 0
    group = name("lately")
    reset = "share.auto.offset.reset"
    assert change(client, group, (reset, SET, f"by_duration:{duration}")) is ErrorCode.none
    assert settings_of(client, group, reset)[reset] == (f"by_duration:{duration}", OF_GROUP)
    member = join(group)
    assert acquired(member.fetch([(topic_id, 0)])) == [(3 - expected, 2, 1)]


@pytest.mark.parametrize(
    ("level", "before", "after"),
    [
        ("read_uncommitted", [(0, 2, 1)], [(4, 4, 1)]),
        ("read_committed", [(0, 0, 1)], [(2, 2, 1), (4, 4, 1)]),
    ],
)
def test_the_isolation_level_decides_on_messages_of_open_and_aborted_transactions(
    server: ServerProcess,
    topic: str,
    topic_id: UUID,
    join: Callable[[str], RawMember],
    name: Callable[[str], str],
    *,
    level: str,
    before: list[tuple[int, int, int]],
    after: list[tuple[int, int, int]],
) -> None:
    group = name("isolated")
    configure(server, group, auto_offset_reset="earliest", isolation_level=level)
    member = join(group)
    producer = Producer(
        {"bootstrap.servers": server.kafka_address, "transactional.id": group, "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    store(server, topic, ["plain"])
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    assert producer.flush(WAIT_S) == 0
    store(server, topic, ["behind"])
    assert acquired(member.fetch([(topic_id, 0)])) == before
    producer.abort_transaction(WAIT_S)
    store(server, topic, ["last"])
    found: list[tuple[int, int, int]] = []
    while len(found) < len(after):  # in a cluster a group may hear of both one after the other
        found += acquired(member.fetch(max_wait_ms=60_000))
    assert found == after


def test_a_message_of_an_aborted_transaction_is_dead_lettered_like_others(
    server: ServerProcess,
    client: WireClient,
    topic: str,
    topic_id: UUID,
    *,
    join: Callable[[str], RawMember],
    name: Callable[[str], str],
) -> None:
    group = name("uncommitted")
    configure(server, group, auto_offset_reset="earliest")
    member = join(group)
    producer = Producer(
        {"bootstrap.servers": server.kafka_address, "transactional.id": group, "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    assert producer.flush(WAIT_S) == 0
    assert acquired(member.fetch([(topic_id, 0)])) == [(0, 0, 1)]
    producer.abort_transaction(WAIT_S)
    member.acknowledge({(topic_id, 0): [(0, 0, [REJECT])]})
    dead = eventually(lambda: end_of(client, f"{topic}.dlq") or None, "the dead letter is there")
    assert dead == 1


def end_of(client: WireClient, topic: str) -> int:
    """How many messages partition 0 of a topic has."""
    answer = client.call(
        2,
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": topic,
                "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}],
            }
        ],
    )
    return max(answer.topics[0].partitions[0].offset, 0)


# --- The delivery limit --------------------------------------------------------------------------


def test_the_delivery_limit_is_5_when_a_share_consumer_was_first(
    server: ServerProcess,
    client: WireClient,
    topic: str,
    join: Callable[[str], RawMember],
    name: Callable[[str], str],
) -> None:
    group = name("share-first")
    join(group)
    http_join(server, group, topic)
    assert limits_of(server, client, group) == ("5", 5)


def test_the_delivery_limit_is_3_when_a_share_consumer_came_later(
    server: ServerProcess,
    client: WireClient,
    topic: str,
    join: Callable[[str], RawMember],
    name: Callable[[str], str],
) -> None:
    group = name("http-first")
    http_join(server, group, topic)
    join(group)
    assert limits_of(server, client, group) == ("3", 3)
    limit = "share.delivery.count.limit"
    assert change(client, group, (limit, SET, "7")) is ErrorCode.none
    assert limits_of(server, client, group) == ("7", 7)
    assert change(client, group, (limit, DELETE, None)) is ErrorCode.none
    assert limits_of(server, client, group) == ("3", 3)


def test_settings_that_were_made_before_the_first_member_came_outlive_it(
    server: ServerProcess, client: WireClient, topic: str, name: Callable[[str], str]
) -> None:
    group, other = name("set-first"), name("set-first")
    configure(server, group, delivery_count_limit=5, auto_offset_reset="latest")
    configure(server, other, auto_offset_reset="latest")
    for each in (group, other):
        http_join(server, each, topic)
        assert http_settings(server, each)["start"] == "latest"
    assert limits_of(server, client, group) == ("5", 5)
    assert limits_of(server, client, other) == ("3", 3)

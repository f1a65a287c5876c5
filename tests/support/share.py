"""Share consumers for tests: the real one, and one that says exactly what a test tells it to."""

from __future__ import annotations

import logging
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from confluent_kafka import ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kio.schema.errors import ErrorCode

from goqueue.records import Record, encode
from protocol.raw_routes import MOVED
from support.http_api import HttpApi
from support.kafka_wire import WireClient
from support.server import siblings
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from confluent_kafka import Message

    from support.server import ServerProcess

PRODUCE = 0
HEARTBEAT, DESCRIBE, FETCH, ACKNOWLEDGE = 76, 77, 78, 79
DESCRIBE_OFFSETS, ALTER_OFFSETS, DELETE_OFFSETS = 90, 91, 92
DESCRIBE_CONFIGS, INCREMENTAL = 32, 44
SET, DELETE, APPEND = range(3)
DEFAULT, OF_GROUP = 5, 8
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
GROUP: Final = 32
WAIT_S: Final = 90.0

logging.getLogger("librdkafka").setLevel(logging.CRITICAL + 1)


# --- The real one --------------------------------------------------------------------------------


def configure(server: ServerProcess, group: str, **settings: str | int) -> None:
    """Set share group settings as administrators do; `a.b` is written `a_b`, without `share`."""
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    entries = [
        ConfigEntry(
            f"share.{name.replace('_', '.')}",
            str(value),
            incremental_operation=AlterConfigOpType.SET,
        )
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)


@contextmanager
def share_consumer(
    server: ServerProcess, group: str, *topics: str, **options: Any
) -> Iterator[ShareConsumer]:
    """A share consumer that has subscribed."""
    consumer = open_consumer(server, group, *topics, **options)
    try:
        yield consumer
    finally:
        consumer.close()


def open_consumer(
    server: ServerProcess, group: str, *topics: str, explicit: bool = False, **options: Any
) -> ShareConsumer:
    settings = {
        "bootstrap.servers": server.kafka_address,
        "group.id": group,
        "share.acknowledgement.mode": "explicit" if explicit else "implicit",
        "reconnect.backoff.max.ms": 200,
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    consumer = ShareConsumer(settings, logger=logging.getLogger("librdkafka"))
    consumer.subscribe(list(topics))
    return consumer


def poll(consumer: ShareConsumer, timeout_s: float = WAIT_S) -> list[Message]:
    """The messages of the first poll that has any; none when the time is over."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        messages = list(consumer.poll(min(timeout_s, 0.5)))
        for message in messages:
            assert message.error() is None, message.error()
        if messages:
            return messages
    return []


def values(messages: Iterable[Message]) -> list[str]:
    return [message.value().decode() for message in messages]


# --- One that says what it is told ---------------------------------------------------------------


def store(server: ServerProcess, topic: str, values: Sequence[str], partition: int = 0) -> None:
    """Publish values as one batch."""
    now_ms = time.time_ns() // 1_000_000
    records = [Record(n, now_ms, None, value.encode()) for n, value in enumerate(values)]
    data = {"index": partition, "records": bytes(encode(records))}

    def stored() -> bool:
        with WireClient(server.kafka_address) as client:
            answer = client.call(
                PRODUCE,
                9,
                transactional_id=None,
                acks=-1,
                timeout=60_000,
                topic_data=[{"name": topic, "partition_data": [data]}],
            )
        code = answer.responses[0].partition_responses[0].error_code
        assert code is ErrorCode.none or code in MOVED, code
        return code is ErrorCode.none

    eventually(stored, f"{topic}-{partition} has a leader")


def wait_ms(server: ServerProcess) -> int:
    """How long a fetch waits that is to find what was published just before.

    In a cluster a group hears a moment later than the producer that a message is committed.
    """
    return 0 if len(siblings(server.kafka_port)) == 1 else 300


class RawMember:
    """A member of a share group, on a connection of its own."""

    def __init__(self, server: ServerProcess, group: str, version: int = 2) -> None:
        self.client = WireClient(server.kafka_address)
        self.group = group
        self.member_id = str(uuid4())
        self.version = version
        self.epoch = 0
        self.session_epoch = 0
        self.wait_ms = wait_ms(server)

    def close(self) -> None:
        self.client.close()

    def heartbeat(self, epoch: int | None = None, topics: Sequence[str] | None = None) -> Any:
        answer = self.client.call(
            HEARTBEAT,
            1,
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            rack_id=None,
            subscribed_topic_names=topics,
        )
        if answer.error_code is ErrorCode.none:
            self.epoch = answer.member_epoch
        return answer

    def fetch(
        self, wanted: Sequence[tuple[UUID, int]] = (), *, epoch: int | None = None, **said: Any
    ) -> Any:
        fields = self.fetch_fields(wanted, epoch=epoch, **said)
        answer = self.client.call(FETCH, self.version, **fields)
        if answer.error_code is ErrorCode.none and epoch != -1:
            self.session_epoch += 1
        return answer

    def fetch_fields(
        self,
        wanted: Sequence[tuple[UUID, int]] = (),
        *,
        epoch: int | None = None,
        acks: dict[tuple[UUID, int], list[tuple[int, int, list[int]]]] | None = None,
        max_records: int = 500,
        max_bytes: int = 50 << 20,
        max_wait_ms: int | None = None,
        batch_size: int = 500,
        forgotten: Sequence[tuple[UUID, int]] = (),
        renew: bool = False,
        mode: int = BATCH_OPTIMIZED,
    ) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.session_epoch if epoch is None else epoch,
            "max_wait": self.wait_ms if max_wait_ms is None else max_wait_ms,
            "min_bytes": 1,
            "max_bytes": max_bytes,
            "max_records": max_records,
            "batch_size": batch_size,
            "share_acquire_mode": mode,
            "is_renew_ack": renew,
            "topics": _topics(wanted, acks or {}),
            "forgotten_topics_data": [
                {"topic_id": topic_id, "partitions": [number]} for topic_id, number in forgotten
            ],
        }

    def acknowledge(
        self,
        acks: dict[tuple[UUID, int], list[tuple[int, int, list[int]]]],
        *,
        epoch: int | None = None,
        renew: bool = False,
    ) -> Any:
        answer = self.client.call(
            ACKNOWLEDGE,
            self.version,
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            is_renew_ack=renew,
            topics=_topics((), acks),
        )
        if answer.error_code is ErrorCode.none and epoch != -1:
            self.session_epoch += 1
        return answer


def _topics(
    wanted: Sequence[tuple[UUID, int]],
    acks: dict[tuple[UUID, int], list[tuple[int, int, list[int]]]],
) -> list[dict[str, Any]]:
    found: dict[UUID, list[dict[str, Any]]] = {}
    for place in dict.fromkeys((*wanted, *acks)):
        found.setdefault(place[0], []).append(
            {
                "partition_index": place[1],
                "acknowledgement_batches": [
                    {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                    for first, last, types in acks.get(place, ())
                ],
            }
        )
    return [{"topic_id": topic_id, "partitions": each} for topic_id, each in found.items()]


def partitions(answer: Any) -> dict[tuple[UUID, int], Any]:
    """What an answer says, by partition."""
    return {
        (topic.topic_id, each.partition_index): each
        for topic in answer.responses
        for each in topic.partitions
    }


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    """The ranges of the one partition that has any: first, last, and how often delivered."""
    return [
        (run.first_offset, run.last_offset, run.delivery_count)
        for each in partitions(answer).values()
        for run in each.acquired_records
    ]


# --- Settings ------------------------------------------------------------------------------------


def settings_of(client: WireClient, group: str, *names: str) -> dict[str, tuple[str, int]]:
    answer = client.call(
        DESCRIBE_CONFIGS,
        4,
        resources=[
            {
                "resource_type": GROUP,
                "resource_name": group,
                "configuration_keys": list(names) or None,
            }
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = answer.results
    assert result.error_code is ErrorCode.none
    assert all(each.documentation for each in result.configs)
    return {
        each.name: (each.value, each.config_source)
        for each in result.configs
        if each.name.startswith("share.")
    }


def change(
    client: WireClient, group: str, *changes: tuple[str, int, str | None], dry: bool = False
) -> ErrorCode:
    (result,) = client.call(
        INCREMENTAL,
        1,
        resources=[
            {
                "resource_type": GROUP,
                "resource_name": group,
                "configs": [
                    {"name": name, "config_operation": operation, "value": value}
                    for name, operation, value in changes
                ],
            }
        ],
        validate_only=dry,
    ).responses
    code: ErrorCode = result.error_code
    return code


def limits_of(server: ServerProcess, client: WireClient, group: str) -> tuple[str, int]:
    """The delivery limit of a group, as Kafka's tools and the HTTP API show it."""
    limit = "share.delivery.count.limit"
    shown = http_settings(server, group)["settings"]["max_deliveries"]
    return settings_of(client, group, limit)[limit][0], shown


def http_settings(server: ServerProcess, group: str) -> Any:
    """The settings of a queue group, as the HTTP API shows them."""
    with closing(HttpApi(server.http_port)) as api:
        return api.get(f"/groups/{group}/settings")


def http_join(server: ServerProcess, group: str, topic: str) -> None:
    """Make a member of a shared group over HTTP."""
    with closing(HttpApi(server.http_port)) as api:
        api.post(f"/groups/{group}/join", {"topics": [topic], "assignment": "shared"})

"""Settings as an administrator's requests read and change them, over a raw connection."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from kio.schema.errors import ErrorCode

from goqueue.wire.kafka.api_keys import ApiKey
from support.server import node_ids, siblings
from support.waiting import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.raw_kafka import RawKafka

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC, OF_NODE, OF_CLUSTER, OF_SERVER, DEFAULT, OF_GROUP = 1, 2, 3, 4, 5, 8


class Entry(NamedTuple):
    """One setting as DescribeConfigs tells it."""

    value: str | None
    source: int
    read_only: bool
    kind: int
    synonyms: list[tuple[str, str | None, int]]
    documentation: str | None


def eventually(check: Callable[[], object], expected: object) -> None:
    """Kafka answers before each of its threads has heard of a change."""
    deadline = time.monotonic() + WAIT_S
    while (found := check()) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


class ConfigAdmin:
    """Reads and changes settings."""

    def __init__(self, raw: RawKafka) -> None:
        self._raw = raw

    def create(
        self, topic: str, configs: Mapping[str, str | None] | None = None
    ) -> tuple[ErrorCode, str | None]:
        """Make a topic of one partition, led by the first node; the error and its message."""
        in_cluster = len(siblings(self._raw.port)) > 1
        everywhere = {"partition_index": 0, "broker_ids": node_ids(self._raw.port)}
        asked = {
            "name": topic,
            "num_partitions": -1 if in_cluster else 1,
            "replication_factor": -1 if in_cluster else 1,
            "assignments": [everywhere] if in_cluster else [],
            "configs": [{"name": k, "value": v} for k, v in (configs or {}).items()],
        }
        fields = {"topics": [asked], "timeout_ms": 30_000, "validate_only": False}
        (result,) = self._raw.ask(ApiKey.CREATE_TOPICS, 7, **fields).topics
        return ErrorCode(result.error_code), result.error_message

    def create_and_wait(self, topic: str, configs: Mapping[str, str] | None = None) -> str:
        """Make a topic, and return its name when it has a leader."""
        assert self.create(topic, configs) == (ErrorCode.none, None)
        eventually(lambda: self._has_leader(topic), expected=True)
        return topic

    def _has_leader(self, topic: str) -> bool:
        (found,) = self._raw.ask(
            ApiKey.METADATA,
            9,
            topics=[{"name": topic, "topic_id": None}],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        ).topics
        return found.error_code == 0 and found.partitions[0].leader_id >= 0

    def change(
        self,
        kind: int,
        name: str,
        changes: Mapping[str, str | None],
        operation: int = SET,
        *,
        dry: bool = False,
    ) -> tuple[ErrorCode, str | None]:
        """IncrementalAlterConfigs; returns the error and its message."""
        configs = [
            {"name": key, "config_operation": operation, "value": value}
            for key, value in changes.items()
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        (result,) = self._raw.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=dry
        ).responses
        return ErrorCode(result.error_code), result.error_message

    def replace(
        self, kind: int, name: str, configs: Mapping[str, str]
    ) -> tuple[ErrorCode, str | None]:
        """AlterConfigs; returns the error and its message."""
        entries = [{"name": key, "value": value} for key, value in configs.items()]
        resource = {"resource_type": kind, "resource_name": name, "configs": entries}
        (result,) = self._raw.ask(
            ApiKey.ALTER_CONFIGS, 2, resources=[resource], validate_only=False
        ).responses
        return ErrorCode(result.error_code), result.error_message

    def describe(self, kind: int, name: str, *keys: str) -> dict[str, Entry]:
        """DescribeConfigs of one resource that can be described."""
        code, entries = self.described(kind, name, *keys)
        assert code is ErrorCode.none
        return entries

    def described(self, kind: int, name: str, *keys: str) -> tuple[ErrorCode, dict[str, Entry]]:
        """DescribeConfigs; no keys are all."""
        resource = {
            "resource_type": kind,
            "resource_name": name,
            "configuration_keys": list(keys) or None,
        }
        (result,) = self._raw.ask(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[resource],
            include_synonyms=True,
            include_documentation=True,
        ).results
        return ErrorCode(result.error_code), {
            each.name: Entry(
                each.value,
                each.config_source,
                each.read_only,
                each.config_type,
                [(one.name, one.value, one.source) for one in each.synonyms],
                each.documentation,
            )
            for each in result.configs
        }

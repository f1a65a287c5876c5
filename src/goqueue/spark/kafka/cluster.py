"""Who leads which partition, and the few calls that planning needs, tried again until they work."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from goqueue.model.topic_partition import TopicPartition
from goqueue.spark import clock
from goqueue.spark.errors import (
    BrokerAwayError,
    BrokerRefusedError,
    ConnectionLostError,
    TopicMissingError,
)
from goqueue.spark.kafka.connection import Connection
from goqueue.spark.kafka.login import log_in
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from goqueue.spark.kafka.settings import LinkSettings
    from goqueue.wire.kafka.reading import Struct

_log = logging.getLogger(__name__)

METADATA_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 7
FIND_COORDINATOR_VERSION: Final = 4
OFFSET_COMMIT_VERSION: Final = 8
"""All of them are old enough for every broker that names topics by id, and new enough to do so."""

LATEST: Final = -1
EARLIEST: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
_NO_GENERATION: Final = -1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as the broker describes it."""

    name: str
    topic_id: str
    partitions: tuple[int, ...]
    is_internal: bool = False


class TryAgainError(BrokerAwayError):
    """The broker answers that it cannot answer yet."""


def check_code(code: int, what: str) -> None:
    """Raise what an error code means: try again, or give up.

    Raises:
        TryAgainError: the same request may work a moment later.
        BrokerRefusedError: it never will.
    """
    if not code:
        return
    known = ErrorCode(code)
    if known.retriable:
        raise TryAgainError(f"{what}: {known.name}")
    raise BrokerRefusedError(f"{what}: the broker answers {known.name}", code)


class Cluster:
    """Connections to the brokers of one cluster, made when they are needed."""

    def __init__(self, settings: LinkSettings) -> None:
        self.settings: Final = settings
        self._open: dict[tuple[str, int], Connection] = {}
        self._nodes: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the next call reconnects."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    # --- Trying again ----------------------------------------------------------------------------

    def retry(self, what: str, action: Callable[[], T]) -> T:
        """Do it again, on new connections, until it works or `patience_s` has passed.

        Raises:
            BrokerAwayError: it never worked; says what happened last.
        """
        settings = self.settings
        started = clock.monotonic_s()
        pause_s = settings.retry_backoff_s
        while True:
            try:
                return action()
            except BrokerAwayError as error:
                self.close()
                self._leaders.clear()
                waited_s = clock.monotonic_s() - started
                if waited_s + pause_s > settings.patience_s:
                    raise BrokerAwayError(
                        f"{what}: gave up on {settings.addresses} after {waited_s:.0f} s "
                        f"(kafka.default.api.timeout.ms); last: {error}"
                    ) from None  # it is in the sentence, and Spark would print every chain of it
                _log.info("%s: %s; trying again in %.1f s", what, error, pause_s)
            clock.sleep(pause_s)
            pause_s = min(pause_s * 2, settings.max_backoff_s)

    # --- Connections -----------------------------------------------------------------------------

    def leader_of(self, place: TopicPartition) -> int:
        """The id of the broker that leads a partition.

        Raises:
            TopicMissingError: there is no such partition.
            TryAgainError: nobody leads it at the moment.
        """
        if place not in self._leaders:
            self._describe([place[0]])
        leader = self._leaders.get(place)
        if leader is None:
            raise TopicMissingError(f"there is no partition {place[1]} of topic {place[0]!r}")
        if leader not in self._nodes:
            del self._leaders[place]
            raise TryAgainError(f"{place[0]}-{place[1]} has no leader")
        return leader

    def forget_leaders(self) -> None:
        """Ask again before the next use."""
        self._leaders.clear()

    def to_node(self, node_id: int) -> Connection:
        """A connection to one broker.

        Raises:
            TryAgainError: it is no longer one of the cluster.
        """
        if node_id not in self._nodes:
            raise TryAgainError(f"there is no broker {node_id} any more")
        return self._to(self._nodes[node_id])

    def nodes(self) -> list[int]:
        """The brokers that there were when topics were last looked up."""
        return sorted(self._nodes)

    def to_any(self) -> Connection:
        """A connection to whoever answers."""
        for connection in self._open.values():
            if connection.is_open:
                return connection
        failure: ConnectionLostError | None = None
        for address in self.settings.servers:
            try:
                return self._to(address)
            except ConnectionLostError as error:
                failure = error
        raise failure or ConnectionLostError("no servers are named")

    def _to(self, address: tuple[str, int]) -> Connection:
        found = self._open.get(address)
        if found is None or not found.is_open:
            found = Connection(*address, self.settings)
            try:
                log_in(found, self.settings.security)
            except BaseException:
                found.close()
                raise
            self._open[address] = found
        return found

    # --- What there is ---------------------------------------------------------------------------

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicView]:
        """The topics of these names that exist; None asks for all."""
        wanted = None if names is None else sorted(set(names))
        return self.retry("looking up topics", lambda: self._describe(wanted))

    def _describe(self, names: list[str] | None) -> dict[str, TopicView]:
        answer = self.to_any().call(
            ApiKey.METADATA,
            METADATA_VERSION,
            topics=None if names is None else [{"topic_id": None, "name": name} for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        self._nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        found = {}
        for topic in answer.topics:
            if topic.error_code == ErrorCode.unknown_topic_or_partition:
                continue
            check_code(topic.error_code, f"topic {topic.name!r}")
            found[topic.name] = self._remember(topic)
        return found

    def _remember(self, topic: Struct) -> TopicView:
        for partition in topic.partitions:
            self._leaders[TopicPartition(topic.name, partition.partition_index)] = (
                partition.leader_id
            )
        numbers = sorted(partition.partition_index for partition in topic.partitions)
        return TopicView(topic.name, str(topic.topic_id), tuple(numbers), topic.is_internal)

    # --- Offsets ---------------------------------------------------------------------------------

    def offsets_at(
        self, moments: Mapping[TopicPartition, int], isolation: int
    ) -> dict[TopicPartition, int]:
        """The offset of a moment in each partition, `LATEST` and `EARLIEST` among them.

        -1 where no message is that young.
        """
        return self.retry("looking up offsets", lambda: self._offsets_at(moments, isolation))

    def _offsets_at(
        self, moments: Mapping[TopicPartition, int], isolation: int
    ) -> dict[TopicPartition, int]:
        by_leader: dict[int, dict[str, list[dict[str, int]]]] = {}
        for (topic, number), moment in moments.items():
            topics = by_leader.setdefault(self.leader_of(TopicPartition(topic, number)), {})
            asked = {"partition_index": number, "timestamp": moment}
            topics.setdefault(topic, []).append(asked)
        found: dict[TopicPartition, int] = {}
        for node_id, topics in by_leader.items():
            answer = self.to_node(node_id).call(
                ApiKey.LIST_OFFSETS,
                LIST_OFFSETS_VERSION,
                replica_id=-1,
                isolation_level=isolation,
                topics=_named(topics),
            )
            for topic in answer.topics:
                for each in topic.partitions:
                    check_code(each.error_code, f"offsets of {topic.name}-{each.partition_index}")
                    found[TopicPartition(topic.name, each.partition_index)] = each.offset
        return found

    # --- Groups ----------------------------------------------------------------------------------

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store how far a group has read, as a consumer without a membership."""
        self.retry(f"committing for group {group!r}", lambda: self._commit(group, offsets))

    def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, number), offset in offsets.items():
            place = {"partition_index": number, "committed_offset": offset}
            topics.setdefault(topic, []).append(place | {"committed_metadata": "spark"})
        answer = self.coordinator(GROUP_KEY, group).call(
            ApiKey.OFFSET_COMMIT,
            OFFSET_COMMIT_VERSION,
            group_id=group,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id="",
            group_instance_id=None,
            topics=_named(topics),
        )
        for topic in answer.topics:
            for each in topic.partitions:
                check_code(each.error_code, f"{topic.name}-{each.partition_index}")

    def coordinator(self, kind: int, key: str) -> Connection:
        """A connection to the coordinator of a group, a transactional id or a series."""
        ((connection, _),) = self.coordinators(kind, [key])
        return connection

    def coordinators(self, kind: int, keys: list[str]) -> list[tuple[Connection, list[str]]]:
        """Connections to the coordinators of some keys, each with the keys that it coordinates."""
        answer = self.to_any().call(
            ApiKey.FIND_COORDINATOR,
            FIND_COORDINATOR_VERSION,
            key_type=kind,
            coordinator_keys=keys,
        )
        by_address: dict[tuple[str, int], list[str]] = {}
        for each in answer.coordinators:
            check_code(each.error_code, f"coordinator of {each.key!r}")
            by_address.setdefault((each.host, each.port), []).append(each.key)
        return [(self._to(address), some) for address, some in by_address.items()]


def _named(topics: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": places} for name, places in topics.items()]

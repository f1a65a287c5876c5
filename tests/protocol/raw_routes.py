"""Where a raw request goes in a cluster: a Kafka client would know, and a test does not say.

Requests about a group or a transaction go to its coordinator, those about partitions to the leader
of the first one, those about the settings of a node to that node, everything else to the node that
the test has connected to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.reading import Struct
from support.server import siblings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MOVED: Final = frozenset({5, 6, 14, 15, 16})
"""No leader, not the leader, no coordinator, one that loads, not the coordinator: ask again."""

_OF_PARTITIONS: Final = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.WRITE_TXN_MARKERS,
}
_OF_TRANSACTIONS: Final = {ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.COMMIT_TOGETHER}
"""Which name a group as well, or no id."""
_OF_SETTINGS: Final = {
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
}
_BROKER: Final = 4
"""The type of a node among what has settings."""
_ANYWHERE: Final = {ApiKey.FIND_COORDINATOR, ApiKey.PRODUCE}
_GROUP, _TRANSACTION = 0, 1


def port_for(ask: Callable[..., Struct], port: int, key: ApiKey, fields: dict[str, Any]) -> int:
    """The port of the node that serves a request; `ask` asks the node at `port`."""
    if len(siblings(port)) == 1:
        return port
    if key in _OF_PARTITIONS and not _is_of_queue(fields):
        leaders = (_leader(ask, *place) for place in _places(fields))
        return next((leader for leader in leaders if leader is not None), port)
    if key in _ANYWHERE:
        return port
    if key in _OF_SETTINGS:
        return next(_nodes_named(fields, siblings(port)), port)
    if key in _OF_TRANSACTIONS:
        named = fields.get("transactional_id") or fields.get("series") or ""
        return _coordinator(ask, port, _TRANSACTION, named)
    group = fields.get("group_id") or _first(fields, "groups_names", "group_ids", "groups")
    if group:
        return _coordinator(ask, port, _GROUP, group)
    transactional = fields.get("transactional_id") or _first(
        fields, "transactions", "transactional_ids"
    )
    transactional = transactional or fields.get("v3_and_below_transactional_id")
    if isinstance(transactional, str):
        return _coordinator(ask, port, _TRANSACTION, transactional)
    return port


def _nodes_named(fields: dict[str, Any], ports: tuple[int, ...]) -> Iterator[int]:
    """The ports of nodes whose settings a request names."""
    known = {str(number): port for number, port in enumerate(ports, start=1)}
    for each in fields["resources"]:
        if each["resource_type"] == _BROKER and each["resource_name"] in known:
            yield known[each["resource_name"]]


def _is_of_queue(fields: dict[str, Any]) -> bool:
    """Whether a request is one of our own clients, which ask the coordinator for messages."""
    return bool(fields.get("with_receipts")) or any(
        each.get("settlements")
        for topic in fields.get("topics") or ()
        for each in topic.get("partitions") or ()
        if isinstance(each, dict)
    )


def _first(fields: dict[str, Any], *names: str) -> str | None:
    for name in names:
        for each in fields.get(name) or ():
            is_named = isinstance(each, dict)
            key = each.get("group_id") or each.get("transactional_id") if is_named else each
            if isinstance(key, str):
                return key
    return None


def _places(fields: dict[str, Any]) -> Iterator[tuple[str | UUID, int]]:
    marked = (topic for marker in fields.get("markers") or () for topic in marker["topics"])
    for topic in (*(fields.get("topics") or ()), *(fields.get("topic_data") or ()), *marked):
        name = topic.get("name") or topic.get("topic") or topic.get("topic_id")
        for each in (
            topic.get("partitions")
            or topic.get("partition_data")
            or (topic.get("partition_indexes") or ())
        ):
            number = each
            if isinstance(each, dict):
                found = (each.get(known) for known in ("index", "partition", "partition_index"))
                number = next(value for value in found if value is not None)
            if name is not None:
                yield name, number


def _leader(ask: Callable[..., Struct], topic: str | UUID, number: int) -> int | None:
    named = {"name": None, "topic_id": topic} if isinstance(topic, UUID) else {"name": topic}
    answer = ask(
        ApiKey.METADATA,
        12,
        topics=[{"topic_id": UUID(int=0), **named}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    ports = {each.node_id: each.port for each in answer.brokers}
    for each in answer.topics:
        for partition in each.partitions:
            if partition.partition_index == number:
                return ports.get(partition.leader_id)
    return None


def _coordinator(ask: Callable[..., Struct], port: int, kind: int, key: str) -> int:
    answer = ask(ApiKey.FIND_COORDINATOR, 4, key_type=kind, coordinator_keys=[key])
    (found,) = answer.coordinators
    return int(found.port) if found.error_code == 0 else port


def has_moved(answer: Any) -> bool:
    """Whether an answer says somewhere that another node is to be asked, or the same later."""
    if isinstance(answer, list | tuple):
        return any(has_moved(each) for each in answer)
    if not isinstance(answer, Struct):
        return False
    values = vars(answer)
    codes = (values.get(name, 0) for name in ("error_code", "partition_error_code"))
    return any(code in MOVED for code in codes) or any(map(has_moved, values.values()))

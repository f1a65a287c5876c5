"""Every message by its API, version and direction: Kafka's, with our own fields, and our own."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.kafka_schemas import kafka_schema, kafka_versions
from goqueue.wire.kafka.own_fields import with_own_fields
from goqueue.wire.kafka.schema import Direction, Field, Schema

OWN_FROM: Final = 20_000
"""APIs of our own have numbers from here on, far from what Kafka may come to use, and no versions
but 0 so far."""


def versions(api_key: int) -> range:
    """The versions of an API that there are schemas for."""
    return range(1) if api_key >= OWN_FROM else kafka_versions(api_key)


@cache
def schema_of(api_key: int, version: int, direction: Direction) -> Schema:
    """The schema of one message; loaded on first use, then kept."""
    if api_key >= OWN_FROM:
        return own_schema(api_key, direction)
    return with_own_fields(kafka_schema(api_key, version, direction))


def field_of_any_version(schema: Schema, name: str) -> Field | None:
    """The field of this name in the newest version of a message that has it, if there is one.

    This is what tells "this version lacks the field" from a misspelt name.
    """
    return _find_field(schema.api_key, schema.direction, schema.path, name)


@cache
def _find_field(
    api_key: int, direction: Direction, path: tuple[str, ...], name: str
) -> Field | None:
    for version in reversed(versions(api_key)):
        schema: Schema | None = schema_of(api_key, version, direction)
        for step in path:
            parent = schema.by_name.get(step) if schema else None
            schema = parent.schema if parent else None
        if schema and name in schema.by_name:
            return schema.by_name[name]
    return None


_Fields = tuple[tuple[str, Any], ...]
"""Names and kinds; a tuple instead of a kind is an array of structs."""

_MESSAGES: Final[dict[tuple[int, Direction], _Fields]] = {
    (ApiKey.COMMIT_TOGETHER, "request"): (
        ("series", "string"),
        ("number", "int64"),
        ("committed", "bool"),
        ("keep_ms", "int64"),
        (
            "members",
            (("transactional_id", "string"), ("producer_id", "int64"), ("producer_epoch", "int16")),
        ),
    ),
    (ApiKey.COMMIT_TOGETHER, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("is_new", "bool"),
    ),
    (ApiKey.CALL_HTTP, "request"): (
        ("method", "string"),
        ("target", "string"),
        ("headers", (("name", "string"), ("value", "string"))),
        ("body", "bytes"),
    ),
    (ApiKey.CALL_HTTP, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("status", "int16"),
        ("error_name", "string"),
        ("error_details", (("name", "string"), ("value", "string"))),
        ("headers", (("name", "string"), ("value", "string"))),
        ("body", "bytes"),
    ),
    (ApiKey.FIND_PRODUCERS, "request"): (("producers", (("producer_id", "int64"),)),),
    (ApiKey.FIND_PRODUCERS, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("shards", (("number", "int32"),)),
        (
            "producers",
            (
                ("transactional_id", "string"),
                ("producer_id", "int64"),
                ("is_open", "bool"),
                ("partitions", (("topic", "string"), ("partition_index", "int32"))),
            ),
        ),
    ),
    (ApiKey.CALL_GRPC, "request"): (
        ("method", "string"),
        ("client", "string"),
        ("principal", "string"),
        ("is_last", "bool"),
        ("messages", (("data", "bytes"),)),
    ),
    (ApiKey.CALL_GRPC, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("is_ended", "bool"),
        ("status", "int32"),
        ("details", "string"),
        ("trailers", (("name", "string"), ("value", "bytes"))),
        ("messages", (("data", "bytes"),)),
    ),
    (ApiKey.HELLO, "request"): (
        ("cluster_id", "string"),
        ("node_id", "int32"),
        ("incarnation", "int64"),
        ("level", "int16"),
        ("nonce", "bytes"),
        ("proof", "bytes"),
    ),
    (ApiKey.HELLO, "response"): (
        ("error_code", "error_code"),
        ("error_message", "string"),
        ("cluster_id", "string"),
        ("node_id", "int32"),
        ("incarnation", "int64"),
        ("level", "int16"),
        ("nonce", "bytes"),
        ("proof", "bytes"),
    ),
    (ApiKey.LOG_ENDS, "request"): (
        ("partitions", (("topic_id", "uuid"), ("partition_index", "int32"))),
    ),
    (ApiKey.LOG_ENDS, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("incarnation", "int64"),
        (
            "partitions",
            (
                ("topic_id", "uuid"),
                ("partition_index", "int32"),
                ("last_epoch", "int32"),
                ("start_offset", "int64"),
                ("end_offset", "int64"),
            ),
        ),
    ),
    (ApiKey.READ_BATCHES, "request"): (
        ("topic_id", "uuid"),
        ("partition_index", "int32"),
        ("offset", "int64"),
    ),
    (ApiKey.READ_BATCHES, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("batches", "bytes"),
    ),
    (ApiKey.HAND_OVER, "request"): (
        ("topic_id", "uuid"),
        ("partition_index", "int32"),
        ("is_published", "bool"),
        ("delivery", "bool"),
        ("traced", "bool"),
        ("batch", "bytes"),
    ),
    (ApiKey.HAND_OVER, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("error_name", "string"),
        ("error_message", "string"),
        ("first_offset", "int64"),
        ("end_offset", "int64"),
    ),
    (ApiKey.FIND_BATCHES, "request"): (
        ("topic_id", "uuid"),
        ("partition_index", "int32"),
        ("producer_id", "int64"),
        ("producer_epoch", "int16"),
        ("from_offset", "int64"),
    ),
    (ApiKey.FIND_BATCHES, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("error_name", "string"),
        ("error_message", "string"),
        ("next_sequence", "int32"),
        ("end_offset", "int64"),
        ("batches", (("base_sequence", "int32"),)),
    ),
    (ApiKey.FIND_RESTS, "request"): (
        ("topic_id", "uuid"),
        ("partition_index", "int32"),
        (
            "batches",
            (
                ("producer_id", "int64"),
                ("producer_epoch", "int16"),
                ("base_sequence", "int32"),
                ("leader_epoch", "int32"),
                ("end_offset", "int64"),
                ("first_id", "int64"),
            ),
        ),
    ),
    (ApiKey.FIND_RESTS, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("error_name", "string"),
        ("error_message", "string"),
        ("batches", (("rest", "int8"),)),
    ),
    (ApiKey.SHARE_TURN, "request"): (
        ("group_id", "string"),
        ("member_id", "string"),
        ("in_doubt", "bool"),
        ("is_closing", "bool"),
        ("must_exist", "bool"),
        ("is_acquiring", "bool"),
        ("max_records", "int32"),
        ("max_wait_ms", "int32"),
        ("max_bytes", "int32"),
        ("rounds_up", "bool"),
        ("batch_size", "int32"),
        (
            "partitions",
            (
                ("topic_id", "uuid"),
                ("partition_index", "int32"),
                ("acknowledged", "bytes"),
                ("is_closed", "bool"),
                ("is_wanted", "bool"),
            ),
        ),
    ),
    (ApiKey.SHARE_TURN, "response"): (
        ("error_code", "error_code"),
        ("error_name", "string"),
        ("error_message", "string"),
        ("lock_ms", "int32"),
        (
            "partitions",
            (
                ("topic_id", "uuid"),
                ("partition_index", "int32"),
                ("is_acknowledged", "bool"),
                ("error_code", "error_code"),
                ("error_name", "string"),
                ("error_message", "string"),
                ("acquired", "bytes"),
            ),
        ),
    ),
    (ApiKey.PARTITION_FIGURES, "request"): (
        ("run", "int64"),
        ("version", "int64"),
        ("topic_ids", (("topic_id", "uuid"),)),
    ),
    (ApiKey.PARTITION_FIGURES, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("run", "int64"),
        ("version", "int64"),
        ("partitions", "bytes"),
    ),
    (ApiKey.WATCH_SOURCES, "request"): (
        ("max_wait_ms", "int32"),
        (
            "partitions",
            (
                ("topic_id", "uuid"),
                ("partition_index", "int32"),
                ("leader_epoch", "int32"),
                ("high_watermark", "int64"),
                ("last_stable", "int64"),
                ("log_start", "int64"),
                ("marker_known", "int64"),
            ),
        ),
    ),
    (ApiKey.WATCH_SOURCES, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        (
            "partitions",
            (
                ("topic_id", "uuid"),
                ("partition_index", "int32"),
                ("error_code", "error_code"),
                ("leader_epoch", "int32"),
                ("log_start", "int64"),
                ("high_watermark", "int64"),
                ("last_stable", "int64"),
                ("lane_runs", "bytes"),
                ("aborted", "bytes"),
            ),
        ),
    ),
    (ApiKey.SETTLE_RECEIPTS, "request"): (
        ("group_id", "string"),
        ("verdict", "string"),
        ("reason", "string"),
        ("delay_ms", "int64"),
        ("principal", "bytes"),
        ("host", "string"),
        ("receipts", (("receipt", "string"),)),
    ),
    (ApiKey.SETTLE_RECEIPTS, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("error_name", "string"),
        ("error_message", "string"),
        (
            "outcomes",
            (("error_name", "string"), ("message", "string"), ("is_done", "int8")),
        ),
    ),
    (ApiKey.VIEW_REACHED, "request"): (("revision", "int64"),),
    (ApiKey.VIEW_REACHED, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("is_reached", "bool"),
    ),
    (ApiKey.TRACE_EVENTS, "request"): (("events", "bytes"),),
    (ApiKey.TRACE_EVENTS, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("heard", "bytes"),
    ),
    (ApiKey.BACKUP_PART, "request"): (
        ("token", "string"),
        ("action", "string"),
        ("asked", "bytes"),
    ),
    (ApiKey.BACKUP_PART, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("error_name", "string"),
        ("error_message", "string"),
        ("answer", "bytes"),
    ),
    (ApiKey.STATE_APPLIED, "request"): (("topic", "string"), ("end_offset", "int64")),
    (ApiKey.STATE_APPLIED, "response"): (
        ("throttle_time_ms", "int32"),
        ("error_code", "error_code"),
        ("is_applied", "bool"),
    ),
}
_DEFAULTS: Final = {"string": "", "bytes": b"", "bool": False}


def own_schema(api_key: int, direction: Direction) -> Schema:
    """The schema of one of our own messages, in its only version."""
    return _schema(api_key, direction, (), _MESSAGES[api_key, direction])


def _schema(api_key: int, direction: Direction, path: tuple[str, ...], fields: _Fields) -> Schema:
    return Schema(
        api_key=api_key,
        version=0,
        direction=direction,
        path=path,
        flexible=False,
        has_flexible_header=False,
        fields=tuple(_field(api_key, direction, path, *each) for each in fields),
    )


def _field(
    api_key: int, direction: Direction, path: tuple[str, ...], name: str, kind: Any
) -> Field:
    is_array = isinstance(kind, tuple)
    return Field(
        name=name,
        kind="struct" if is_array else kind,
        is_array=is_array,
        nullable=False,
        tag=None,
        schema=_schema(api_key, direction, (*path, name), kind) if is_array else None,
        has_default=False,
        default=() if is_array else _DEFAULTS.get(kind, 0),
    )

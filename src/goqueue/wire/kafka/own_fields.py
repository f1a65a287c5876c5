"""Our own fields in Kafka's messages: what queue groups know and share groups cannot say.

They are tagged fields with numbers far from Kafka's. Clients and brokers that do not know them skip
them, and the broker answers with them only to clients that have sent theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.schema import Field, Schema

if TYPE_CHECKING:
    from goqueue.wire.kafka.schema import Direction

FIRST_TAG: Final = 10_000
"""Fields of a struct have numbers from here on, in the order in which they are listed."""

_Fields: TypeAlias = "tuple[tuple[str, Any, Any], ...]"
"""Names, kinds and defaults, None where null is allowed. In place of a kind: the fields of a
struct; a list of them is an array."""
_REQUIRED: Final = object()
"""In place of a default: the field must be written."""

_SETTLEMENTS: Final = [
    ("acknowledge_type", "int8", _REQUIRED),
    ("delay_ms", "int64", -1),
    ("reason", "string", None),
    ("ranges", "bytes", _REQUIRED),
    ("nonces", "bytes", _REQUIRED),
]
"""What became of messages: ranges of offsets (`share_fetch.RANGE`), and the nonces of the
deliveries, eight bytes each, in the same order."""
_FAILURES: Final = [
    ("offset", "int64", _REQUIRED),
    ("nonce", "uint64", _REQUIRED),
    ("error_name", "string", _REQUIRED),
    ("message", "string", _REQUIRED),
    ("is_done", "int8", 0),
]
"""Messages of settlements that do not count, and why."""

_OWN: Final[dict[tuple[int, Direction], dict[tuple[str, ...], _Fields]]] = {
    (ApiKey.PRODUCE, "response"): {
        ("responses", "partition_responses"): (
            ("delayed", "bytes", b""),
            ("error_name", "string", None),
            ("is_duplicate", "bool", False),
        )
    },
    (ApiKey.SHARE_GROUP_HEARTBEAT, "request"): {
        (): (
            (
                "queue",
                (
                    ("mode", "int8", 0),
                    ("visibility_ms", "int64", 0),
                    ("max_deliveries", "int32", 0),
                    ("max_unacked", "int32", 0),
                    ("start_at_latest", "bool", False),
                    ("is_draining", "bool", False),
                ),
                None,
            ),
        )
    },
    (ApiKey.SHARE_GROUP_HEARTBEAT, "response"): {
        (): (("visibility_ms", "int64", 0), ("error_name", "string", None))
    },
    (ApiKey.SHARE_FETCH, "request"): {
        (): (("with_receipts", "bool", False), ("visibility_ms", "int64", 0)),
        ("topics", "partitions"): (("settlements", _SETTLEMENTS, ()),),
    },
    (ApiKey.SHARE_FETCH, "response"): {
        (): (("error_name", "string", None),),
        ("responses", "partitions"): (
            ("nonces", "bytes", b""),
            ("lanes", "bytes", b""),
            ("visible_until_ms", "int64", 0),
            ("failures", _FAILURES, ()),
            ("error_name", "string", None),
        ),
    },
    (ApiKey.SHARE_ACKNOWLEDGE, "request"): {
        ("topics", "partitions"): (("settlements", _SETTLEMENTS, ()),)
    },
    (ApiKey.SHARE_ACKNOWLEDGE, "response"): {
        (): (("error_name", "string", None),),
        ("responses", "partitions"): (
            ("failures", _FAILURES, ()),
            ("error_name", "string", None),
        ),
    },
}


def with_own_fields(schema: Schema) -> Schema:
    """A message of Kafka's, with our fields where we have some."""
    own = _OWN.get((schema.api_key, schema.direction))
    return schema if own is None or not schema.flexible else _extended(schema, own)


def _extended(schema: Schema, own: dict[tuple[str, ...], _Fields]) -> Schema:
    fields = [
        field if field.schema is None else replace(field, schema=_extended(field.schema, own))
        for field in schema.fields
    ]
    for tag, declared in enumerate(own.get(schema.path, ()), FIRST_TAG):
        fields.append(_field(schema, *declared, tag=tag))
    return replace(schema, fields=tuple(fields))


def _field(home: Schema, name: str, kind: Any, default: Any, tag: int | None = None) -> Field:
    is_struct = not isinstance(kind, str)
    return Field(
        name=name,
        kind="struct" if is_struct else kind,
        is_array=isinstance(kind, list),
        nullable=default is None,
        tag=tag,
        schema=_struct(home, name, kind) if is_struct else None,
        has_default=default is not _REQUIRED,
        default=_EMPTY.get(kind, 0) if default is _REQUIRED else default,
    )


_EMPTY: Final[dict[str, Any]] = {"string": "", "bytes": b""}


def _struct(home: Schema, name: str, fields: _Fields) -> Schema:
    inner = replace(home, path=(*home.path, name), fields=())
    return replace(inner, fields=tuple(_field(inner, *each) for each in fields))

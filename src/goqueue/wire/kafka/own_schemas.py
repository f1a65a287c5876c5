"""The messages of APIs that Kafka does not have, written down as `kio_schemas` derives Kafka's."""

from __future__ import annotations

from typing import Any, Final

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.schema import Direction, Field, Schema

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
}
_DEFAULTS: Final = {"string": "", "bool": False}


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

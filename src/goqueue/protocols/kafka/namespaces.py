"""Names of a tenant's clients, translated in one place: behind the parser, before the encoder.

Handlers see and answer names as they are inside (`tenant.name`). Which fields of a message are
names follows from what they are called; tests hold that against Kafka's own definitions.

The answers that are encoded by hand, to Produce and Fetch, are translated where that is done: see
`goqueue.protocols.kafka.tenant_names`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.groups.consumer.protocol import renamed_assignment, renamed_subscription
from goqueue.model.errors import InvalidRegularExpressionError
from goqueue.model.patterns import whole_match
from goqueue.protocols.kafka.tenant_names import fetch_inside, produce_inside
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.fetch import FetchRequest
from goqueue.wire.kafka.frames import Encoded
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.produce import ProduceRequest
from goqueue.wire.kafka.reading import Struct, reader_of
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of

if TYPE_CHECKING:
    from goqueue.access.tenants.namespace import Namespace
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.schema import Field, Schema

Translate: TypeAlias = Callable[[Any, "Namespace"], Any]
"""From the value of a field to that on the other side."""

_NAMES: Final = frozenset(
    {
        "group_id",
        "group_ids",
        "groups_names",
        "transactional_id",
        "transactional_ids",
        "v3_and_below_transactional_id",
        "topic",
        "topic_name",
        "topic_names",
        "subscribed_topic_names",
        "source_topics",
        "repartition_sink_topics",
    }
)
"""Fields that are names wherever they are."""
_NAMED_ELEMENTS: Final = frozenset(
    {
        "topics",
        "topic_data",
        "responses",
        "results",
        "topic_results",
        "v3_and_below_topics",
        "results_by_topic_v3_and_below",
        "state_changelog_topics",
        "repartition_source_topics",
    }
)
"""Arrays of structs that have a `name` in the namespace."""
_OTHER_NAMES: Final = frozenset(
    {
        (ApiKey.FIND_COORDINATOR, "key"),
        (ApiKey.FIND_COORDINATOR, "coordinator_keys"),
        (ApiKey.DESCRIBE_GROUPS, "groups"),
        (ApiKey.COMMIT_TOGETHER, "series"),
    }
)
_LEFT: Final = frozenset({ApiKey.DESCRIBE_QUORUM, ApiKey.CALL_HTTP})
"""Their names are Kafka's own, or are translated by the HTTP API."""
_PATTERNS: Final = frozenset(
    {"subscribed_topic_regex", "source_topic_regex", "transactional_id_pattern"}
)
_TEXTS: Final = frozenset(
    {"error_message", "batch_index_error_message", "status_detail", "message"}
)
_SUBSCRIPTIONS: Final = frozenset({"metadata", "member_metadata"})
_ASSIGNMENTS: Final = frozenset({"assignment", "member_assignment"})
_CONFIGS: Final = frozenset({2, 32})
"""Kafka's numbers of topics and groups, where a request names something that has settings."""
_BY_HAND: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""Their encoded answers have no names in them, or such as are translated already."""


def request_inside(ctx: RequestContext, request: Any) -> Any:
    """What a tenant's client asks for, in the names inside."""
    namespace = ctx.peer.session.namespace
    assert namespace is not None  # or there is nothing to translate
    if isinstance(request, Struct):
        translate = _translator(schema_of(ctx.api_key, ctx.version, "request"))
        return request if translate is None else translate(request, namespace)
    if isinstance(request, ProduceRequest):
        return produce_inside(request, namespace)
    return fetch_inside(request, namespace) if isinstance(request, FetchRequest) else request


def response_outside(ctx: RequestContext, response: Response) -> Response:
    """An answer in the names that a tenant's client knows.

    Raises:
        InvariantError: it names something of somebody else.
    """
    key, namespace = ctx.api_key, ctx.peer.session.namespace
    assert namespace is not None  # as above
    if not isinstance(response, dict | Encoded) or (
        isinstance(response, Encoded) and key in _BY_HAND
    ):
        return response
    schema = schema_of(key, ctx.version, "response")
    translate = _translator(schema)
    if translate is None:
        return response
    if isinstance(response, Encoded):
        body = b"".join(response.parts)
    else:
        out = bytearray()
        writer_of(schema)(out, response)
        body = bytes(out)
    found: Struct = translate(reader_of(schema)(Cursor(memoryview(body))), namespace)
    return found.as_dict()


@cache
def _translator(schema: Schema) -> Translate | None:
    """What takes a struct to the other side; None where there are no names in it."""
    fields = {field.name: found for field in schema.fields if (found := _of(schema, field))}
    has_resources = "resource_type" in schema.by_name and "resource_name" in schema.by_name
    if schema.api_key in _LEFT or not (fields or has_resources):
        return None
    rename = _inside if schema.direction == "request" else _outside

    def translate(value: Struct, namespace: Namespace) -> Struct:
        values = value.as_dict()
        changed = {
            name: each(values[name], namespace)
            for name, each in fields.items()
            if values.get(name) is not None
        }
        if has_resources and values["resource_type"] in _CONFIGS:
            changed["resource_name"] = rename(values["resource_name"], namespace)
        return value.replaced(**changed)

    return translate


def _of(schema: Schema, field: Field) -> Translate | None:
    if field.schema is not None:
        each: Translate | None = _translator(field.schema)
    else:
        each = _of_value(schema, field)
    return partial(_of_array, each) if each is not None and field.is_array else each


def _of_array(each: Translate, values: Any, namespace: Namespace) -> tuple[Any, ...]:
    return tuple([each(value, namespace) for value in values])


def _of_value(schema: Schema, field: Field) -> Translate | None:
    is_request = schema.direction == "request"
    if is_name(schema, field.name):
        return _inside if is_request else _outside
    if field.name in _PATTERNS:
        return _pattern_inside if is_request else _pattern_outside
    if field.kind == "bytes" and field.name in _SUBSCRIPTIONS:
        return _subscription_inside if is_request else _subscription_outside
    if field.kind == "bytes" and field.name in _ASSIGNMENTS:
        return _assignment_inside if is_request else _assignment_outside
    return _text_outside if field.name in _TEXTS and not is_request else None


def is_name(schema: Schema, field: str) -> bool:
    """Whether a text of a message is the name of a topic, a group or a transactional id."""
    if field in _NAMES or (schema.api_key, field) in _OTHER_NAMES:
        return True
    return field == "name" and bool(schema.path) and schema.path[-1] in _NAMED_ELEMENTS


def _inside(name: str, namespace: Namespace) -> str:
    return namespace.inside(name)


def _outside(name: str, namespace: Namespace) -> str:
    return namespace.outside(name)


def _text_outside(text: str, namespace: Namespace) -> str:
    return namespace.text_outside(text)


def _pattern_inside(pattern: str, namespace: Namespace) -> str:
    try:
        whole_match(pattern, max_chars=len(pattern))
    except InvalidRegularExpressionError:
        return pattern  # the handler refuses it for the same reason
    return namespace.pattern_inside(pattern)


def _pattern_outside(pattern: str, namespace: Namespace) -> str:
    return namespace.pattern_outside(pattern)


def _subscription_inside(data: bytes, namespace: Namespace) -> bytes:
    return renamed_subscription(data, namespace.inside)


def _subscription_outside(data: bytes, namespace: Namespace) -> bytes:
    return renamed_subscription(data, lambda name: name.removeprefix(namespace.prefix))


def _assignment_inside(data: bytes, namespace: Namespace) -> bytes:
    return renamed_assignment(data, namespace.inside)


def _assignment_outside(data: bytes, namespace: Namespace) -> bytes:
    return renamed_assignment(data, lambda name: name.removeprefix(namespace.prefix))

"""OpenAPI 3.1 out of the routes and their types; nothing about the API is written twice."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

import goqueue
from goqueue.protocols.http.api.problems import PROBLEMS, Problem
from goqueue.protocols.http.api.responses import JSON, PROBLEM

if TYPE_CHECKING:
    from goqueue.protocols.http.api.endpoint import Endpoint
    from goqueue.protocols.http.api.router import Router


_PLAIN: Final = {
    "string": "text",
    "integer": 0,
    "number": 0.0,
    "boolean": False,
    "null": None,
    "object": {},
    "array": [],
}


def sample(schema: dict[str, Any], components: dict[str, Any]) -> Any:
    """Something that the schema accepts and a reader understands."""
    if "$ref" in schema:
        return sample(components[schema["$ref"].rpartition("/")[2]], components)
    for given in ("examples", "enum"):
        if schema.get(given):
            return schema[given][0]
    if schema.get("default") is not None:
        return schema["default"]
    if "anyOf" in schema:
        return sample(schema["anyOf"][0], components)
    if "properties" in schema:
        return {
            name: sample(each, components)
            for name, each in schema["properties"].items()
            if name in schema.get("required", ()) or "examples" in each
        }
    if schema.get("items"):
        return [sample(schema["items"], components)]
    kind = schema.get("type", "string")
    return _PLAIN[kind if isinstance(kind, str) else kind[0]]


_REFERENCE: Final = "#/components/schemas/{name}"
_PROBLEM_REFERENCE: Final = {"$ref": "#/components/responses/Problem"}

_INTRODUCTION: Final = """\
Publish and read messages, be a member of a group, administer topics and groups.

- Every path also exists under `/v1`.
- Bodies are JSON. Values, keys and headers are text, or base64 by their `encoding`.
- A duration is `"30s"`, `"5m"`, `"1h30m"` or milliseconds; a time is RFC 3339 or milliseconds since
  the epoch.
- Errors are `application/problem+json` with a stable `code`, and the invalid `field` where there is
  one. The header `X-Request-ID` is returned as sent, or generated.
"""

_TAGS: Final = {
    "topics": "Create, describe, configure and delete topics.",
    "messages": "Publish messages, and read them without a group.",
    "groups": "Join groups, poll messages, and manage groups.",
    "acknowledgement": "Acknowledge messages that a queue group has delivered.",
    "dead letters": "Inspect, redrive and purge dead-letter queues.",
    "delayed messages": "List, inspect and cancel delayed messages.",
    "traces": "Message tracing.",
    "offsets": "Committed offsets of groups.",
    "transactions": "Atomic writes of messages and offsets.",
    "schemas": "The schema registry, compatible with Confluent's clients.",
    "overview": "Overview of the node, and live events.",
    "pipelines": "Reports of Spark pipelines.",
    "admin": "Administration.",
    "webhooks": "Events of the cluster, posted to other servers.",
    "access": "Users, API keys, roles and access control lists.",
    "tenants": "Tenants and what they use of their quotas.",
    "cluster": "The nodes of a cluster and the partitions on them.",
    "health": "Probes for supervisors and load balancers.",
    "statistics": "Totals.",
    "documents": "Documents that describe this API.",
    "console": "The web console.",
}


def describe(router: Router) -> dict[str, Any]:
    """The whole document."""
    endpoints = router.endpoints
    components = _components(endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        methods = paths.setdefault(endpoint.route.path, {})
        methods[endpoint.route.method.lower()] = _operation(endpoint, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GoQueue",
            "version": goqueue.__version__,
            "summary": "A durable log and a work queue over the same stored bytes",
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}, {"url": "/v1"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"Problem": _problem(components), **_dialects(endpoints)},
        },
    }


def _components(endpoints: list[Endpoint]) -> dict[str, Any]:
    """The schema of every Struct that some endpoint takes or gives."""
    types: dict[Any, None] = {Problem: None}
    for endpoint in endpoints:
        asked = [endpoint.types.body, endpoint.types.answer, *endpoint.route.answers.values()]
        if endpoint.route.dialect is not None:
            asked.append(endpoint.route.dialect.error_type)
        types |= {each: None for each in asked if _is_described(each)}
    _, components = msgspec.json.schema_components(list(types), ref_template=_REFERENCE)
    for schema in components.values():
        _describe_stably(schema)
    return components


def _describe_stably(schema: dict[str, Any]) -> None:
    """Docstrings keep the indentation of the source otherwise."""
    if text := schema.get("description"):
        schema["description"] = " ".join(text.split())


def _is_described(kind: Any) -> bool:
    """Whether something is a type, and not a media type or several."""
    return kind is not None and not isinstance(kind, str | tuple)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _dialects(endpoints: list[Endpoint]) -> dict[str, Any]:
    """What routes that write their refusals in another way say."""
    return {
        dialect.name: {
            "description": "What went wrong",
            "headers": {"X-Request-ID": {"schema": {"type": "string"}}},
            "content": {
                media: {"schema": {"$ref": _REFERENCE.format(name=dialect.error_type.__name__)}}
                for media in dialect.media_types
            },
        }
        for dialect in (endpoint.route.dialect for endpoint in endpoints)
        if dialect is not None
    }


def _operation(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    route = endpoint.route
    summary, _, rest = (endpoint.handler.__doc__ or "").partition("\n")
    operation: dict[str, Any] = {
        "tags": [route.tag],
        "summary": summary.strip(),
        "operationId": _operation_id(endpoint),
        "responses": _responses(endpoint, components),
    }
    if description := " ".join(rest.split()):
        operation["description"] = description
    if parameters := [*_parameters(endpoint, "path"), *_parameters(endpoint, "query")]:
        operation["parameters"] = parameters
    if endpoint.types.body is not None:
        name = endpoint.types.body.__name__
        operation["requestBody"] = {
            "required": bool(components[name].get("required")),
            "content": {JSON: _media(endpoint.types.body, components)},
        }
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    """The method and the path in one word, which stays the same when code moves."""
    words = re.findall(r"\w+", endpoint.route.path.replace("-", "_"))
    return "_".join([endpoint.route.method.lower(), *words])


def _parameters(endpoint: Endpoint, location: str) -> list[dict[str, Any]]:
    kind = endpoint.types.path if location == "path" else endpoint.types.query
    if kind is None:
        return []
    schema = msgspec.json.schema(kind)
    (properties,) = (each["properties"] for each in schema["$defs"].values())
    required = {name for each in schema["$defs"].values() for name in each.get("required", ())}
    return [
        {
            "name": name,
            "in": location,
            "required": name in required,
            "schema": _without_null(described),
            **({"description": text} if (text := _description(described)) else {}),
        }
        for name, described in properties.items()
    ]


def _description(schema: dict[str, Any]) -> str:
    """What a schema says of itself, or of the first thing that it may be."""
    kinds = [schema, *schema.get("anyOf", ())]
    return next((each["description"] for each in kinds if "description" in each), "")


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter's schema: one that is left out is no null."""
    schema = {name: value for name, value in schema.items() if name != "description"}
    if schema.get("default", "") is None:
        del schema["default"]
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if each.get("type") != "null"]
        if len(kinds) == 1:
            return {**{k: v for k, v in schema.items() if k != "anyOf"}, **kinds[0]}
        return {**schema, "anyOf": kinds}
    return schema


def _responses(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    answers = dict(endpoint.route.answers)
    if endpoint.types.answer is not None:
        answers[endpoint.route.status] = endpoint.types.answer
    described: dict[str, Any] = {}
    dialect = endpoint.route.dialect
    media_types = (JSON,) if dialect is None else dialect.media_types
    for status, kind in sorted(answers.items()):
        content = (
            {media: _media(kind, components) for media in media_types}
            if _is_described(kind)
            else {each: {"schema": {}} for each in (kind if isinstance(kind, tuple) else (kind,))}
        )
        described[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "headers": {"X-Request-ID": {"schema": {"type": "string"}}},
            "content": content,
        }
    described["default"] = _PROBLEM_REFERENCE
    if dialect is not None:
        described["default"] = {"$ref": f"#/components/responses/{dialect.name}"}
    return described


def _media(kind: Any, components: dict[str, Any]) -> dict[str, Any]:
    if _is_struct(kind):
        schema = {"$ref": _REFERENCE.format(name=kind.__name__)}
    else:
        (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    return {"schema": schema, "example": sample(schema, components)}


def _problem(components: dict[str, Any]) -> dict[str, Any]:
    codes = sorted({kind.code for kind in PROBLEMS.values()})
    components["Problem"]["properties"]["code"]["examples"] = ["unknown_topic"]
    components["Problem"]["properties"]["code"]["description"] = (
        f"Stable: programs may rely on it. One of {', '.join(codes)}."
    )
    return {
        "description": "What went wrong",
        "headers": {"X-Request-ID": {"schema": {"type": "string"}}},
        "content": {PROBLEM: {"schema": {"$ref": _REFERENCE.format(name="Problem")}}},
    }

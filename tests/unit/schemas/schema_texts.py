"""Short ways to write schemas in tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from goqueue.schemas.formats import parse
from goqueue.schemas.model import Dependency, Reference, Schema, SchemaType

if TYPE_CHECKING:
    from goqueue.schemas.model import Parsed


def avro_record(*fields: Any, name: str = "R", **more: Any) -> str:
    """A record; a field is `(name, type)` or `(name, type, default)`."""
    written = [
        {"name": field[0], "type": field[1], **({"default": field[2]} if len(field) > 2 else {})}
        for field in fields
    ]
    return json.dumps({"type": "record", "name": name, "fields": written, **more})


def json_object(*, open_: bool = True, required: tuple[str, ...] = (), **properties: Any) -> str:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    if not open_:
        schema["additionalProperties"] = False
    return json.dumps(schema)


def proto(body: str, head: str = "", syntax: str = "proto3") -> str:
    return f'syntax = "{syntax}"; {head} {body}'


def parsed(kind: str, text: str, *dependencies: tuple[str, str]) -> Parsed:
    """A schema; dependencies are names and texts."""
    given = [
        Dependency(Reference(name, name, 1), Schema(SchemaType(kind), other))
        for name, other in dependencies
    ]
    return parse(Schema(SchemaType(kind), text), given)

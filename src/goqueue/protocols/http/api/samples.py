"""An example of any schema, out of the examples and defaults of its fields."""

from __future__ import annotations

from typing import Any, Final

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

"""JSON as schemas are written in it: strict, and not nested without end."""

from __future__ import annotations

import json
from typing import Any, Final

from goqueue.model.errors import InvalidSchemaError

_MAX_DEPTH: Final = 200
"""Lists and objects within each other; a schema that is nested deeper is invalid. Whatever walks a
schema may go down as many steps, and so never runs out of stack."""


def loaded(text: str, what: str) -> Any:
    """What a text says.

    Raises:
        InvalidSchemaError: it is not JSON, or nested too deeply.
    """
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InvalidSchemaError(f"{what} is JSON, and this is not: {error}") from error
    level = [document]
    for _ in range(_MAX_DEPTH):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return document
    raise InvalidSchemaError(f"{what} may be nested {_MAX_DEPTH} deep, and this is deeper")


def _inside(value: Any) -> list[Any]:
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in found if isinstance(each, dict | list)]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")

"""Places in a JSON document: `$.user.name`, `$['odd name']`, `$.items[0]`, `$[-1]`, `$[*].id`.

A part of RFC 9535: names, indexes and wildcards. There is no `..` and there are no filters inside
of a path, so that the cost of one is bounded by the size of the document.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Step: TypeAlias = "str | int | None"
"""A member by its name, an element by its index, or all of them (None)."""

_STEP: Final = re.compile(
    r"""\.(?P<name>[^\W\d][\w-]*) | (?P<all>\.\*|\[\s*\*\s*\]) | \[\s*(?P<index>-?\d{1,9})\s*\]
    | \[\s*(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]""",
    re.VERBOSE | re.DOTALL,
)


class JsonPathError(ValueError):
    """A text is no path, or no filter. Its text says where, what was expected and what to do."""


def parse_path(text: str, at: int) -> tuple[tuple[Step, ...], int]:
    """The steps of the path that begins with `$` at a place in a text, and where it ends.

    Raises:
        JsonPathError: there is none.
    """
    if text[at : at + 1] != "$":
        raise JsonPathError(f"at character {at + 1}: expected a path such as $.user.age")
    at += 1
    steps: list[Step] = []
    while found := _STEP.match(text, at):
        if found["name"] is not None:
            steps.append(found["name"])
        elif found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["quoted"] is not None:
            steps.append(unquoted(found["quoted"], at))
        else:
            steps.append(None)
        at = found.end()
    if text[at : at + 1] in {".", "["}:
        raise JsonPathError(
            f"at character {at + 1}: {text[at : at + 20]!r} is no step of a path; expected .name, "
            "['name'], [0], [-1] or [*]"
        )
    return tuple(steps), at


def unquoted(text: str, at: int) -> str:
    """A string in double or single quotes, with JSON's escapes.

    Raises:
        JsonPathError: an escape is none of JSON's.
    """
    inner = text[1:-1]
    if text[0] == "'":
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    try:
        found: str = json.loads(f'"{inner}"', strict=False)
    except ValueError as error:
        raise JsonPathError(f"at character {at + 1}: {text[:40]} is no string of JSON") from error
    return found


def values_at(document: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    """Everything that a path leads to; several values only where it has a wildcard."""
    found = [document]
    for step in steps:
        if step is None:
            found = [inner for each in found for inner in _members(each)]
        elif isinstance(step, str):
            found = [each[step] for each in found if isinstance(each, dict) and step in each]
        else:
            found = [
                each[step]
                for each in found
                if isinstance(each, list) and -len(each) <= step < len(each)
            ]
    yield from found


def _members(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []

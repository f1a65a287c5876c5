"""`${NAME}` and `${NAME:-default}` in the values of a file, from the environment.

Values are replaced after the file was read, so that nothing in a variable can become a part of the
file's structure. `$${` is a plain `${`, for Spark's own variables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def substituted(text: str, environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text with its variables replaced, and what is wrong with them."""
    problems: list[str] = []

    def replace(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        named = _NAME.fullmatch(found[1])
        if named is None or not found[2]:
            problems.append(
                f"{found[0]!r} names no variable: expected ${{NAME}} or ${{NAME:-default}}, or "
                "$${ for the characters themselves"
            )
            return found[0]
        name, default = named[1], named[2]
        value = environment.get(name)
        if default is not None:
            return value or default
        if value is None:
            problems.append(
                f"the environment variable {name} is not set: set it, or give it a default with "
                f"${{{name}:-…}}"
            )
            return ""
        return value

    return _REFERENCE.sub(replace, text), problems

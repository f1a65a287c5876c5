"""What a setting under a name of Kafka's is: its type, which values it may have, what it does here.

Topics, the broker and groups each have a table of these; requests are checked against the tables,
DescribeConfigs shows them, and the page of Kafka's settings in the documentation is made from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
"""Without the underscores and the digits of other scripts that Python takes."""


class Effect(StrEnum):
    """What becomes of a setting that is accepted."""

    OBEYED = "obeyed"
    NONE = "no effect"
    """Kept and shown, because Kafka's tools set it; there is nothing here that it could change."""


class Setting(msgspec.Struct, frozen=True):
    """One setting: its name, which values it may have, and which it has unless told otherwise."""

    name: str
    default: str
    expected: str
    accepts: Callable[[str], bool]
    documentation: str
    kind: str = "string"
    """The type that DescribeConfigs reports."""
    effect: Effect = Effect.OBEYED
    note: str = ""
    """Why it has no effect, or what is different from Kafka."""
    is_hidden: bool = False
    """Accepted and not listed, as Kafka's internal settings are."""

    def objection(self, value: str) -> str | None:
        """What is wrong with a value."""
        if self.accepts(value):
            return None
        return f"{self.name} is {value!r}, expected {self.expected}"


def whole_number(text: str) -> int | None:
    """The number that a text is in Java's eyes; None when it is none."""
    text = text.strip()
    return int(text) if _WHOLE.fullmatch(text) else None


def number(
    name: str,
    default: int,
    low: int,
    documentation: str,
    *,
    high: int | None = None,
    also: Iterable[int] = (),
    kind: str = "long",
    effect: Effect = Effect.OBEYED,
    note: str = "",
    is_hidden: bool = False,
) -> Setting:
    """A whole number in a range, or one of a few `also` outside of it."""
    largest = INT_MAX if kind == "int" else LONG_MAX
    top = largest if high is None else high
    others = tuple(also)

    def accepts(text: str) -> bool:
        value = whole_number(text)
        return value is not None and (low <= value <= top or value in others)

    expected = f"a whole number from {low}" + ("" if top == LONG_MAX else f" to {top}")
    expected += "".join(f", or {other}" for other in others)
    return Setting(
        name, str(default), expected, accepts, documentation, kind, effect, note, is_hidden
    )


def choice(
    name: str,
    default: str,
    choices: tuple[str, ...],
    documentation: str,
    *,
    effect: Effect = Effect.OBEYED,
    note: str = "",
) -> Setting:
    """One of a few words."""
    expected = f"one of {', '.join(choices)}"
    return Setting(
        name, default, expected, choices.__contains__, documentation, "string", effect, note
    )


def switch(
    name: str,
    documentation: str,
    *,
    default: bool = False,
    effect: Effect = Effect.OBEYED,
    note: str = "",
) -> Setting:
    """True or false, in any capitals."""
    return Setting(
        name,
        str(default).lower(),
        "true or false",
        lambda text: text.strip().lower() in {"true", "false"},
        documentation,
        "boolean",
        effect,
        note,
    )


def is_share(text: str) -> bool:
    """Whether a text is a number from 0 to 1."""
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def items(text: str) -> list[str]:
    """The items of a list setting, each once."""
    return list(dict.fromkeys(item for part in text.split(",") if (item := part.strip())))

"""Reads options one by one and remembers what was wrong with them, until `finish` says it all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.spark.errors import OptionsError
from goqueue.spark.wording import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_UNITS_S: Final = {
    "": 0.001,
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
}
_LEAST_S: Final = 0.001
_MOST_S: Final = 24 * 24 * 3600.0
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)i?b?")
_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class OptionReader:
    """Options by name, whatever their case."""

    def __init__(
        self, options: Mapping[str, str], known: Sequence[str], ignored: Sequence[str] = ()
    ) -> None:
        self._options: Final = {name.lower(): str(value) for name, value in options.items()}
        self._problems: Final[list[str]] = []
        accepted = {name.lower() for name in (*known, *ignored)}
        for name in sorted(self._options.keys() - accepted):
            self._problems.append(f"unknown option {name}{nearest(name, known)}")

    def has(self, name: str) -> bool:
        """Whether the option is given at all."""
        return name.lower() in self._options

    def problem(self, text: str) -> None:
        """Remember what is wrong."""
        self._problems.append(text)

    def finish(self) -> None:
        """Say what is wrong, all of it.

        Raises:
            OptionsError: something is.
        """
        if self._problems:
            raise OptionsError(self._problems)

    # --- Kinds of values -------------------------------------------------------------------------

    def text(self, name: str) -> str | None:
        """The text; None when it is not given or empty."""
        return self._options.get(name.lower(), "").strip() or None

    def parsed(self, name: str, parse: Callable[[str], T]) -> T | None:
        """What `parse` makes of the text; its `ValueError` is a problem of this option."""
        if not self.has(name):
            return None
        try:
            return parse(self._options[name.lower()])
        except ValueError as error:
            self.problem(f"{name}: {error}")
            return None

    def names(self, name: str) -> tuple[str, ...] | None:
        """Names with commas between them, each once."""
        return self.parsed(name, _names)

    def flag(self, name: str, *, default: bool) -> bool:
        """`true` or `false`."""
        return self.choice(name, {"true": True, "false": False}, default)

    def choice(self, name: str, values: Mapping[str, T], default: T) -> T:
        """One of a few words."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in values:
            self.problem(f"{name}: expected {' or '.join(values)}, not {text!r}")
            return default
        return values[text.lower()]

    def count(self, name: str) -> int | None:
        """A number of 1 and up."""
        return self.parsed(name, _count)

    def bounded(self, name: str, default: int, limits: tuple[int, int]) -> int:
        """A number of bytes between two."""
        found = self.size_bytes(name)
        if found is None:
            return default
        least, most = limits
        if not least <= found <= most:
            self.problem(f"{name}: expected {least} to {most}, not {found}")
            return default
        return found

    def size_bytes(self, name: str) -> int | None:
        """Bytes, or kilobytes and so on with their unit: `64m`."""
        return self.parsed(name, _size)

    def duration_s(self, name: str, default: float, *, may_be_zero: bool = True) -> float:
        """Milliseconds, or with a unit: `500ms`, `15m`; no longer than the protocol can say."""
        found = self.parsed(name, _duration_s)
        if found is None:
            return default
        if not (0 if may_be_zero else _LEAST_S) <= found <= _MOST_S:
            self.problem(f"{name}: expected {'0' if may_be_zero else '1'} ms to 24 days")
            return default
        return found


def _names(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    if not found:
        raise ValueError("no name is given")
    return found


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"expected a number of 1 and up, not {text!r}")
    return int(text)


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or int(found[1]) < 1:
        raise ValueError(f"expected bytes, as in 67108864 or 64m, not {text!r}")
    return int(found[1]) * _SIZE_UNITS[found[2]]


def _duration_s(text: str) -> float:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_S:
        raise ValueError(f"expected a time, as in 500ms, 10s or 15m, not {text!r}")
    return float(found[1]) * _UNITS_S[found[2]]

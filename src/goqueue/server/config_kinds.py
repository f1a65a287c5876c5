"""What a setting's value can be: how it is read from text or YAML, and written back.

Reading answers with a value or a `MismatchError`; what was expected is the kind's own sentence, so
that problems, help and the reference say the same. `parse(render(value)) == value` for every kind.
"""

# ruff: noqa: D102 - `Kind` says what the methods do

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from goqueue.model.tuples import NamedTuple

_T = TypeVar("_T")
_E = TypeVar("_E", bound=StrEnum)

UNLIMITED: Final = -1
SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
DAY: Final = 24 * 60 * MINUTE
YEAR: Final = 365 * DAY
"""In milliseconds, as all durations."""

_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE_ENDS: Final = ("", "b", "i", "ib")
_TIMES: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})


class MismatchError(ValueError):
    """The value is not one of the kind."""


class Kind(Protocol[_T]):
    """One kind of value."""

    @property
    def expected(self) -> str:
        """What a value must be, to follow "expected"."""

    def parse(self, raw: object) -> _T:
        """The value of a text, or of what YAML made of one; raises `MismatchError`."""

    def render(self, value: _T) -> str:
        """A text that `parse` reads as this value."""


class Address(NamedTuple):
    """Where to listen, or where to be found."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Credentials: TypeAlias = tuple[tuple[str, str], ...]
"""Names and passwords."""


class Word(msgspec.Struct, frozen=True):
    """A text that is not empty and has no blanks."""

    expected: str = "a text without blanks"

    def parse(self, raw: object) -> str:
        text = _text(raw)
        if not text or re.search(r"\s", text):
            raise MismatchError
        return text

    def render(self, value: str) -> str:
        return value


class Words(msgspec.Struct, frozen=True):
    """Texts of one form, none of them with a comma; in a file a list."""

    form: str
    """A regular expression, which ignores capitals."""
    what: str

    @property
    def expected(self) -> str:
        return f"a list of {self.what}"

    def parse(self, raw: object) -> tuple[str, ...]:
        items = raw if isinstance(raw, Sequence) and not isinstance(raw, str) else None
        words = items if items is not None else _text(raw).split(",")
        found = tuple(dict.fromkeys(filter(None, map(_text, words))))
        if not all(re.fullmatch(self.form, word, re.IGNORECASE) for word in found):
            raise MismatchError
        return found

    def render(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


class Items(msgspec.Struct, frozen=True):
    """Texts without blanks and commas, as they were written; in a file a list."""

    what: str

    @property
    def expected(self) -> str:
        return f"a list of {self.what}"

    def parse(self, raw: object) -> tuple[str, ...]:
        items = raw if isinstance(raw, Sequence) and not isinstance(raw, str) else None
        return tuple(map(_text, items if items is not None else _text(raw).split(",")))

    def render(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


class Switch(msgspec.Struct, frozen=True):
    """On or off."""

    expected: str = "true or false"

    def parse(self, raw: object) -> bool:
        text = str(raw).strip().lower()
        if text not in _TRUE | _FALSE:
            raise MismatchError
        return text in _TRUE

    def render(self, value: bool) -> str:  # noqa: FBT001 - see Kind
        return "true" if value else "false"


class Whole(msgspec.Struct, frozen=True):
    """A whole number within bounds."""

    low: int
    high: int

    @property
    def expected(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def parse(self, raw: object) -> int:
        text = _text(raw)
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise MismatchError
        return _within(int(text), self.low, self.high)

    def render(self, value: int) -> str:
        return str(value)


class Share(msgspec.Struct, frozen=True):
    """A part of the whole."""

    expected: str = "a number from 0 to 1, such as 0.01"

    def parse(self, raw: object) -> float:
        text = _text(raw)
        if not re.fullmatch(r"[0-9]{0,2}(\.[0-9]{1,15})?", text) or not text:
            raise MismatchError
        value = float(text)
        if not 0 <= value <= 1:
            raise MismatchError
        return value

    def render(self, value: float) -> str:
        return f"{value:g}"


class _Measure(msgspec.Struct, frozen=True):
    """A number with a unit, kept in the smallest one."""

    units: ClassVar[Mapping[str, int]]
    """What may follow a number, in small letters."""
    shown: ClassVar[Mapping[str, int]]
    """Those that a value is written with."""
    low: int
    high: int
    unlimited: bool = False
    """-1 is allowed too."""

    def parse(self, raw: object) -> int:
        text = _text(raw).lower()
        if self.unlimited and text in {"-1", "unlimited"}:
            return UNLIMITED
        match = re.fullmatch(r"([0-9]{1,18})\s*([a-z]*)", text)
        unit = None if match is None else self.units.get(match[2])
        if match is None or unit is None:
            raise MismatchError
        return _within(int(match[1]) * unit, self.low, self.high)

    def render(self, value: int) -> str:
        if value == UNLIMITED:
            return "unlimited"
        name, unit = max(
            ((name, unit) for name, unit in self.shown.items() if value % unit == 0),
            key=lambda pair: pair[1] if value else -pair[1],
        )
        return f"{value // unit}{name}"

    @property
    def _bounds(self) -> str:
        also = ", or unlimited" if self.unlimited else ""
        return f"from {self.render(self.low)} to {self.render(self.high)}{also}"


class Size(_Measure, frozen=True):
    """Bytes; 1 KB and 1 KiB are both 1024."""

    units: ClassVar = {unit + end: size for unit, size in _SIZES.items() for end in _SIZE_ENDS}
    shown: ClassVar = {f"{unit.upper()}B" if unit else "": size for unit, size in _SIZES.items()}

    @property
    def expected(self) -> str:
        return f"a size such as 4096, 64MB or 2GB, {self._bounds}"


class Duration(_Measure, frozen=True):
    """Milliseconds."""

    units: ClassVar = {"": 1, **_TIMES}
    shown: ClassVar = _TIMES

    @property
    def expected(self) -> str:
        return f"a duration such as 500ms, 30s, 10m, 24h or 7d, {self._bounds}"


class HostPort(msgspec.Struct, frozen=True):
    """An address; no host means every interface."""

    lowest_port: int = 0
    """0, where any free port will do."""
    highest_port: int = 65535

    @property
    def expected(self) -> str:
        return f"host:port with a port from {self.lowest_port} to {self.highest_port}"

    def parse(self, raw: object) -> Address:
        match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]/]*)):([0-9]{1,5})", _text(raw))
        if match is None or (self.lowest_port and not (match[1] or match[2])):
            raise MismatchError
        host = match[1] or match[2] or "0.0.0.0"  # noqa: S104 - the user asked for it
        return Address(host, _within(int(match[3]), self.lowest_port, self.highest_port))

    def render(self, value: Address) -> str:
        return str(value)


class Choice(msgspec.Struct, Generic[_E], frozen=True):
    """One of a few words."""

    options: type[_E]

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.options)}"

    def parse(self, raw: object) -> _E:
        text = _text(raw).lower()
        for option in self.options:
            if option.lower() == text:
                return option
        raise MismatchError

    def render(self, value: _E) -> str:
        return value


class Choices(msgspec.Struct, Generic[_E], frozen=True):
    """Some of a few words, at least one, in the order given."""

    options: type[_E]

    @property
    def expected(self) -> str:
        return f"a list of {', '.join(self.options)}"

    def parse(self, raw: object) -> tuple[_E, ...]:
        items = raw if isinstance(raw, Sequence) and not isinstance(raw, str) else None
        words = items if items is not None else _text(raw).split(",")
        chosen = tuple(dict.fromkeys(Choice(self.options).parse(word) for word in words))
        if not chosen:
            raise MismatchError
        return chosen

    def render(self, value: tuple[_E, ...]) -> str:
        return ",".join(value)


class FilePath(msgspec.Struct, frozen=True):
    """A file or a folder; `~` is the user's home."""

    expected: str = "a path"

    def parse(self, raw: object) -> Path:
        if not isinstance(raw, str) or not raw.strip() or "\0" in raw:
            raise MismatchError
        return Path(raw).expanduser()

    def render(self, value: Path) -> str:
        return str(value)


class Users(msgspec.Struct, frozen=True):
    """Names with passwords; in a file a mapping, elsewhere one text, where neither has a comma."""

    expected: str = "name:password pairs with commas between them, or a mapping in the file"

    def parse(self, raw: object) -> Credentials:
        if isinstance(raw, Mapping):
            pairs = [(str(name), str(password)) for name, password in raw.items()]
        else:
            pairs = [
                (name.strip(), password)
                for name, _, password in (item.partition(":") for item in _text(raw).split(","))
            ]
        names = {name for name, _ in pairs}
        if len(names) != len(pairs) or not all(name and password for name, password in pairs):
            raise MismatchError
        return tuple(pairs)

    def render(self, value: Credentials) -> str:
        return ",".join(f"{name}:{password}" for name, password in value)


def _text(raw: object) -> str:
    """What was written, if it was one word or number; YAML's true, lists and dates are not."""
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise MismatchError
    return str(raw).strip()


def _within(number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise MismatchError
    return number

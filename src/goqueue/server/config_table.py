"""The table of settings: what is declared once, beside each field, and everything derived from it.

One rule makes the names. The setting `storage.segment_size` is the key `segment_size` under
`storage` in the file, `GOQUEUE_STORAGE_SEGMENT_SIZE` in the environment, and the flag
`--storage-segment-size`. In the file and the environment neither capitals nor underscores matter,
so `segmentSize` will do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast, dataclass_transform

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.server.config_kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_T = TypeVar("_T")

ENVIRONMENT_PREFIX: Final = "GOQUEUE_"
MASK: Final = "********"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    section: str
    attribute: str
    """The attribute of the section; unlike `name` it carries the unit."""
    name: str
    environment: str
    flag: str
    port_flag: str | None
    """A flag for the port alone, for an address."""
    kind: Kind[Any]
    default: Any
    help: str
    topic: str | None
    """The topic setting that this is the default of."""
    kafka: str | None
    """What Kafka calls it on the broker."""
    kafka_unit: int
    """Divides the value for Kafka, which counts some times in minutes."""
    secret: bool

    @property
    def full_name(self) -> str:
        """As people say it: `storage.fsync`."""
        return f"{self.section}.{self.name}"

    def parse(self, raw: object) -> Any:
        """The value of what was written; raises `MismatchError`."""
        if self.default is None and (raw is None or raw == ""):
            return None
        return self.kind.parse(raw)

    def render(self, value: object) -> str:
        """A value as text; the empty text is no value."""
        if value is None:
            return ""
        return self.kind.render(value)

    def show(self, raw: object) -> str:
        """Something written for this setting, as it may be shown."""
        return MASK if self.secret and raw not in {None, "", ()} else str(raw)


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    setting: str
    source: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.setting} ({self.source}): found {self.found}, expected {self.expected}"


class ConfigError(GoQueueError):
    """The configuration cannot be used; all that is wrong with it is listed."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        heading = f"{count} problem{'s' if count > 1 else ''} in the configuration"
        super().__init__("\n".join([f"{heading}:", *(f"  {problem}" for problem in self.problems)]))


def setting(
    default: _T,
    kind: Kind[Any],
    help: str,  # noqa: A002 - what the words are
    *,
    name: str | None = None,
    environment: str | None = None,
    flag: str | None = None,
    port_flag: str | None = None,
    topic: str | None = None,
    kafka: str | None = None,
    kafka_unit: int = 1,
    secret: bool = False,
) -> _T:
    """Declare a field of a section; the names are made by the rule unless they are given."""

    def row(section: str, attribute: str) -> Setting:
        own_name = name or re.sub(r"_(ms|bytes)$", "", attribute)
        path = f"{section}_{own_name}"
        return Setting(
            section=section,
            attribute=attribute,
            name=own_name,
            environment=environment or ENVIRONMENT_PREFIX + path.upper(),
            flag=flag or "--" + path.replace("_", "-"),
            port_flag=port_flag,
            kind=kind,
            default=default,
            help=help,
            topic=topic,
            kafka=kafka,
            kafka_unit=kafka_unit,
            secret=secret,
        )

    # The type checker sees the default's type, the section sees the declaration.
    return cast("_T", _Declared(default, row))


class _Declared(msgspec.Struct, frozen=True):
    """What `setting` leaves for the section."""

    default: Any
    row: Callable[[str, str], Setting]


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Section:
    """One section, whose attributes are declared with `setting`; frozen.

    A dataclass in everything but what it costs a start: nothing is compiled for it.
    """

    declared: ClassVar[Mapping[str, _Declared]]

    def __init_subclass__(cls) -> None:
        cls.declared = {
            name: each for name, each in vars(cls).items() if isinstance(each, _Declared)
        }

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - self.declared.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        for name, each in self.declared.items():
            self.__dict__[name] = values.get(name, each.default)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot change: make another section")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # as of anything that is compared by its values


def table_of(sections: Mapping[str, type[Section]]) -> tuple[Setting, ...]:
    """The rows that the fields of these section classes declare."""
    return tuple(
        each.row(section, attribute)
        for section, kind in sections.items()
        for attribute, each in kind.declared.items()
    )


def fold(name: str) -> str:
    """A name without what does not matter in it."""
    return re.sub(r"[_\-. ]", "", name).lower()


def nearest(name: str, known: Iterable[str]) -> str:
    """The rest of a sentence about an unknown name: what was probably meant."""
    import difflib  # noqa: PLC0415 - for who mistyped

    folded = {fold(candidate): candidate for candidate in known}
    found = difflib.get_close_matches(fold(name), folded, n=1, cutoff=0.6)
    return f"a known name; the nearest is {folded[found[0]]}" if found else "a known name"

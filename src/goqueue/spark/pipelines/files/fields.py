"""Takes the values out of a mapping of a file one by one, and notes what is wrong with each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.spark.pipelines.durations import duration_us
from goqueue.spark.pipelines.model import Problem
from goqueue.spark.pipelines.yaml_nodes import Entries, Items, Node, Place, Scalar
from goqueue.spark.wording import nearest, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


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


T = TypeVar("T")
_TRUTHS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NUMBER: Final = re.compile(r"\+?\d[\d_]{0,17}", re.ASCII)


@dataclass
class Notes:
    """What is wrong so far, and where everything is."""

    environment: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)

    def problem(self, message: str, place: Place, path: str) -> None:
        """Note what is wrong."""
        self.problems.append(Problem(message, place.line, place.column, path))


def kind_of(node: Node) -> str:
    """What a node is, in a sentence."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Entries):
        return "a mapping"
    return "nothing" if node.is_null else shown(node.text)


class Fields:
    """The entries of one mapping; what is no mapping has none, and that is noted."""

    def __init__(
        self, notes: Notes, node: Node, path: str, expected: str, place: Place | None = None
    ) -> None:
        self.notes: Final = notes
        self.path: Final = path
        self.place: Final = place or node.place
        self._entries: dict[str, tuple[Scalar, Node]] = {}
        self.is_mapping: Final = isinstance(node, Entries)
        if not isinstance(node, Entries):
            self.problem(f"expected {expected}, not {kind_of(node)}")
            return
        for key, value in node.entries:
            name, at = key.text, self.at(key.text)
            if name in self._entries:
                first = self._entries[name][0].place.line
                notes.problem(
                    f"{name} is given twice, first in line {first}: remove one", key.place, at
                )
                continue
            self._entries[name] = key, value
            has_text = isinstance(value, Scalar) and not value.is_null
            notes.places[at] = value.place if has_text else key.place

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def at(self, name: str) -> str:
        """The path of an entry."""
        return f"{self.path}.{name}" if self.path else name

    def key_place(self, name: str) -> Place:
        """Where an entry begins."""
        return self._entries[name][0].place if name in self._entries else self.place

    def node(self, name: str) -> Node:
        """The value of an entry that is there."""
        return self._entries[name][1]

    def problem(self, message: str, name: str | None = None) -> None:
        """Note something wrong with one entry, or with the whole."""
        if name is None:
            self.notes.problem(message, self.place, self.path)
        elif name in self._entries:
            self.notes.problem(message, self.node(name).place, self.at(name))
        else:
            self.notes.problem(message, self.place, self.at(name))

    def only(self, known: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> bool:
        """Note every entry that is none of these; says whether there is none.

        Args:
            known: The keys that can be here.
            elsewhere: Keys that are known and do not belong here, with where they do.
        """
        names = list(known)
        for name in self._entries:
            if name in names:
                continue
            if elsewhere and name in elsewhere:
                message = f"{name} does not go with this; it is for {elsewhere[name]}"
            else:
                hint = nearest(name, names) or f"; expected one of {', '.join(names)}"
                message = f"{shown(name)} is not known here{hint}"
            self.notes.problem(message, self.key_place(name), self.at(name))
        return all(name in names for name in self._entries)

    def only_kind(
        self, kinds: Iterable[str], others: Iterable[str], *, several: str, none: str
    ) -> str | None:
        """The one entry that says what kind of thing this is; None, and noted, where it is unclear.

        Args:
            kinds: The keys of which exactly one must be there.
            others: The other keys that can be here.
            several: What is wrong where several are there; `{}` stands for them.
            none: What is wrong where none is there.
        """
        given = [each for each in kinds if each in self]
        if len(given) == 1:
            return given[0]
        if given:
            self.problem(several.format(" and ".join(given)))
        elif self.is_mapping and self.only((*others, *kinds)):  # or a misspelt key is the reason
            self.problem(none)
        return None

    # --- Kinds of values -------------------------------------------------------------------------

    def given(self, name: str, *, required: str | None = None) -> bool:
        """Whether an entry is there with a value; `required` says what is missing if it is not."""
        if name in self._entries:
            value = self.node(name)
            if not isinstance(value, Scalar) or not value.is_null:
                return True
            self.problem(f"{name} has no value: {required or 'give it one, or remove it'}", name)
        elif required is not None:
            self.problem(f"{name} is missing: {required}")
        return False

    def text(self, name: str, *, required: str | None = None) -> str | None:
        """A text; of several lines, too."""
        if not self.given(name, required=required):
            return None
        return self.scalar(self.node(name), self.at(name), "a text")

    def scalar(
        self, node: Node, path: str, expected: str, *, can_be_empty: bool = False
    ) -> str | None:
        """The text of a node with its variables replaced."""
        if not isinstance(node, Scalar) or node.is_null:
            self.notes.problem(f"expected {expected}, not {kind_of(node)}", node.place, path)
            return None
        text, problems = substituted(node.text, self.notes.environment)
        for each in problems:
            self.notes.problem(each, node.place, path)
        if problems:
            return None
        if not can_be_empty and not text.strip():
            self.notes.problem(f"expected {expected}, not an empty one", node.place, path)
            return None
        return text

    def texts(self, name: str, *, required: str | None = None) -> tuple[str, ...]:
        """A text or a list of them."""
        if not self.given(name, required=required):
            return ()
        node, path = self.node(name), self.at(name)
        if isinstance(node, Scalar):
            found = self.scalar(node, path, "a text or a list of texts")
            return () if found is None else (found,)
        if not isinstance(node, Items) or not node.items:
            said = "an empty one" if isinstance(node, Items) else kind_of(node)
            self.problem(f"expected a text or a list of texts, not {said}", name)
            return ()
        texts = (self.scalar(each, f"{path}[{at}]", "a text") for at, each in enumerate(node.items))
        return tuple(each for each in texts if each is not None)

    def count(self, name: str, least: int = 1, most: int = 2**31 - 1) -> int | None:
        """A whole number."""
        text = self.text(name)
        if text is None:
            return None
        number = int(text.replace("_", "")) if _NUMBER.fullmatch(text.strip()) else None
        if number is None or not least <= number <= most:
            self.problem(f"expected a whole number from {least} to {most}, not {shown(text)}", name)
            return None
        return number

    def flag(self, name: str, *, default: bool) -> bool:
        """`true` or `false`."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in _TRUTHS:
            self.problem(f"expected true or false, not {shown(text)}", name)
        return _TRUTHS.get(text.lower(), default)

    def choice(self, name: str, values: Mapping[str, T], default: T) -> T:
        """One of a few words; an underscore is as good as a hyphen."""
        text = self.text(name)
        if text is None:
            return default
        folded = {each.replace("_", "-"): value for each, value in values.items()}
        word = text.strip().lower().replace("_", "-")
        if word not in folded:
            hint = nearest(text, values) or f"; expected {' or '.join(values)}"
            self.problem(f"{shown(text)} is not known here{hint}", name)
            return default
        return folded[word]

    def duration(
        self, name: str, *, required: str | None = None, can_be_zero: bool = False
    ) -> str | None:
        """A span of time in Spark's words."""
        text = self.text(name, required=required)
        if text is None:
            return None
        try:
            if duration_us(text) == 0 and not can_be_zero:
                self.problem(f"{shown(text)} is no time at all: expected more than zero", name)
                return None
        except ValueError as error:
            self.problem(str(error), name)
            return None
        return text.strip()

    def options(self, name: str, expected: str) -> dict[str, str]:
        """A mapping from names to texts; a number or a truth value is taken as it is written."""
        if not self.given(name):
            return {}
        fields = Fields(self.notes, self.node(name), self.at(name), expected)
        found = {
            each: fields.scalar(fields.node(each), fields.at(each), "a text", can_be_empty=True)
            for each in fields
        }
        return {each: text for each, text in found.items() if text is not None}

    def inner(self, name: str, expected: str) -> Fields | None:
        """The mapping below an entry; None, and noted, when it is none."""
        if not self.given(name):
            return None
        fields = Fields(self.notes, self.node(name), self.at(name), expected)
        return fields if fields.is_mapping else None

"""YAML as a tree in which everything knows its line, read from text that nobody has to trust.

Values stay the text that was written: what `on`, `1e3` or `2026-01-31` mean is decided by whoever
expects something there, not by YAML 1.1, for which the key `on` is a truth value. Tags make
nothing, and the tree is bounded in size and depth, also after its aliases were followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import yaml

from goqueue.model.limits import MAX_PIPELINE_BYTES
from goqueue.spark.pipelines.model import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaml.events import Event

_MAX_DEPTH: Final = 40
_MAX_NODES: Final = 20_000
"""Aliases count with all that they stand for: a few lines can stand for gigabytes."""

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{each}" for each in ("str", "int", "float", "bool", "null", "map", "seq")
)


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text."""

    text: str
    is_quoted: bool
    place: Place

    @property
    def is_null(self) -> bool:
        """Nothing is written there, or `null`."""
        return not self.is_quoted and self.text in _NULLS


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping, in its order; a key that comes twice is still there twice."""

    entries: tuple[tuple[Scalar, Node], ...]
    place: Place


Node: TypeAlias = Scalar | Items | Entries


class UnreadableError(Exception):
    """The text is no YAML that can be used; there is no tree."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.message)


def parse_yaml(data: bytes) -> Node:
    """The tree of a file.

    Raises:
        UnreadableError: there is none; says where reading ended and why.
    """
    if len(data) > MAX_PIPELINE_BYTES:
        raise _unreadable(
            f"the file has more than {MAX_PIPELINE_BYTES:,} bytes, the bound of a pipeline file: "
            "is it the right file?"
        )
    text = _decoded(data)
    try:
        return _Composer(yaml.parse(text, Loader=yaml.SafeLoader)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = None if mark is None else Place(mark.line + 1, mark.column + 1)
        said = ", ".join(each for each in (error.context, error.problem) if each)
        raise _unreadable(f"invalid YAML: {said}{_tab_hint(text, place)}", place) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        raise _unreadable(
            f"the character {chr(error.character)!r} cannot be in YAML: remove it"
            if isinstance(error.character, int)
            else f"invalid YAML: {error.reason}",
            Place(line, column),
        ) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # an escape such as "\UFFFFFFFF"
        raise _unreadable(f"invalid YAML: {' '.join(str(error).split())}") from error


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = Place(before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1)
        raise _unreadable(
            f"the byte 0x{data[error.start]:02x} is no UTF-8: save the file as UTF-8", place
        ) from error


def _tab_hint(text: str, place: Place | None) -> str:
    """YAML refuses tabs in words that few understand."""
    if place is None:
        return ""
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    return ": indent with blanks, not with tabs" if line[: place.column].endswith("\t") else ""


def _unreadable(message: str, place: Place | None = None) -> UnreadableError:
    if place is None:
        return UnreadableError(Problem(message))
    return UnreadableError(Problem(message, place.line, place.column))


class _Composer:
    """Events become nodes, within bounds."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._open: set[str] = set()
        """Anchors whose node is being read: an alias to one would be a loop."""
        self._count = 0

    def document(self) -> Node:
        """The only document of the stream."""
        next(self._events)  # the stream starts
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return Scalar("", is_quoted=False, place=Place(1, 1))
        node = self._node(next(self._events), 0)
        next(self._events)  # the document ends
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise _unreadable(
                "a second document begins here: a pipeline is one document, give the other a "
                "file of its own",
                _place(after),
            )
        return node

    def _node(self, event: Event, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        assert isinstance(event, yaml.NodeEvent)
        self._count_up(1, event)
        if depth > _MAX_DEPTH:
            raise _unreadable(
                f"more than {_MAX_DEPTH} levels deep: is it a pipeline?", _place(event)
            )
        tag = getattr(event, "tag", None)
        if tag not in {None, "!"} and tag not in _PLAIN_TAGS:
            raise _unreadable(f"the tag {tag!r} means nothing here: remove it", _place(event))
        if event.anchor is None:
            return self._content(event, depth)
        before = self._count - 1
        self._open.add(event.anchor)
        node = self._content(event, depth)
        self._open.discard(event.anchor)
        self._anchors[event.anchor] = node, self._count - before
        return node

    def _content(self, event: Event, depth: int) -> Node:
        place = _place(event)
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, is_quoted=event.style is not None, place=place)
        if isinstance(event, yaml.SequenceStartEvent):
            return Items(tuple(self._until(yaml.SequenceEndEvent, depth)), place)
        nodes = list(self._until(yaml.MappingEndEvent, depth))
        return Entries(_merged(_pairs(nodes)), place)

    def _until(self, end: type[Event], depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), end):
            yield self._node(event, depth + 1)

    def _alias(self, event: yaml.AliasEvent) -> Node:
        name = str(event.anchor)
        if name in self._open:
            raise _unreadable(f"*{name} stands for something that contains itself", _place(event))
        if name not in self._anchors:
            raise _unreadable(
                f"*{name} stands for nothing: there is no &{name} above it", _place(event)
            )
        node, size = self._anchors[name]
        self._count_up(size, event)
        return node

    def _count_up(self, size: int, event: Event) -> None:
        self._count += size
        if self._count > _MAX_NODES:
            raise _unreadable(
                f"more than {_MAX_NODES:,} values, with what aliases stand for: is it a pipeline?",
                _place(event),
            )


def _pairs(nodes: list[Node]) -> Iterator[tuple[Scalar, Node]]:
    for key, value in zip(nodes[::2], nodes[1::2], strict=True):
        if not isinstance(key, Scalar):
            raise _unreadable("a key is a word, not a list or a mapping", key.place)
        yield key, value


def _merged(pairs: Iterator[tuple[Scalar, Node]]) -> tuple[tuple[Scalar, Node], ...]:
    """The entries with those of `<<: *other` behind them, where they say nothing themselves."""
    own: list[tuple[Scalar, Node]] = []
    others: list[Entries] = []
    for key, value in pairs:
        if key.is_quoted or key.text != "<<":
            own.append((key, value))
            continue
        merged = value.items if isinstance(value, Items) else (value,)
        for each in merged:
            if not isinstance(each, Entries):
                raise _unreadable("<< takes a mapping, as in `<<: *defaults`", value.place)
            others.append(each)
    said = {key.text for key, _ in own}
    for other in others:
        for key, value in other.entries:
            if key.text not in said:
                said.add(key.text)
                own.append((key, value))
    return tuple(own)


def _place(event: Event) -> Place:
    mark = event.start_mark
    return Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)

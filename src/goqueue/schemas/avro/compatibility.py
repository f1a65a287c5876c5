"""Whether data of one Avro schema can be read with another, by Avro's own resolution rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import InvalidSchemaError
from goqueue.schemas.limits import MAX_COMPARISONS

if TYPE_CHECKING:
    from goqueue.schemas.avro.tree import Field, Node

_PROMOTED: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
"""What a reader's type takes besides its own."""


def unreadable(reader: Node, writer: Node) -> list[str]:
    """Why a reader would not understand a writer; nothing where it does."""
    return _Resolution().compare(reader, writer, "")


class _Resolution:
    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[str]] = {}
        """What was found of pairs; of those being looked at nothing yet: a type may hold itself."""

    def compare(self, reader: Node, writer: Node, path: str) -> list[str]:
        pair = (id(reader), id(writer))
        if pair not in self._known:
            if len(self._known) >= MAX_COMPARISONS:
                raise InvalidSchemaError("the schema is too large to be compared")
            self._known[pair] = []
            self._known[pair] = self._compare(reader, writer, path)
        return self._known[pair]

    def _compare(self, reader: Node, writer: Node, path: str) -> list[str]:
        if writer.kind == "union":
            return [
                problem
                for at, branch in enumerate(writer.inner)
                for problem in self.compare(reader, branch, f"{path}/{at}")
            ]
        if reader.kind == "union":
            if any(not self.compare(branch, writer, path) for branch in reader.inner):
                return []
            return [f"MISSING_UNION_BRANCH at {_at(path)}: no branch reads {_kind(writer)}"]
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTED.get(reader.kind, ()):
                return []
            return [f"TYPE_MISMATCH at {_at(path)}: {_kind(reader)} does not read {_kind(writer)}"]
        if reader.kind in {"array", "map"}:
            inside = "items" if reader.kind == "array" else "values"
            return self.compare(reader.inner[0], writer.inner[0], f"{path}/{inside}")
        if not reader.name:
            return []
        return self._names(reader, writer, path) + self._insides(reader, writer, path)

    def _names(self, reader: Node, writer: Node, path: str) -> list[str]:
        if _last(reader.name) == _last(writer.name) or writer.name in reader.aliases:
            return []
        return [f"NAME_MISMATCH at {_at(path)}/name: {reader.name} does not read {writer.name}"]

    def _insides(self, reader: Node, writer: Node, path: str) -> list[str]:
        if reader.kind == "fixed":
            if reader.size == writer.size:
                return []
            sizes = f"{reader.size} bytes do not read {writer.size}"
            return [f"FIXED_SIZE_MISMATCH at {_at(path)}/size: {sizes}"]
        if reader.kind == "enum":
            missing = [each for each in writer.symbols if each not in reader.symbols]
            if not missing or reader.default is not None:
                return []
            return [f"MISSING_ENUM_SYMBOLS at {_at(path)}/symbols: {', '.join(missing)}"]
        problems = []
        for at, field in enumerate(reader.fields):
            place = f"{path}/fields/{at}"
            written = _written(writer, field)
            if written is not None:
                problems += self.compare(field.node, written.node, f"{place}/type")
            elif not field.has_default:
                problems.append(
                    f"READER_FIELD_MISSING_DEFAULT_VALUE at {place}: field {field.name!r} is not "
                    "written and has no default"
                )
        return problems


def _written(writer: Node, field: Field) -> Field | None:
    """The writer's field that a reader's field is: of its name, or of an alias."""
    names = (field.name, *field.aliases)
    by_name = {each.name: each for each in writer.fields}
    return next((by_name[name] for name in names if name in by_name), None)


def _kind(node: Node) -> str:
    return f"{node.kind} {node.name}".rstrip()


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _at(path: str) -> str:
    return path or "/"

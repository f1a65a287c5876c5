"""An Avro schema as a tree of nodes, every name resolved, held to the rules of the specification.

fastavro, which decodes messages, lets pass what other implementations refuse: names that are none,
fields and branches that occur twice, unions in unions. What is registered must do for all of them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Collection

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NO_DEFAULT: Final = object()
_OWN: Final = {
    "record": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "error": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "enum": {"type", "name", "namespace", "doc", "aliases", "symbols", "default"},
    "fixed": {"type", "name", "namespace", "doc", "aliases", "size"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
_OF_FIELD: Final = {"name", "type", "doc", "default", "order", "aliases"}


@dataclass(slots=True, eq=False)
class Field:
    """A field of a record."""

    name: str
    node: Node
    aliases: tuple[str, ...] = ()
    default: Any = _NO_DEFAULT
    doc: str | None = None
    order: str | None = None
    props: dict[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        """Readers need not find it."""
        return self.default is not _NO_DEFAULT


@dataclass(slots=True, eq=False)
class Node:
    """A type. What a kind of type does not have is empty."""

    kind: str
    props: dict[str, Any] = field(default_factory=dict)
    """Attributes that Avro itself does not know, and logical types."""
    name: str = ""
    """With its namespace."""
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    """The symbol of an enum that stands for those a reader does not know."""
    size: int = 0
    inner: list[Node] = field(default_factory=list)
    """The items of an array, the values of a map, the branches of a union."""


class AvroNames:
    """Types by their names, in the order in which schemas define them."""

    def __init__(self) -> None:
        self.by_name: dict[str, Node] = {}

    def node(self, schema: Any, namespace: str = "") -> Node:
        """The tree of a schema.

        Raises:
            InvalidSchemaError: it breaks a rule.
        """
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if not isinstance(schema, dict):
            raise InvalidSchemaError(f"{_shown(schema)} is no Avro type")
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self.node(kind, namespace)
        if not isinstance(kind, str):
            raise InvalidSchemaError(f"{_shown(schema)} has no type")
        props = {key: value for key, value in schema.items() if key not in _OWN.get(kind, {"type"})}
        if kind in PRIMITIVES:
            return Node(kind, props)
        if kind in {"array", "map"}:
            inside = "items" if kind == "array" else "values"
            if inside not in schema:
                raise InvalidSchemaError(f"{_shown(schema)} has no {inside}")
            return Node(kind, props, inner=[self.node(schema[inside], namespace)])
        if kind in {"record", "error", "enum", "fixed"}:
            return self._definition(kind, schema, namespace, props)
        return self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.by_name.get(full) or self.by_name.get(name)
        if found is None:
            raise InvalidSchemaError(f"there is no type {full!r}")
        return found

    def _union(self, branches: list[Any], namespace: str) -> Node:
        nodes = [self.node(each, namespace) for each in branches]
        seen = set()
        for node in nodes:
            if node.kind == "union":
                raise InvalidSchemaError("a union cannot hold a union directly")
            known_as = node.name or node.kind
            if known_as in seen:
                raise InvalidSchemaError(f"a union holds {known_as} twice")
            seen.add(known_as)
        return Node("union", inner=nodes)

    def _definition(
        self, kind: str, schema: dict[str, Any], namespace: str, props: dict[str, Any]
    ) -> Node:
        name = _full_name(schema, namespace)
        if name in self.by_name:
            raise InvalidSchemaError(f"type {name!r} is defined twice")
        space = name.rpartition(".")[0]
        aliases = _texts(schema, "aliases")
        node = Node(
            "record" if kind == "error" else kind,
            props,
            name,
            tuple(each if "." in each or not space else f"{space}.{each}" for each in aliases),
            _doc(schema),
        )
        self.by_name[name] = node
        if kind == "enum":
            _symbols(node, schema)
        elif kind == "fixed":
            node.size = schema.get("size", -1)
            if type(node.size) is not int or not 0 <= node.size < 2**31:
                raise InvalidSchemaError(f"fixed {name!r} needs a size of 0 or more")
        else:
            self._fields(node, schema, space)
        return node

    def _fields(self, node: Node, schema: dict[str, Any], namespace: str) -> None:
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchemaError(f"record {node.name!r} needs a list of fields")
        seen = set()
        for given in fields:
            if not isinstance(given, dict) or "type" not in given:
                raise InvalidSchemaError(f"a field of {node.name!r} needs a name and a type")
            name = _checked(given.get("name"), f"a field of {node.name!r}")
            if name in seen:
                raise InvalidSchemaError(f"record {node.name!r} has field {name!r} twice")
            seen.add(name)
            order = given.get("order")
            if order not in {None, "ascending", "descending", "ignore"}:
                raise InvalidSchemaError(f"field {name!r} has no such order: {_shown(order)}")
            node.fields.append(
                Field(
                    name,
                    self.node(given["type"], namespace),
                    tuple(_texts(given, "aliases")),
                    given.get("default", _NO_DEFAULT),
                    _doc(given),
                    None if order == "ascending" else order,
                    {key: value for key, value in given.items() if key not in _OF_FIELD},
                )
            )


def _symbols(node: Node, schema: dict[str, Any]) -> None:
    symbols = _texts(schema, "symbols")
    if "symbols" not in schema or len(set(symbols)) < len(symbols):
        raise InvalidSchemaError(f"enum {node.name!r} needs symbols, each of them once")
    for symbol in symbols:
        _checked(symbol, f"a symbol of {node.name!r}")
    node.symbols = tuple(symbols)
    node.default = schema.get("default")
    if node.default is not None and node.default not in symbols:
        raise InvalidSchemaError(f"the default of enum {node.name!r} is none of its symbols")


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidSchemaError(f"{_shown(schema)} has no name")
    if "." not in name:
        space = schema.get("namespace", namespace)
        if not isinstance(space, str):
            raise InvalidSchemaError(f"type {name!r} has a namespace that is no text")
        name = f"{space}.{name}" if space else name
    for part in name.split("."):
        _checked(part, f"type {name!r}")
    if name in PRIMITIVES:
        raise InvalidSchemaError(f"no type can be called {name!r}")
    return name


def _checked(name: object, what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSchemaError(
            f"{what} is called {_shown(name)}: a name is letters, digits and _, no digit first"
        )
    return name


def _texts(schema: dict[str, Any], key: str) -> list[str]:
    given = schema.get(key, [])
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InvalidSchemaError(f"{key} of {_shown(schema.get('name'))} has to be a list of texts")
    return given


def _doc(schema: dict[str, Any]) -> str | None:
    doc = schema.get("doc")
    return doc if isinstance(doc, str) else None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"


def text_of(node: Node, foreign: Collection[str], *, sort: bool = False) -> str:
    """The canonical text of a schema; `foreign` types are defined elsewhere and only named.

    With `sort`, attributes that Avro does not know come in the order of their names.
    """
    written = _Writer(set(foreign), sort=sort).node(node, "")
    return json.dumps(written, separators=(",", ":"), ensure_ascii=False)


class _Writer:
    """Writes each definition where it is first needed, and its name afterwards."""

    def __init__(self, defined: set[str], *, sort: bool) -> None:
        self._defined = defined
        self._sort = sort

    def node(self, node: Node, namespace: str) -> Any:
        if node.kind == "union":
            return [self.node(each, namespace) for each in node.inner]
        if node.name:
            return self._named(node, namespace)
        props = self._props(node.props)
        if node.kind in {"array", "map"}:
            inside = "items" if node.kind == "array" else "values"
            return {"type": node.kind, inside: self.node(node.inner[0], namespace), **props}
        return {"type": node.kind, **props} if props else node.kind

    def _named(self, node: Node, namespace: str) -> Any:
        space, _, name = node.name.rpartition(".")
        if node.name in self._defined:
            return name if space == namespace else node.name
        self._defined.add(node.name)
        written: dict[str, Any] = {"type": node.kind, "name": name}
        if space != namespace:
            written["namespace"] = space
        if node.doc is not None:
            written["doc"] = node.doc
        if node.kind == "record":
            written["fields"] = [self._field(each, space) for each in node.fields]
        elif node.kind == "enum":
            written["symbols"] = list(node.symbols)
            if node.default is not None:
                written["default"] = node.default
        else:
            written["size"] = node.size
        written |= self._props(node.props)
        if node.aliases:
            written["aliases"] = [_short(each, space) for each in node.aliases]
        return written

    def _field(self, field: Field, namespace: str) -> dict[str, Any]:
        written: dict[str, Any] = {"name": field.name, "type": self.node(field.node, namespace)}
        if field.doc is not None:
            written["doc"] = field.doc
        if field.has_default:
            written["default"] = field.default
        if field.order is not None:
            written["order"] = field.order
        if field.aliases:
            written["aliases"] = list(field.aliases)
        return {**written, **self._props(field.props)}

    def _props(self, props: dict[str, Any]) -> dict[str, Any]:
        return dict(sorted(props.items())) if self._sort else props


def _short(name: str, namespace: str) -> str:
    space, _, rest = name.rpartition(".")
    return rest if space == namespace else name

"""An Avro schema as text in one form: attributes in Avro's order, names as short as they may be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from goqueue.schemas.avro.tree import Field, Node


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

"""Where in an Avro message the trouble is. Walks the bytes as the schema says, and builds nothing.

fastavro says that a message does not decode, not at which field; this is asked once it has said so.
It is asked first where fastavro could be made to loop: an array of items that take no bytes can
claim to hold any number of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.schemas.decoded import MisfitAt

if TYPE_CHECKING:
    from goqueue.schemas.avro.tree import Node

_MAX_EMPTY_ITEMS: Final = 100_000
"""Items without bytes that one array may hold; a message with more is refused."""
_MAX_DEPTH: Final = 200
"""How deep a message may be nested; a deeper one is refused."""
_VARINT_BYTES: Final = 10
_WIDTHS: Final = {"float": 4, "double": 8, "boolean": 1, "null": 0}


def fault_in(node: Node, data: bytes) -> str | None:
    """What is wrong with a message and where; None when it fits."""
    walk = _Walk(data)
    try:
        walk.value(node, "", 0)
    except MisfitAt as fault:
        return str(fault)
    left = len(data) - walk.at
    return f"/: {left} bytes follow the end of the value" if left else None


class _Walk:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def value(self, node: Node, path: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise MisfitAt(path, f"nested deeper than {_MAX_DEPTH}")
        kind = node.kind
        if kind == "record":
            for field in node.fields:
                self.value(field.node, f"{path}/{field.name}", depth + 1)
        elif kind in {"int", "long"}:
            self._varint(path)
        elif kind in {"string", "bytes"}:
            self._text(path, is_text=kind == "string")
        elif kind == "union":
            branch = self._choice(path, len(node.inner), "branch of the union")
            self.value(node.inner[branch], path, depth + 1)
        elif kind == "enum":
            self._choice(path, len(node.symbols), "symbol of the enum")
        elif kind in {"array", "map"}:
            self._blocks(node, path, depth)
        else:
            self._skip(node.size if kind == "fixed" else _WIDTHS[kind], path)

    def _skip(self, count: int, path: str) -> bytes:
        taken = self._data[self.at : self.at + count]
        if len(taken) < count:
            raise MisfitAt(path, f"needs {count} bytes, and {len(taken)} are left")
        self.at += count
        return taken

    def _varint(self, path: str) -> int:
        result = 0
        for number in range(_VARINT_BYTES):
            byte = self._skip(1, path)[0]
            result |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1)
        raise MisfitAt(path, "a number that does not end")

    def _text(self, path: str, *, is_text: bool) -> None:
        length = self._varint(path)
        if length < 0:
            raise MisfitAt(path, f"a length of {length}")
        data = self._skip(length, path)
        if is_text:
            try:
                data.decode()
            except UnicodeDecodeError:
                raise MisfitAt(path, "a string that is not UTF-8") from None

    def _choice(self, path: str, count: int, what: str) -> int:
        number = self._varint(path)
        if not 0 <= number < count:
            raise MisfitAt(path, f"there is no {what} with the number {number}")
        return number

    def _blocks(self, node: Node, path: str, depth: int) -> None:
        is_map = node.kind == "map"
        seen = 0
        while (count := self._varint(path)) != 0:
            if count < 0:
                self._varint(path)
            for _ in range(abs(count)):
                before = self.at
                if is_map:
                    self._text(path, is_text=True)
                self.value(node.inner[0], f"{path}/{seen}", depth + 1)
                seen += 1
                if self.at == before and seen > _MAX_EMPTY_ITEMS:
                    raise MisfitAt(path, f"more than {_MAX_EMPTY_ITEMS} items without bytes")


def may_be_empty(node: Node) -> bool:
    """Whether an array anywhere in a type holds items that take no bytes."""
    return any(_is_empty(each.inner[0], set()) for each in _nodes(node) if each.kind == "array")


def _is_empty(node: Node, open_: set[int]) -> bool:
    """Whether values of a type take no bytes. One that holds itself takes some."""
    if node.kind == "record" and id(node) not in open_:
        inside = open_ | {id(node)}
        return all(_is_empty(field.node, inside) for field in node.fields)
    return node.kind == "null" or (node.kind == "fixed" and node.size == 0)


def _nodes(root: Node) -> list[Node]:
    found: list[Node] = []
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            found.append(node)
            waiting += [*node.inner, *(field.node for field in node.fields)]
    return found

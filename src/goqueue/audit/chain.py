"""The hash chain: every line holds the hash of the line before it, and its own.

The hash of a line is the SHA-256 of its bytes up to `,"hash":`, and those include the hash of the
line before. So a line that was changed does not match its own hash, and where one was removed,
inserted or moved, the next does not continue it.

A line is ASCII: what clients chose (names, addresses) is escaped, so that no client can end a line
and forge another.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.audit.events import AuditEvent

_MARK: Final = b',"hash":"'
_END: Final = b'"}'
_HEX_DIGITS: Final = 64
_START: Final = "0" * _HEX_DIGITS


class Link(NamedTuple):
    """The end of a chain: the number and the hash of its last line."""

    sequence: int
    hash: str

    @classmethod
    def start(cls) -> Self:
        """Before the first line."""
        return cls(0, _START)


class Line(NamedTuple):
    """One line that was read."""

    link: Link
    previous: str
    is_whole: bool
    """Whether it matches its own hash."""
    fields: dict[str, Any]


def encode_line(after: Link, node: str, event: AuditEvent) -> tuple[bytes, Link]:
    """The line of an event behind those before it, with the new end of the chain."""
    fields = {
        "seq": after.sequence + 1,
        "time": _time(event.time_ms),
        "node": node,
        **event.fields(),
        "previous": after.hash,
    }
    text = json.dumps(fields, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f")
    body = text[:-1].encode("ascii")
    found = hashlib.sha256(body).hexdigest()
    return body + _MARK + found.encode() + _END + b"\n", Link(after.sequence + 1, found)


def decode_line(line: bytes) -> Line | None:
    """What a line says; None if it is no line of an audit log."""
    line = line.rstrip(b"\n")
    body, mark, rest = line.rpartition(_MARK)
    if not mark or len(rest) != _HEX_DIGITS + len(_END) or not rest.endswith(_END):
        return None
    try:
        fields = json.loads(body + b"}")
        said, previous = int(fields["seq"]), str(fields["previous"])
        own = rest[:_HEX_DIGITS].decode("ascii")
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_whole = hashlib.sha256(body).hexdigest() == own
    return Line(Link(said, own), previous, is_whole, {**fields, "hash": own})


def _time(time_ms: int) -> str:
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

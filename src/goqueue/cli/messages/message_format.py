r"""`--format '%k %v\n'`: what is printed of a message, as kcat and Kafka's tools write it."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from goqueue.cli.errors import UsageError
from goqueue.cli.messages.shown_value import decoded_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.http.messages.message_shapes import MessageOut

_MAX_CHARS: Final = 1000
"""A longer format is refused."""

_PIECE: Final = re.compile(
    r"%(?P<field>.?)|\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.?))|(?P<text>[^%\\]+)", re.DOTALL
)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def parse_format(text: str) -> Callable[[MessageOut], bytes]:
    """What makes bytes of a message.

    Raises:
        UsageError: a field or an escape is unknown; the error lists those there are.
    """
    if len(text) > _MAX_CHARS:
        raise UsageError(f"--format has {len(text)} characters, up to {_MAX_CHARS} are allowed")
    pieces = [_piece(found) for found in _PIECE.finditer(text)]

    def show(message: MessageOut) -> bytes:
        return b"".join(each if isinstance(each, bytes) else each(message) for each in pieces)

    return show


def _piece(found: re.Match[str]) -> bytes | Callable[[MessageOut], bytes]:
    if found["text"] is not None:
        return found["text"].encode(errors="surrogateescape")
    if found["hex"] is not None:
        return bytes.fromhex(found["hex"])
    if found["escape"] is not None:
        if found["escape"] not in _ESCAPES:
            raise UsageError(
                f"--format: '\\{found['escape']}' is unknown; there are: \\n \\t \\r \\0 \\\\ \\xNN"
            )
        return _ESCAPES[found["escape"]]
    if found["field"] == "%":
        return b"%"
    try:
        return _FIELDS[found["field"]][1]
    except KeyError:
        known = ", ".join(f"%{field} {meaning}" for field, (meaning, _) in _FIELDS.items())
        raise UsageError(
            f"--format: '%{found['field']}' is unknown; there are: {known}, %% a percent sign"
        ) from None


def raw_bytes(value: str | None, encoding: str) -> bytes:
    """The bytes of a key or a value; none of a null."""
    if value is None:
        return b""
    is_bytes = encoding == "base64"
    return base64.b64decode(value) if is_bytes else value.encode(errors="surrogatepass")


def _key(message: MessageOut) -> bytes:
    return raw_bytes(message.key, message.key_encoding)


def _value(message: MessageOut) -> bytes:
    decoded = decoded_json(message)
    if decoded is not None:
        return decoded.encode(errors="surrogatepass")
    return raw_bytes(message.value, message.encoding)


def _size(message: MessageOut) -> bytes:
    """Of the value as it is stored; -1 for a tombstone, as kcat has it."""
    if message.value is None:
        return b"-1"
    return str(len(raw_bytes(message.value, message.encoding))).encode()


def _headers(message: MessageOut) -> bytes:
    return b",".join(
        each.name.encode() + b"=" + raw_bytes(each.value, each.encoding) for each in message.headers
    )


_FIELDS: Final[dict[str, tuple[str, Callable[[MessageOut], bytes]]]] = {
    "t": ("topic", lambda message: message.topic.encode()),
    "p": ("partition", lambda message: str(message.partition).encode()),
    "o": ("offset", lambda message: str(message.offset).encode()),
    "k": ("key", _key),
    "v": ("value", _value),
    "s": ("value", _value),
    "h": ("headers", _headers),
    "T": ("timestamp in ms", lambda message: str(message.timestamp).encode()),
    "S": ("size of the value in bytes", _size),
}

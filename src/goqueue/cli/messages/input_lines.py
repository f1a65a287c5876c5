"""Lines of a file or of standard input, each as a message or as what is wrong with it.

A None among them says that nothing more is there for the moment, as it happens with a pipe.
"""

from __future__ import annotations

import base64
import difflib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.protocols.http.messages.message_shapes import MessageIn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""A longer line is refused here: no request can be so large."""

_TOO_LONG: Final = f"longer than {_MAX_LINE_BYTES} bytes, the limit of a line"
_FIELDS: Final = MessageIn.__struct_encode_fields__


class Line(NamedTuple):
    """One line: a message as the API takes it, or why it is none."""

    number: int
    size_bytes: int
    message: dict[str, Any] | None
    error: str | None = None


def split_lines(chunks: Iterable[bytes | None]) -> Iterator[bytes | None]:
    """Lines without their ends. Of one that is too long only the beginning is kept."""
    rest = b""
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        rest = rest[: _MAX_LINE_BYTES + 1]
    if rest:
        yield rest


def text_lines(lines: Iterable[bytes | None]) -> Iterator[Line | None]:
    """Every line is a value; one that is no UTF-8 is sent as it is, in base64."""
    return _numbered(lines, lambda number, raw: value_line(number, raw.removesuffix(b"\r")))


def _numbered(
    lines: Iterable[bytes | None], line_of: Callable[[int, bytes], Line | None]
) -> Iterator[Line | None]:
    """Lines counted from 1; what `line_of` makes nothing of is left out."""
    number = 0
    for raw in lines:
        number += raw is not None
        line = None if raw is None else line_of(number, raw)
        if raw is None or line is not None:
            yield line


def value_line(number: int, data: bytes) -> Line:
    """A value as a line."""
    size = len(data) + 1
    if len(data) > _MAX_LINE_BYTES:
        return Line(number, size, None, _TOO_LONG)
    try:
        return Line(number, size, {"value": data.decode()})
    except UnicodeDecodeError:
        encoded = base64.b64encode(data).decode()
        return Line(number, size, {"value": encoded, "encoding": "base64"})


def json_lines(lines: Iterable[bytes | None]) -> Iterator[Line | None]:
    """Every line is a JSON object; empty ones and comments are left out, and counted."""
    return _numbered(lines, _json_line)


def _json_line(number: int, raw: bytes) -> Line | None:
    text = raw.strip()
    if not text or text.startswith(b"#"):
        return None
    try:
        return Line(number, len(raw) + 1, message_of(text))
    except ValueError as error:
        return Line(number, len(raw) + 1, None, str(error))


def message_of(text: bytes) -> dict[str, Any]:
    """The message that a line of JSON is. A value that is no text is sent as its own JSON.

    Raises:
        ValueError: it is no message; the text says why.
    """
    if len(text) > _MAX_LINE_BYTES:
        raise ValueError(_TOO_LONG)
    try:
        found = json.loads(text)
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("not JSON: nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError(  # noqa: TRY004 - all of them are the same to whoever wrote the line
            'expected an object such as {"key": "k", "value": "v"}'
        )
    for name in found:
        if name not in _FIELDS:
            near = difflib.get_close_matches(name, _FIELDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(_FIELDS)}"
            raise ValueError(f"unknown field {name!r}; {hint}")
    if "value" not in found:
        raise ValueError('"value" is missing; null is a tombstone')
    if not isinstance(found["value"], str | None):
        found["value"] = json.dumps(found["value"], ensure_ascii=False, separators=(",", ":"))
    return found

"""How a message looks: a line for people, JSON or YAML for programs, or its bare bytes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import typer

from goqueue.cli.output import Format, emit_line, printable
from goqueue.cli.times import show_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.http.messages.message_shapes import MessageOut


def printer(output: Format, *, value_only: bool) -> Callable[[MessageOut], None]:
    """What prints one message."""
    if value_only:
        return _print_value
    if output is Format.TABLE:
        return lambda message: typer.echo(message_line(message))
    return lambda message: emit_line(message, output)


def message_line(message: MessageOut) -> str:
    """Place, time, key, value and headers, on one line that a terminal can be trusted with."""
    place = f"{message.partition}:{message.offset}"
    parts = [f"{place:<8}", show_time(message.timestamp)]
    if message.key is not None:
        parts.append(f"key={_text(message.key, message.key_encoding)}")
    parts.extend(f"{each.name}={_text(each.value, each.encoding)}" for each in message.headers)
    value = message.value
    parts.append("(tombstone)" if value is None else _text(value, message.encoding))
    return printable("  ".join(parts)).replace("\n", "\\n")


def _text(value: str | None, encoding: str) -> str:
    if value is None:
        return "(null)"
    return f"base64:{value}" if encoding == "base64" else value


def _print_value(message: MessageOut) -> None:
    value = message.value or ""
    is_bytes = message.encoding == "base64"
    data = base64.b64decode(value) if is_bytes else value.encode(errors="surrogatepass")
    stream = typer.get_binary_stream("stdout")
    stream.write(data + b"\n")
    stream.flush()

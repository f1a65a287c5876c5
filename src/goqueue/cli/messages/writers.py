"""What prints a message: a line for people, JSON or YAML for programs, its value, or a format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from goqueue.cli.errors import UsageError
from goqueue.cli.messages.message_format import parse_format, raw_bytes
from goqueue.cli.messages.shown_value import decoded_json
from goqueue.cli.output import Format, emit_line, printable
from goqueue.cli.times import show_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.http.messages.message_shapes import MessageOut


def writer(output: Format, *, value_only: bool, text: str | None) -> Callable[[MessageOut], None]:
    """What prints one message.

    Raises:
        UsageError: two forms were asked for, or the format makes no sense.
    """
    if text is not None:
        if value_only or output is not Format.TABLE:
            other = "--value-only" if value_only else f"-o {output.value}"
            raise UsageError(f"--format and {other} exclude each other: leave one of them out")
        form = parse_format(text)
        return lambda message: _write(form(message))
    if value_only:
        return lambda message: _write(raw_bytes(message.value, message.encoding) + b"\n")
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
    stored = "(tombstone)" if value is None else _text(value, message.encoding)
    parts.append(decoded_json(message) or stored)
    return printable("  ".join(parts)).replace("\n", "\\n")


def _text(value: str | None, encoding: str) -> str:
    if value is None:
        return "(null)"
    return f"base64:{value}" if encoding == "base64" else value


def _write(data: bytes) -> None:
    stream = typer.get_binary_stream("stdout")
    stream.write(data)
    stream.flush()

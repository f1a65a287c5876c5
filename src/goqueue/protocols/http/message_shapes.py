"""A stored message as JSON shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from goqueue.protocols.http.codecs import Encoding, to_text
from goqueue.protocols.http.shapes import Milliseconds, Offset, PartitionNumber, doc

if TYPE_CHECKING:
    from goqueue.broker.messages import StoredMessage


class HeaderOut(msgspec.Struct, omit_defaults=True):
    """A header of a message."""

    name: str
    value: str | None
    encoding: Annotated[Encoding, doc("`base64` where `value` is not UTF-8.", "text")] = "text"


class MessageOut(msgspec.Struct):
    """A message that was read."""

    topic: str
    partition: PartitionNumber
    offset: Offset
    timestamp: Milliseconds
    key: Annotated[str | None, doc("Null if it has none.", "customer-7")]
    value: Annotated[str | None, doc("Null is a tombstone.", '{"id": 1}')]
    headers: list[HeaderOut]
    encoding: Annotated[Encoding, doc("How `value` is written.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("How `key` is written.", "text")] = "text"


def message_out(message: StoredMessage, *, force_base64: bool = False) -> MessageOut:
    """A stored message, its bytes as text where they are text."""
    record = message.record
    key, key_encoding = _text(record.key, force_base64=force_base64)
    value, encoding = _text(record.value, force_base64=force_base64)
    return MessageOut(
        message.topic,
        message.partition,
        record.offset,
        record.timestamp_ms,
        key,
        value,
        [
            HeaderOut(_name(name), *_text(data, force_base64=force_base64))
            for name, data in record.headers
        ]
        if record.headers
        else [],
        encoding,
        key_encoding,
    )


def _text(data: bytes | None, *, force_base64: bool) -> tuple[str | None, Encoding]:
    return (None, "text") if data is None else to_text(data, force_base64=force_base64)


def _name(name: str) -> str:
    """A header's name, with what is not UTF-8 in it shown as such."""
    if name.isascii():
        return name
    return name.encode(errors="surrogateescape").decode(errors="replace")

"""The value of a message as it is filtered and shown: as the registry decodes it, if it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.cli.output import note

if TYPE_CHECKING:
    from goqueue.model.json_filter import JsonFilter
    from goqueue.protocols.http.messages.message_shapes import MessageOut


def decoded_json(message: MessageOut) -> str | None:
    """A value as its schema has it, as JSON; None if it was not decoded."""
    found = message.decoded
    return None if found is None or isinstance(found, msgspec.UnsetType) else found.json


def fits(message: MessageOut, wanted: JsonFilter) -> bool:
    """Whether a value, decoded or JSON itself, is what a filter asks for."""
    return wanted.matches_text(decoded_json(message) or message.value)


class DecodeFailures:
    """Counts values that could not be decoded, for one sentence at the end."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def look(self, message: MessageOut) -> None:
        """Count a message."""
        reason = message.decode_error
        if reason is None or isinstance(reason, msgspec.UnsetType):
            return
        if not self._count:
            self._first = f"{message.partition}:{message.offset}: {reason}"
        self._count += 1

    def report(self) -> None:
        """Say how many there were, if there were any."""
        if self._count:
            subject = "value was" if self._count == 1 else "values were"
            note(
                f"{self._count} {subject} not decoded and printed as stored "
                f"({self._first}); --decode none does not try"
            )

"""A dead letter corrected before it is redriven: its key, its value or its headers are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from goqueue.model.dead_letters import HEADER_PREFIX
from goqueue.records import Headers

if TYPE_CHECKING:
    from goqueue.queues.dead_letters.letters import Letter


class LetterEdit(msgspec.Struct, frozen=True):
    """What is replaced; what is unset stays."""

    key: bytes | UnsetType | None = UNSET
    value: bytes | UnsetType | None = UNSET
    headers: Headers | UnsetType = UNSET
    """All of the message's own; those that say how it died are the broker's."""

    def of(self, letter: Letter) -> Letter:
        """The letter with what is replaced."""
        record = letter.record
        if self.key is not UNSET:
            record = record._replace(key=self.key)
        if self.value is not UNSET:
            record = record._replace(value=self.value)
        if self.headers is not UNSET:
            said = (each for each in record.headers if each[0].startswith(HEADER_PREFIX))
            own = (each for each in self.headers if not each[0].startswith(HEADER_PREFIX))
            record = record._replace(headers=(*own, *said))
        return letter._replace(record=record)

    def moves(self, letter: Letter) -> bool:
        """Whether its key is another one, and so may be its partition."""
        return self.key is not UNSET and self.key != letter.record.key

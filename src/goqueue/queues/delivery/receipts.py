"""What a consumer is given with a message, and shows again to say what became of it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from goqueue.model.errors import MalformedReceiptError

_FORMAT: Final = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<partition>0|[1-9]\d{0,9}):(?P<offset>0|[1-9]\d{0,18})"
    r":(?P<count>[1-9]\d{0,2}):(?P<nonce>[0-9a-f]{16})",
    re.ASCII,
)
_LONGEST_SHOWN: Final = 80


class Receipt(NamedTuple):
    """One delivery of one message to one group: `topic:partition:offset:deliveryCount:nonce`.

    The nonce is 64 random bits: nobody acknowledges a delivery that was not made to them.
    """

    topic: str
    partition: int
    offset: int
    delivery_count: int
    nonce: int

    def __str__(self) -> str:
        return (
            f"{self.topic}:{self.partition}:{self.offset}:{self.delivery_count}:{self.nonce:016x}"
        )

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """The receipt that was written so.

        Raises:
            MalformedReceiptError: the text is no receipt.
        """
        match = _FORMAT.fullmatch(text)
        if match is None:
            raise MalformedReceiptError(
                f"{text[:_LONGEST_SHOWN]!r} is no receipt: expected "
                "topic:partition:offset:deliveryCount:nonce, as the poll gave it"
            )
        topic, partition, offset, count, nonce = match.groups()
        return cls(topic, int(partition), int(offset), int(count), int(nonce, 16))

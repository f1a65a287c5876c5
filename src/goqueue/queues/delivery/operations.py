"""Everything that can happen to the messages of one partition in one queue group.

What happens is first one of these, then applied; the same ones are stored, so that replaying them
gives the same state again. They are written as MessagePack arrays: fields are only ever added, at
the end and with a default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from goqueue.model.dead_letters import Reason
from goqueue.model.errors import CorruptQueueStateError
from goqueue.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LaneRange: TypeAlias = tuple[int, int, int]
"""A lane, and a range of its messages."""


class Opened(msgspec.Struct, tag="o", array_like=True, frozen=True):
    """The group begins, or begins again, to read the partition at this offset."""

    start: int
    is_set: bool = False
    """Somebody has chosen the offset; otherwise it is where groups begin by their settings."""


class Taken(msgspec.Struct, tag="t", array_like=True, frozen=True):
    """Messages were handed to a member until a deadline."""

    lease: int
    member: str
    at_ms: int
    deadline_ms: int
    seed: bytes
    """The nonces of the receipts are drawn from it, in the order of the ranges."""
    ranges: list[tuple[int, int, int]]
    """Lane, first offset, and the offset behind the last."""


class Untaken(msgspec.Struct, tag="u", array_like=True, frozen=True):
    """They were taken and did not reach the member after all: the delivery does not count."""

    ranges: list[Range]
    lease: int = 0
    """Only what is still in flight under this lease is meant; 0 is whatever is in flight."""


class Settled(msgspec.Struct, tag="s", array_like=True, frozen=True):
    """The group is done with these: acknowledged, dead-lettered, or not there any more."""

    ranges: list[Range]


class Released(msgspec.Struct, tag="b", array_like=True, frozen=True):
    """A member gave these back, or is gone; they may be handed out again at once."""

    ranges: list[Range]


class Postponed(msgspec.Struct, tag="w", array_like=True, frozen=True):
    """A member could not process these; they may be handed out again from their due times on."""

    due: list[tuple[int, int]]
    """Offset, and time in milliseconds."""
    error: str = ""


class Extended(msgspec.Struct, tag="x", array_like=True, frozen=True):
    """Their member has these for longer, or for less long."""

    lease: int
    deadline_ms: int
    ranges: list[Range]


class Doomed(msgspec.Struct, tag="d", array_like=True, frozen=True):
    """These are dead, and on their way to the dead-letter topic."""

    ranges: list[Range]
    reason: Reason
    at_ms: int
    error: str = ""


class Doom(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Why and how a message died, for those who look into the dead-letter topic."""

    reason: str
    error: str
    at_ms: int
    deliveries: int
    first_delivery_ms: int
    last_delivery_ms: int
    member: str


class Moving(msgspec.Struct, tag="m", array_like=True, frozen=True):
    """Messages are about to be copied to another partition, as a batch with this sequence."""

    topic: str
    partition: int
    base_sequence: int
    offsets: list[int]
    producer_id: int
    from_offset: int = 0
    """The batch is not in the log of the partition before this offset."""


Operation: TypeAlias = (
    Opened | Taken | Untaken | Settled | Released | Postponed | Extended | Doomed | Moving
)

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Operation])


def encode(operations: list[Operation]) -> bytes:
    """What is stored of them."""
    return _ENCODER.encode(operations)


def decode(data: bytes) -> list[Operation]:
    """The operations in `data`.

    Raises:
        CorruptQueueStateError: it holds something else.
    """
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptQueueStateError(f"a stored operation does not decode: {error}") from error


def ranges_of(offsets: Iterable[int]) -> list[Range]:
    """Offsets, in any order and perhaps some twice, as few ranges as possible, in order."""
    found: list[Range] = []
    first = end = -1
    for offset in sorted(offsets):
        if offset == end:
            end += 1
        elif offset > end:
            if end > first:
                found.append((first, end))
            first, end = offset, offset + 1
    if end > first:
        found.append((first, end))
    return found


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Ranges, in any order and perhaps overlapping, as few as possible, in order."""
    found: list[Range] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def within(offsets: dict[int, Any], first: int, end: int) -> Sequence[int]:
    """Those of the keys that lie in [first, end), at the cost of the smaller of the two."""
    if end - first < len(offsets):
        return [offset for offset in range(first, end) if offset in offsets]
    return [offset for offset in offsets if first <= offset < end]


def drop(offsets: dict[int, Any], first: int, end: int) -> None:
    """Forget the keys that lie in [first, end)."""
    for offset in within(offsets, first, end):
        del offsets[offset]

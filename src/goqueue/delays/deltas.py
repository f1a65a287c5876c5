"""The changes of delayed messages as they are stored: one letter, and what it is about.

Messages themselves are not among them: that a message waits is said by its record in the log of
its class. What is stored here is what became of it.
"""

from __future__ import annotations

import struct
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.delays.entries import CLASSES, DelayedState
from goqueue.model.errors import CorruptDelayStateError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PRODUCER: Final = b"P"
_INTENT: Final = b"I"
_EPOCH_INTENT: Final = b"J"
"""An intent behind the epoch of its producer, which only a cluster ever moves."""
_DELIVERED: Final = b"D"
_RELEASED: Final = b"R"
_ENDED: Final = b"E"
_CUT: Final = b"T"
_CONFIRMED: Final = b"C"
_INTENT_HEAD: Final = struct.Struct(">q16siqi")
_ENDED_HEAD: Final = struct.Struct(">16sB")
_CUT_VALUE: Final = struct.Struct(">Bq")
_ENDS: Final = struct.Struct(f">{CLASSES}q")
_NUMBER: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">h")

Stored: TypeAlias = "tuple[bytes, bytes]"


class ProducerGiven(NamedTuple):
    """Messages are handed over under this producer id, in this epoch of it."""

    producer_id: int
    epoch: int = 0


class Intent(NamedTuple):
    """These messages are about to be appended to a partition, as one batch."""

    number: int
    topic_id: bytes
    partition: int
    from_offset: int
    """Where the partition's log ended then; the batch is not before it."""
    base_sequence: int
    ids: tuple[int, ...]
    epoch: int = 0
    """Of the producer."""


class Settled(NamedTuple):
    """What these intents were about is in its partition, and will be after a power cut."""

    numbers: tuple[int, ...]


class Released(NamedTuple):
    """What these intents were about was not appended: the messages wait again."""

    numbers: tuple[int, ...]


class Ended(NamedTuple):
    """These messages of one topic will not be delivered."""

    topic_id: bytes
    state: DelayedState
    ids: tuple[int, ...]


class Cut(NamedTuple):
    """The log of a class has lost what it held from an offset on; others will get these ids."""

    class_number: int
    end_offset: int


class Confirmed(NamedTuple):
    """Of every message before these offsets it is known whether its batch was stored whole.

    What is not is among the `Ended`.
    """

    ends: tuple[int, ...]


Delta: TypeAlias = ProducerGiven | Intent | Settled | Released | Ended | Cut | Confirmed


def encode_delta(delta: Delta) -> Stored:
    """A change as key and value."""
    if isinstance(delta, Intent):
        value = _INTENT_HEAD.pack(*delta[:5]) + _pack(delta.ids)
        if not delta.epoch:
            return _INTENT, value
        return _EPOCH_INTENT, _EPOCH.pack(delta.epoch) + value
    if isinstance(delta, Settled):
        return _DELIVERED, _pack(delta.numbers)
    if isinstance(delta, Released):
        return _RELEASED, _pack(delta.numbers)
    if isinstance(delta, Ended):
        return _ENDED, _ENDED_HEAD.pack(delta.topic_id, delta.state) + _pack(delta.ids)
    if isinstance(delta, Cut):
        return _CUT, _CUT_VALUE.pack(*delta)
    if isinstance(delta, Confirmed):
        return _CONFIRMED, _ENDS.pack(*delta.ends)
    epoch = _EPOCH.pack(delta.epoch) if delta.epoch else b""
    return _PRODUCER, _NUMBER.pack(delta.producer_id) + epoch


def decode_delta(key: bytes, value: bytes) -> Delta:
    """The change that `encode_delta` gave.

    Raises:
        CorruptDelayStateError: it is none.
    """
    try:
        if key == _INTENT:
            return _intent(value, 0)
        if key == _EPOCH_INTENT:
            return _intent(value[_EPOCH.size :], *_EPOCH.unpack_from(value))
        if key == _DELIVERED:
            return Settled(_unpack(value))
        if key == _RELEASED:
            return Released(_unpack(value))
        if key == _ENDED:
            topic_id, state = _ENDED_HEAD.unpack_from(value)
            return Ended(topic_id, DelayedState(state), _unpack(value, _ENDED_HEAD.size))
        if key == _CUT:
            return Cut(*_CUT_VALUE.unpack(value))
        if key == _CONFIRMED:
            return Confirmed(_ENDS.unpack(value))
        if key == _PRODUCER:
            (producer_id,) = _NUMBER.unpack_from(value)
            has_epoch = len(value) > _NUMBER.size
            epoch = _EPOCH.unpack_from(value, _NUMBER.size)[0] if has_epoch else 0
            return ProducerGiven(producer_id, epoch)
    except (struct.error, ValueError) as error:
        raise CorruptDelayStateError(f"a change of kind {key!r} does not decode: {error}") from None
    raise CorruptDelayStateError(f"no change of delayed messages is of kind {key!r}")


def _intent(value: bytes, epoch: int) -> Intent:
    number, topic_id, partition, offset, sequence = _INTENT_HEAD.unpack_from(value)
    ids = _unpack(value, _INTENT_HEAD.size)
    return Intent(number, topic_id, partition, offset, sequence, ids, epoch)


def without_lost(deltas: Sequence[Delta]) -> Iterator[Delta]:
    """Changes in their order, leaving out what they say of messages that were lost later.

    After a power cut the log of a class may end before messages that changes speak of. Others get
    their ids, and what was said of the lost ones must not be taken for theirs.
    """
    ends: list[float] = [inf] * CLASSES
    kept: list[Delta] = []
    for delta in reversed(deltas):
        if isinstance(delta, Cut):
            ends[delta.class_number] = min(ends[delta.class_number], delta.end_offset)
        elif isinstance(delta, Intent | Ended):
            ids = tuple(each for each in delta.ids if each >> 2 < ends[each & 3])
            kept.append(delta if len(ids) == len(delta.ids) else delta._replace(ids=ids))
        else:
            kept.append(delta)
    return reversed(kept)


def _pack(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{len(numbers)}q", *numbers)


def _unpack(value: bytes, at: int = 0) -> tuple[int, ...]:
    return struct.unpack(f">{(len(value) - at) // 8}q", value[at:])

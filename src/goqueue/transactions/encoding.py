"""How transactions are stored in `__transaction_state`: one record an id, the newest counts.

The first byte of keys and values says what they are: a transactional id, or a series of batches.
"""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar

import msgspec

from goqueue.model.errors import CorruptTransactionStateError, UnsupportedFormatError
from goqueue.model.tuples import NamedTuple
from goqueue.transactions.states import TransactionState

_V = TypeVar("_V", "TransactionValue", "SeriesValue")

VERSION: Final = 1
_VERSION_BYTE: Final = bytes([VERSION])
_SERIES_BYTE: Final = b"\x02"

Places: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics and the numbers of their partitions."""


class StateRecord(NamedTuple):
    """One record for the compacted topic; a null value removes the key."""

    key: bytes
    value: bytes | None


class TransactionValue(msgspec.Struct, frozen=True, array_like=True):
    """Everything that is known of one transactional id."""

    producer_id: int
    epoch: int
    last_producer_id: int
    last_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Places
    started_ms: int
    updated_ms: int
    transaction_id: str
    session_timeout_ms: int | None = None
    next_producer_id: int = -1


class SeriesValue(msgspec.Struct, frozen=True, array_like=True):
    """How far a series of batches is."""

    last_number: int
    updated_ms: int
    keep_ms: int


_decoder: Final = msgspec.msgpack.Decoder(TransactionValue)
_series_decoder: Final = msgspec.msgpack.Decoder(SeriesValue)
_encode: Final = msgspec.msgpack.Encoder().encode


def put(transactional_id: str, value: TransactionValue) -> StateRecord:
    """An entry that stores a value."""
    return StateRecord(_key(transactional_id), _VERSION_BYTE + _encode(value))


def remove(transactional_id: str) -> StateRecord:
    """An entry that removes what was stored."""
    return StateRecord(_key(transactional_id), None)


def put_series(name: str, value: SeriesValue) -> StateRecord:
    """An entry that stores how far a series is."""
    return StateRecord(_SERIES_BYTE + name.encode(), _SERIES_BYTE + _encode(value))


def remove_series(name: str) -> StateRecord:
    """An entry that removes a series."""
    return StateRecord(_SERIES_BYTE + name.encode(), None)


def is_series(entry: StateRecord) -> bool:
    """Whether an entry is about a series, for `decode_series`."""
    return entry.key[:1] == _SERIES_BYTE


def decode_series(entry: StateRecord) -> tuple[str, SeriesValue | None]:
    """Read the entry of a series back.

    Raises:
        CorruptTransactionStateError: the bytes are not an entry at all.
    """
    return _decoded(entry, _series_decoder)


def _key(transactional_id: str) -> bytes:
    return _VERSION_BYTE + transactional_id.encode()


def decode(entry: StateRecord) -> tuple[str, TransactionValue | None]:
    """Read an entry back.

    Raises:
        UnsupportedFormatError: a newer version wrote the entry.
        CorruptTransactionStateError: the bytes are not an entry at all.
    """
    for part in entry:
        if part is not None and part[:1] != _VERSION_BYTE:
            raise UnsupportedFormatError(
                f"an entry of the transaction {entry.key[1:]!r} has version "
                f"{part[:1].hex() or 'none'}, this release reads version {VERSION}: run the "
                "release that wrote it"
            )
    return _decoded(entry, _decoder)


def _decoded(entry: StateRecord, decoder: msgspec.msgpack.Decoder[_V]) -> tuple[str, _V | None]:
    try:
        name = entry.key[1:].decode()
        return name, None if entry.value is None else decoder.decode(entry.value[1:])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptTransactionStateError(
            f"the entry of {entry.key[1:]!r} does not decode: {error}"
        ) from error

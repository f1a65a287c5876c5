"""How transactions are stored in `__transaction_state`: one record an id, the newest counts."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import msgspec

from goqueue.model.errors import CorruptTransactionStateError, UnsupportedFormatError

VERSION: Final = 1
_VERSION_BYTE: Final = bytes([VERSION])

Places: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics and the numbers of their partitions."""


class Entry(NamedTuple):
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
    state: str
    partitions: Places
    started_ms: int
    updated_ms: int
    transaction_id: str
    session_timeout_ms: int | None = None


_decoder: Final = msgspec.msgpack.Decoder(TransactionValue)
_encode: Final = msgspec.msgpack.Encoder().encode


def put(transactional_id: str, value: TransactionValue) -> Entry:
    """An entry that stores a value."""
    return Entry(_key(transactional_id), _VERSION_BYTE + _encode(value))


def remove(transactional_id: str) -> Entry:
    """An entry that removes what was stored."""
    return Entry(_key(transactional_id), None)


def _key(transactional_id: str) -> bytes:
    return _VERSION_BYTE + transactional_id.encode()


def decode(entry: Entry) -> tuple[str, TransactionValue | None]:
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
    try:
        transactional_id = entry.key[1:].decode()
        value = None if entry.value is None else _decoder.decode(entry.value[1:])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptTransactionStateError(
            f"the entry of the transaction {entry.key[1:]!r} does not decode: {error}"
        ) from error
    return transactional_id, value

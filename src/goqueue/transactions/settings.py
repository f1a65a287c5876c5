"""The settings of transactions, with Kafka's defaults where Kafka has the setting."""

from __future__ import annotations

from typing import Final

import msgspec

TRANSACTIONS_PARTITIONS: Final = 16
"""Of the internal topic that keeps their state."""

_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 24 * 60 * _MINUTE_MS


class TransactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One value for every bound and every delay of transactions."""

    default_timeout_ms: int = _MINUTE_MS
    """How long a transaction may stay open when its producer does not say."""

    max_timeout_ms: int = 15 * _MINUTE_MS
    """`transaction.max.timeout.ms`; a producer that asks for more is refused."""

    session_timeout_ms: int = 30_000
    """A producer that has promised to be heard of is taken for dead after so long a silence."""

    id_expiration_ms: int = 7 * _DAY_MS
    """`transactional.id.expiration.ms`: an id that nobody used for so long is forgotten."""

    member_expiration_ms: int = 60 * _MINUTE_MS
    """The same for the transactions of a series, of which each batch has new ones."""

    max_series_keep_ms: int = 400 * _DAY_MS
    """How long a series may ask to be remembered after its last batch."""

    id_check_interval_ms: int = 60 * _MINUTE_MS
    """How often ids are looked at for that."""

    max_ids: int = 100_000
    """Transactional ids in one coordinator, and series; a further one is refused until an old one
    expires."""

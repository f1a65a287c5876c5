"""Transactions that are committed together, batch after batch.

A *series* is a job that writes in numbered batches, each of them in as many transactions as it
has writers. Its transactions are named `{series}::{anything}`, and by that name they all belong to
the coordinator that knows the series: so one record batch of its log can decide all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from goqueue.model.tuples import NamedTuple
from goqueue.transactions.encoding import SeriesValue, StateRecord, put_series

if TYPE_CHECKING:
    from goqueue.transactions.messages import Identity

SEPARATOR: Final = "::"


def series_of(transactional_id: str) -> str:
    """The series that a transactional id belongs to; of most ids, the id itself."""
    return transactional_id.partition(SEPARATOR)[0]


def is_member(transactional_id: str) -> bool:
    """Whether an id names a transaction of a series."""
    return SEPARATOR in transactional_id


class Member(NamedTuple):
    """One transaction of a batch, and who wrote it."""

    transactional_id: str
    identity: Identity


class TogetherRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of a series is complete, or given up."""

    series: str
    number: int
    """Of the batch. What was committed under a number is never committed again under it, nor
    under a lower one."""
    members: tuple[Member, ...] = ()
    keep_ms: int
    """How long the last number is to be remembered when nothing more comes."""


class Series(msgspec.Struct, frozen=True):
    """How far a series is."""

    name: str
    last_number: int
    """Of the newest batch that was committed. It only ever rises."""
    updated_ms: int
    keep_ms: int

    def advanced(self, request: TogetherRequest, now_ms: int) -> Series:
        """The series after a batch."""
        return replace(self, last_number=request.number, updated_ms=now_ms, keep_ms=request.keep_ms)

    def stored(self) -> StateRecord:
        """The entry that loads it as it is now."""
        value = SeriesValue(self.last_number, self.updated_ms, self.keep_ms)
        return put_series(self.name, value)

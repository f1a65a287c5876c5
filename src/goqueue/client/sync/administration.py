"""The part of `Client` that administers. The families are imported when one is first used."""

# ruff: noqa: PLC0415 - a program that only publishes pays for none of this

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from goqueue.client.administration.client import AsyncAdministration
from goqueue.client.sync.blocking import Blocking, blocking

if TYPE_CHECKING:
    from goqueue.client.sync.families import (
        Cluster,
        DeadLetters,
        Delayed,
        Groups,
        Offsets,
        Queues,
        Receipts,
        Schemas,
        Topics,
        Traces,
        Transactions,
    )

_Inner = TypeVar("_Inner", bound=AsyncAdministration)


class Administration(Blocking[_Inner]):
    """What operators do with a cluster."""

    health = blocking(AsyncAdministration.health)

    @cached_property
    def topics(self) -> Topics:
        """Topics: make, describe, configure, grow, purge, delete."""
        from goqueue.client.sync.families import Topics

        return Topics(self._thread, self._inner.topics)

    @cached_property
    def groups(self) -> Groups:
        """Groups of every kind."""
        from goqueue.client.sync.families import Groups

        return Groups(self._thread, self._inner.groups)

    @cached_property
    def offsets(self) -> Offsets:
        """How far groups have read."""
        from goqueue.client.sync.families import Offsets

        return Offsets(self._thread, self._inner.offsets)

    @cached_property
    def queues(self) -> Queues:
        """Queue groups: settings, members, what waits."""
        from goqueue.client.sync.families import Queues

        return Queues(self._thread, self._inner.queues)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """Dead letters: look, redrive, purge."""
        from goqueue.client.sync.families import DeadLetters

        return DeadLetters(self._thread, self._inner.dead_letters)

    @cached_property
    def delayed(self) -> Delayed:
        """Messages that wait until they are due."""
        from goqueue.client.sync.families import Delayed

        return Delayed(self._thread, self._inner.delayed)

    @cached_property
    def schemas(self) -> Schemas:
        """The schema registry."""
        from goqueue.client.sync.families import Schemas

        return Schemas(self._thread, self._inner.schemas)

    @cached_property
    def traces(self) -> Traces:
        """What happened to messages."""
        from goqueue.client.sync.families import Traces

        return Traces(self._thread, self._inner.traces)

    @cached_property
    def transactions(self) -> Transactions:
        """Transactional ids, and where their transactions stand."""
        from goqueue.client.sync.families import Transactions

        return Transactions(self._thread, self._inner.transactions)

    @cached_property
    def receipts(self) -> Receipts:
        """Acknowledgements by receipt handle."""
        from goqueue.client.sync.families import Receipts

        return Receipts(self._thread, self._inner.receipts)

    @cached_property
    def cluster(self) -> Cluster:
        """The brokers, their health and their totals."""
        from goqueue.client.sync.families import Cluster

        return Cluster(self._thread, self._inner.cluster)

"""The part of `AsyncClient` that administers. Each family is imported when it is first used."""

# ruff: noqa: PLC0415 - a program that only publishes pays for none of this

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.client.administration.cluster import AsyncCluster, Health
    from goqueue.client.administration.dead_letters import AsyncDeadLetters
    from goqueue.client.administration.delayed import AsyncDelayed
    from goqueue.client.administration.groups import AsyncGroups, AsyncOffsets
    from goqueue.client.administration.queues import AsyncQueues
    from goqueue.client.administration.receipts import AsyncReceipts
    from goqueue.client.administration.schemas import AsyncSchemas
    from goqueue.client.administration.topics import AsyncTopics
    from goqueue.client.administration.traces import AsyncTraces
    from goqueue.client.administration.transactions import AsyncTransactions
    from goqueue.client.link.link import Link


class AsyncAdministration:
    """What operators do with a cluster."""

    link: Link

    @cached_property
    def topics(self) -> AsyncTopics:
        """Topics: make, describe, configure, grow, purge, delete."""
        from goqueue.client.administration.topics import AsyncTopics

        return AsyncTopics(self.link)

    @cached_property
    def groups(self) -> AsyncGroups:
        """Groups of every kind."""
        from goqueue.client.administration.groups import AsyncGroups

        return AsyncGroups(self.link)

    @cached_property
    def offsets(self) -> AsyncOffsets:
        """How far groups have read."""
        from goqueue.client.administration.groups import AsyncOffsets

        return AsyncOffsets(self.link)

    @cached_property
    def queues(self) -> AsyncQueues:
        """Queue groups: settings, members, what waits."""
        from goqueue.client.administration.queues import AsyncQueues

        return AsyncQueues(self.link)

    @cached_property
    def dead_letters(self) -> AsyncDeadLetters:
        """Dead letters: look, redrive, purge."""
        from goqueue.client.administration.dead_letters import AsyncDeadLetters

        return AsyncDeadLetters(self.link)

    @cached_property
    def delayed(self) -> AsyncDelayed:
        """Messages that wait until they are due."""
        from goqueue.client.administration.delayed import AsyncDelayed

        return AsyncDelayed(self.link)

    @cached_property
    def schemas(self) -> AsyncSchemas:
        """The schema registry."""
        from goqueue.client.administration.schemas import AsyncSchemas

        return AsyncSchemas(self.link)

    @cached_property
    def traces(self) -> AsyncTraces:
        """What happened to messages."""
        from goqueue.client.administration.traces import AsyncTraces

        return AsyncTraces(self.link)

    @cached_property
    def transactions(self) -> AsyncTransactions:
        """Transactional ids, and where their transactions stand."""
        from goqueue.client.administration.transactions import AsyncTransactions

        return AsyncTransactions(self.link)

    @cached_property
    def receipts(self) -> AsyncReceipts:
        """Acknowledgements by receipt handle."""
        from goqueue.client.administration.receipts import AsyncReceipts

        return AsyncReceipts(self.link)

    @cached_property
    def cluster(self) -> AsyncCluster:
        """The brokers, their health and their totals."""
        from goqueue.client.administration.cluster import AsyncCluster

        return AsyncCluster(self.link)

    async def health(self) -> Health:
        """Whether messages can be stored, and the broker's time."""
        return await self.cluster.health()

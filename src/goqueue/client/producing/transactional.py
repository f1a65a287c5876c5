"""Producers of transactions: one for each transactional id, as the broker knows it.

Whatever goes wrong in a transaction, its producer is initialised anew before the next one, which
ends what may have been left open.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.errors import BrokerUnavailableError, TransactionOutcomeUnknownError
from goqueue.client.link.codes import check_code
from goqueue.client.link.link import GROUP_KEY, TRANSACTION_KEY
from goqueue.client.producing.deliveries import AsyncDelivery
from goqueue.client.producing.lanes import Identity
from goqueue.client.producing.producer import Producer
from goqueue.client.producing.supplies import Transactional
from goqueue.model.errors import TransactionOpenError
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.client.link.link import Link
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.wire.kafka.reading import Struct

_INIT_PRODUCER_ID: Final = 5
_END_TXN: Final = 5
_TXN_OFFSET_COMMIT: Final = 5
_TIMEOUT_MS: Final = 60_000


class TransactionalProducer:
    """One transactional id as the broker knows it; fit for one transaction at a time."""

    def __init__(self, link: Link, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self._link = link
        self._timeout_ms = timeout_ms or _TIMEOUT_MS
        self._identity: Identity | None = None
        """None until it is initialised, and after anything that went wrong."""
        self._producer: Producer[AsyncDelivery] | None = None
        self._is_begun = False
        """The broker has heard of the transaction: there is something to end."""

    @property
    def producer(self) -> Producer[AsyncDelivery]:
        """Sends the messages of the transaction that is open."""
        assert self._producer is not None
        return self._producer

    async def begin(self) -> None:
        """Open a transaction; the producer is initialised first, if anything went wrong before.

        Raises:
            GoQueueError: the broker refuses, or none answers.
        """
        if self._identity is None:
            self._identity = await self._link.retry(
                f"initialising the producer {self.transactional_id!r}", self._init
            )
        transactional = Transactional(self.transactional_id, self._identity)
        self._producer = Producer(self._link, AsyncDelivery, transactional)
        self._is_begun = False

    async def _init(self) -> Identity:
        answer = await self._ask(
            ApiKey.INIT_PRODUCER_ID,
            _INIT_PRODUCER_ID,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        check_code(answer.error_code, f"initialising {self.transactional_id!r}")
        return Identity(answer.producer_id, answer.producer_epoch)

    async def _ask(self, api: ApiKey, version: int, **fields: Any) -> Struct:
        return await self._link.ask_coordinator(
            TRANSACTION_KEY, self.transactional_id, api, version, **fields
        )

    async def commit(self) -> None:
        """Let the transaction count. It is asked for again where the answer got lost.

        Raises:
            TransactionOutcomeUnknownError: no broker answers whether it is committed.
            GoQueueError: it does not.
        """
        try:
            await self._end(committed=True)
        except BrokerUnavailableError as error:
            raise TransactionOutcomeUnknownError(
                f"no answer to the commit of {self.transactional_id!r}, which may have succeeded: "
                f"{error}"
            ) from error

    async def abort(self) -> None:
        """Let nothing of the transaction count."""
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        producer, identity = self.producer, self._identity
        assert identity is not None
        self._identity = None  # until it has ended as it should
        is_begun = self._is_begun or producer.stats.published > 0
        producer.stop()
        if is_begun:
            what = f"ending the transaction of {self.transactional_id!r}"
            self._identity = await self._link.retry(
                what, lambda: self._end_txn(identity, committed=committed)
            )
        else:
            self._identity = identity  # the broker has never heard of it

    async def _end_txn(self, identity: Identity, *, committed: bool) -> Identity:
        answer = await self._ask(
            ApiKey.END_TXN,
            _END_TXN,
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=committed,
        )
        check_code(answer.error_code, f"ending the transaction of {self.transactional_id!r}")
        return Identity(answer.producer_id, answer.producer_epoch)

    async def send_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        member_id: str = "",
        member_epoch: int = -1,
    ) -> None:
        """Let it count with the commit where a group goes on reading.

        Raises:
            GoQueueError: the group refuses.
        """
        identity = self._identity
        assert identity is not None
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, number), offset in offsets.items():
            topics.setdefault(topic, []).append(
                {
                    "partition_index": number,
                    "committed_offset": offset,
                    "committed_leader_epoch": -1,
                    "committed_metadata": "",
                }
            )
        self._is_begun = True
        fields: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
            "generation_id": member_epoch,
            "member_id": member_id,
            "group_instance_id": None,
            "topics": [{"name": name, "partitions": places} for name, places in topics.items()],
        }

        async def commit() -> None:
            answer = await self._link.ask_coordinator(
                GROUP_KEY, group, ApiKey.TXN_OFFSET_COMMIT, _TXN_OFFSET_COMMIT, **fields
            )
            for topic in answer.topics:
                for each in topic.partitions:
                    check_code(each.error_code, f"{topic.name}-{each.partition_index}")

        await self._link.retry(f"sending the offsets of {group!r}", commit)


class TransactionalProducers:
    """The producers of a client: one for each id that was named, and spare ones for the others."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._named: dict[tuple[str, int], TransactionalProducer] = {}
        """As many as the program has names for."""
        self._in_use: set[str] = set()
        self._spare: dict[int, list[TransactionalProducer]] = {}
        self._prefix = f"python-{secrets.token_hex(6)}"
        self._made = 0

    def take(self, transactional_id: str | None, timeout_ms: int) -> TransactionalProducer:
        """A producer for one transaction; without an id, one that nobody else uses meanwhile."""
        if transactional_id is None:
            spare = self._spare.setdefault(timeout_ms, [])
            if spare:
                return spare.pop()
            self._made += 1
            name = f"{self._prefix}-{self._made}"
            return TransactionalProducer(self._link, name, timeout_ms)
        if transactional_id in self._in_use:
            raise TransactionOpenError(
                f"this client has a transaction of {transactional_id!r} open already"
            )
        self._in_use.add(transactional_id)
        key = (transactional_id, timeout_ms)
        if key not in self._named:
            self._named[key] = TransactionalProducer(self._link, transactional_id, timeout_ms)
        return self._named[key]

    def give_back(self, producer: TransactionalProducer, timeout_ms: int) -> None:
        """The transaction is over."""
        if producer.transactional_id in self._in_use:
            self._in_use.remove(producer.transactional_id)
        else:
            self._spare[timeout_ms].append(producer)

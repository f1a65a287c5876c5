"""Producers of transactions: one for each transactional id, as the broker knows it.

Whatever goes wrong in a transaction, its producer is initialised anew before the next one, which
ends what may have been left open.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final, TypeVar

from goqueue.client.errors import BrokerUnavailableError, TransactionOutcomeUnknownError
from goqueue.model.errors import ConcurrentTransactionsError, TransactionOpenError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.client.channels import Channels, Stubs

_Response = TypeVar("_Response")

_TRIES: Final = 10
"""Of beginning a transaction whose predecessor is still being ended."""


class TransactionalProducer:
    """One transactional id as the broker knows it; fit for one transaction at a time."""

    def __init__(self, channels: Channels, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.identity = pb.ProducerIdentity()
        self.heartbeat_s = 3.0
        self._channels = channels
        self._timeout_ms = timeout_ms
        self._is_fit = False

    async def begin(self) -> None:
        """Open a transaction; the producer is initialised first, if anything went wrong before.

        Raises:
            GoQueueError: the broker refuses, or none answers.
        """
        if not self._is_fit:
            await self._init()
        self._is_fit = False  # until the transaction has ended as it should
        request = pb.TransactionRequest(producer=self.identity)
        for attempt in range(1, _TRIES + 1):
            try:
                await self.ask(lambda s: s.transactions.BeginTransaction, request, pb.Transaction)
            except ConcurrentTransactionsError:
                if attempt == _TRIES:
                    raise
                await asyncio.sleep(self._channels.settings.backoff_s(attempt))
            else:
                return

    async def _init(self) -> None:
        request = pb.InitTransactionalProducerRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        answer = await self._channels.ask(
            lambda s: s.transactions.InitProducer, request, pb.TransactionalProducer
        )
        self.identity = pb.ProducerIdentity(producer_id=answer.producer_id, epoch=answer.epoch)
        self.heartbeat_s = answer.heartbeat_interval_ms / 1000

    async def commit(self) -> None:
        """Let the transaction count. It is asked for again where the answer got lost.

        Raises:
            TransactionOutcomeUnknownError: no broker answers whether it is committed.
            GoQueueError: it does not.
        """
        request = pb.TransactionRequest(producer=self.identity)
        try:
            await self._channels.ask(
                lambda s: s.transactions.CommitTransaction, request, pb.Transaction
            )
        except BrokerUnavailableError as error:
            raise TransactionOutcomeUnknownError(
                f"no answer to the commit of {self.transactional_id!r}, which may have succeeded: "
                f"{error}"
            ) from error
        self._is_fit = True

    async def abort(self) -> None:
        """Let nothing of the transaction count."""
        request = pb.AbortTransactionRequest(producer=self.identity)
        await self._channels.ask(lambda s: s.transactions.AbortTransaction, request, pb.Transaction)
        self._is_fit = True

    async def heartbeat(self) -> None:
        """Send a heartbeat."""
        request = pb.TransactionRequest(producer=self.identity)
        await self._channels.ask(lambda s: s.transactions.Heartbeat, request, pb.Transaction)

    async def ask(
        self,
        method: Callable[[Stubs], Callable[..., Any]],
        request: Any,
        kind: type[_Response],
    ) -> _Response:
        """One question that is not asked twice: it may have been heard."""
        return await self._channels.ask(method, request, kind, again=False)


class TransactionalProducers:
    """The producers of a client: one for each id that was named, and spare ones for the others."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
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
            return TransactionalProducer(self._channels, name, timeout_ms)
        if transactional_id in self._in_use:
            raise TransactionOpenError(
                f"this client has a transaction of {transactional_id!r} open already"
            )
        self._in_use.add(transactional_id)
        key = (transactional_id, timeout_ms)
        if key not in self._named:
            self._named[key] = TransactionalProducer(self._channels, transactional_id, timeout_ms)
        return self._named[key]

    def give_back(self, producer: TransactionalProducer, timeout_ms: int) -> None:
        """The transaction is over."""
        if producer.transactional_id in self._in_use:
            self._in_use.remove(producer.transactional_id)
        else:
            self._spare[timeout_ms].append(producer)

"""Transactions for programs without asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.client.sync_client import LoopThread
    from goqueue.client.sync_consumer import Consumer
    from goqueue.client.transaction_admin import AsyncTransactions
    from goqueue.client.transactions import AsyncTransaction
    from goqueue.client.types import Content, Headers, Place, TransactionInfo


class Transaction:
    """Use it in `with`; see `Client.transaction`."""

    def __init__(self, thread: LoopThread, inner: AsyncTransaction) -> None:
        self._call = thread.call
        self._inner = inner

    def __enter__(self) -> Self:
        self._call(self._inner.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        self._call(self._inner.__aexit__(kind))

    def publish(
        self,
        topic: str,
        value: Content,
        *,
        key: Content = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Hand a message over; see `AsyncTransaction.publish`."""
        is_full = self._inner.add(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        if is_full:
            self._call(self._inner.flush())

    def send_offsets(
        self, source: Consumer | str, offsets: Mapping[Place, int] | None = None
    ) -> None:
        """Let it count how far messages were read; see `AsyncTransaction.send_offsets`."""
        inner = source if isinstance(source, str) else source.inner
        self._call(self._inner.send_offsets(inner, offsets))

    def flush(self) -> None:
        """Send what waits. It counts with the commit."""
        self._call(self._inner.flush())

    def commit(self) -> None:
        """Send what waits, and let all of it count. The transaction is over then."""
        self._call(self._inner.commit())

    def abort(self) -> None:
        """Let nothing of it count. The transaction is over then."""
        self._call(self._inner.abort())


class Transactions:
    """`client.transactions`: what an administrator sees."""

    def __init__(self, thread: LoopThread, inner: AsyncTransactions) -> None:
        self._call = thread.call
        self._inner = inner

    def list(self, *states: str) -> list[TransactionInfo]:
        """The transactional ids in any of the states, by name; without states, all."""
        return self._call(self._inner.list(*states))

    def describe(self, transactional_id: str) -> TransactionInfo:
        """One transactional id."""
        return self._call(self._inner.describe(transactional_id))

    def abort(self, transactional_id: str) -> TransactionInfo:
        """End a transaction that hangs; its producer is fenced."""
        return self._call(self._inner.abort(transactional_id))

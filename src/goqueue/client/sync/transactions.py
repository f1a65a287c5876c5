"""Transactions, for programs without asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.client.sync.blocking import BlockingBlock, blocking
from goqueue.client.transactions import AsyncTransaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.client.sync.consumer import Consumer
    from goqueue.client.types import Content, Headers
    from goqueue.model.topic_partition import TopicPartition


class Transaction(BlockingBlock[AsyncTransaction]):
    """Use it in `with`; see `Client.transaction`."""

    flush = blocking(AsyncTransaction.flush)
    commit = blocking(AsyncTransaction.commit)
    abort = blocking(AsyncTransaction.abort)

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
        sender = self._inner.sender
        message = (value, key, headers, partition, timestamp_ms)
        with sender.lock:
            delivery = sender.add(topic, *message)
        if delivery is None:
            self._thread.call(sender.put(topic, *message))

    def send_offsets(
        self, source: Consumer | str, offsets: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Commit with the transaction how far messages were read.

        See `AsyncTransaction.send_offsets`.
        """
        inner = source if isinstance(source, str) else source.inner
        self._thread.call(self._inner.send_offsets(inner, offsets))

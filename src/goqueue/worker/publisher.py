"""How calls are published, from programs with and without asyncio: one client for both."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from goqueue.client.settings import ClientSettings
from goqueue.model.errors import GoQueueError, TopicExistsError, UnknownTopicError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.client.producing.deliveries import BlockingDelivery
    from goqueue.client.sync.client import Client
    from goqueue.client.types import Receipt


class Publisher:
    """Publishes to one broker. Connects when first used, once in each process."""

    def __init__(self, address: str, settings: ClientSettings | None) -> None:
        self.address = address
        self._settings = settings or ClientSettings(linger_ms=1)  # callers wait, some for many
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._pid = 0
        """Of the process that the client was made in: its thread does not survive a fork."""

    def publish(self, topic: str, value: bytes, options: dict[str, Any]) -> Receipt:
        """Publish a message, creating the topic if there is none; return when it is stored."""
        (receipt,) = self.publish_many(topic, [value], options)
        return receipt

    def publish_many(
        self, topic: str, values: Iterable[bytes], options: dict[str, Any]
    ) -> list[Receipt]:
        """The same for several."""
        sent = [(value, self._begin(topic, value, options)) for value in values]
        return [self._finish(topic, value, options, delivery) for value, delivery in sent]

    async def publish_async(self, topic: str, value: bytes, options: dict[str, Any]) -> Receipt:
        """The same without blocking the event loop."""
        try:
            return await asyncio.wrap_future(self._begin(topic, value, options).future())
        except UnknownTopicError:
            return await asyncio.to_thread(self._create_and_publish, topic, value, options)

    def close(self) -> None:
        """Disconnect. Publishing connects again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            with suppress(GoQueueError):  # of a message whose sender was told
                client.close()

    def _begin(self, topic: str, value: bytes, options: dict[str, Any]) -> BlockingDelivery:
        return self._connected().publish(topic, value, **options)

    def _finish(
        self, topic: str, value: bytes, options: dict[str, Any], delivery: BlockingDelivery
    ) -> Receipt:
        try:
            return delivery.result()
        except UnknownTopicError:
            return self._create_and_publish(topic, value, options)

    def _create_and_publish(self, topic: str, value: bytes, options: dict[str, Any]) -> Receipt:
        with suppress(TopicExistsError):
            self._connected().topics.create(topic)
        return self._begin(topic, value, options).result()

    def _connected(self) -> Client:
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                from goqueue.client.sync.client import Client  # noqa: PLC0415 - heavy, not for workers

                self._client = Client(self.address, self._settings)
                self._pid = os.getpid()
                atexit.register(self.close)
            return self._client

"""`Broker` for ordinary tests and `AsyncBroker` for those that await.

Both run the same node on a thread of its own: a test that blocks, or whose event loop ends before
its fixtures do, does not stop the broker from answering.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, TypeVar

from goqueue.testing.embedded import EmbeddedNode, new_message
from goqueue.testing.loop_thread import LoopThread
from goqueue.testing.messages import unique_name

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from pathlib import Path
    from types import TracebackType

    from goqueue.testing.messages import Message

_T = TypeVar("_T")


class _Addressed:
    """Where a broker is, and what it is called."""

    def __init__(
        self,
        *,
        data_dir: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Make a broker that is not running yet.

        Args:
            data_dir: where to keep the data, which then stays when the broker is closed; without
                it there is a temporary folder that goes with the broker.
            settings: settings of the server by their full names, as in `storage.fsync`.
        """
        self._embedded = EmbeddedNode(data_dir, settings or {})
        self._thread = LoopThread("goqueue-broker")

    @property
    def kafka_address(self) -> str:
        """`host:port`, for `bootstrap.servers`."""
        node = self._embedded.node
        host, port = node.config.advertised_kafka(node.kafka.port)
        return f"{host}:{port}"

    @property
    def http_url(self) -> str:
        """The base of every path of the HTTP API."""
        node = self._embedded.node
        scheme = "https" if node.config.tls.enabled else "http"
        return f"{scheme}://{node.http.host}:{node.http.port}"

    @property
    def grpc_address(self) -> str:
        """`host:port`, for `goqueue.Client` and every gRPC channel."""
        node = self._embedded.node
        return f"{node.grpc.settings.host}:{node.grpc.port}"

    @property
    def data_dir(self) -> Path:
        """Where everything is stored."""
        return self._embedded.data_dir

    @property
    def is_running(self) -> bool:
        """Between a start and a stop."""
        return self._embedded.is_running

    @staticmethod
    def unique_name(stem: str = "test") -> str:
        """A name for a topic or a group that no other test has."""
        return unique_name(stem)


class Broker(_Addressed):
    """A real broker, from the start of a `with` to its end."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start; clients are served when this returns.

        Raises:
            RuntimeError: it is running.
            GoQueueError: it cannot start; the text says why.
        """
        if self.is_running:
            raise RuntimeError("the broker is running already")
        self._thread.start()
        try:
            self._do(self._embedded.start())
        except BaseException:
            self._thread.stop()
            raise

    def stop(self) -> None:
        """Stop and keep the data; `start` goes on with it, on the same ports."""
        if self.is_running:
            self._do(self._embedded.stop())
            self._thread.stop()

    def restart(self) -> None:
        """Stop and start: what a client sees when a server is updated."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove the data if it is in a temporary folder."""
        self.stop()
        self._embedded.remove_data()

    def create_topic(
        self,
        name: str | None = None,
        partitions: int | None = 1,
        settings: Mapping[str, object] | None = None,
    ) -> str:
        """Make a topic and return its name; without one it gets a unique name.

        Args:
            name: what to call it.
            partitions: how many; None takes the broker's default.
            settings: the topic's own, such as `{"retention.ms": 60_000}`.
        """
        wanted = name or self.unique_name()
        return self._do(self._embedded.create_topic(wanted, partitions, settings or {}))

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its messages."""
        self._do(self._embedded.delete_topic(name))

    def topics(self) -> list[str]:
        """The names of all topics."""
        return self._do(self._embedded.topics())

    def publish(
        self,
        topic: str,
        value: str | bytes | None,
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes | None] | None = None,
        partition: int | None = None,
    ) -> Message:
        """Store a message without a client; returns it with its place."""
        fields = new_message(value, key, headers, partition)
        return self._do(self._embedded.publish(topic, fields))

    def messages(self, topic: str) -> list[Message]:
        """Every message of a topic, partition by partition, without a client."""
        return self._do(self._embedded.messages(topic))

    def _do(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return self._thread.submit(coroutine).result()


class AsyncBroker(_Addressed):
    """The same for tests that await: `async with AsyncBroker() as broker`."""

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Start; see `Broker.start`."""
        if self.is_running:
            raise RuntimeError("the broker is running already")
        await asyncio.to_thread(self._thread.start)
        try:
            await self._do(self._embedded.start())
        except BaseException:
            await asyncio.to_thread(self._thread.stop)
            raise

    async def stop(self) -> None:
        """Stop and keep the data; see `Broker.stop`."""
        if self.is_running:
            await self._do(self._embedded.stop())
            await asyncio.to_thread(self._thread.stop)

    async def restart(self) -> None:
        """Stop and start."""
        await self.stop()
        await self.start()

    async def close(self) -> None:
        """Stop, and remove the data if it is in a temporary folder."""
        await self.stop()
        await asyncio.to_thread(self._embedded.remove_data)

    async def create_topic(
        self,
        name: str | None = None,
        partitions: int | None = 1,
        settings: Mapping[str, object] | None = None,
    ) -> str:
        """Make a topic and return its name; see `Broker.create_topic`."""
        wanted = name or self.unique_name()
        return await self._do(self._embedded.create_topic(wanted, partitions, settings or {}))

    async def delete_topic(self, name: str) -> None:
        """Remove a topic and its messages."""
        await self._do(self._embedded.delete_topic(name))

    async def topics(self) -> list[str]:
        """The names of all topics."""
        return await self._do(self._embedded.topics())

    async def publish(
        self,
        topic: str,
        value: str | bytes | None,
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes | None] | None = None,
        partition: int | None = None,
    ) -> Message:
        """Store a message without a client; returns it with its place."""
        fields = new_message(value, key, headers, partition)
        return await self._do(self._embedded.publish(topic, fields))

    async def messages(self, topic: str) -> list[Message]:
        """Every message of a topic, partition by partition, without a client."""
        return await self._do(self._embedded.messages(topic))

    async def _do(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return await asyncio.wrap_future(self._thread.submit(coroutine))

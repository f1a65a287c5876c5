"""`Broker` for ordinary tests and `AsyncBroker` for those that await.

The node runs on a thread of its own: a test that blocks, or whose event loop ends before its
fixtures do, does not stop the broker from answering.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from goqueue.testing.embedded import EmbeddedNode, new_message
from goqueue.testing.messages import Message, unique_name

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines that other threads hand to it, from `start` to `stop`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event

    def start(self) -> None:
        """Start the thread; the loop turns when this returns.

        Whatever keeps it from turning is raised here.
        """
        turning: Future[None] = Future()
        # A daemon: a test that fails before its broker is closed must not hang the whole run.
        self._thread = threading.Thread(
            target=self._run, args=(turning,), name=self._name, daemon=True
        )
        self._thread.start()
        turning.result()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine over there; the future has its result or its error."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self) -> None:
        """End the loop and wait for the thread; harmless when it does not run."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
            self._thread = None

    def _run(self, turning: Future[None]) -> None:
        try:
            from goqueue.server.process import loop_factory  # noqa: PLC0415 - imports the server

            runner = asyncio.Runner(loop_factory=loop_factory())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the start has to know
            turning.set_exception(error)
            return
        with runner:
            runner.run(self._turn(turning))

    async def _turn(self, turning: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        turning.set_result(None)
        await self._stopping.wait()


_P = ParamSpec("_P")


class _Addressed:
    """Where a broker is, and what it is called."""

    def __init__(self, embedded: EmbeddedNode) -> None:
        self.embedded = embedded

    @property
    def kafka_address(self) -> str:
        """`host:port`, for `bootstrap.servers`."""
        node = self.embedded.node
        host, port = node.config.advertised_kafka(node.kafka.port)
        return f"{host}:{port}"

    @property
    def http_url(self) -> str:
        """The base of every path of the HTTP API."""
        node = self.embedded.node
        scheme = "https" if node.config.tls.enabled else "http"
        return f"{scheme}://{node.http.host}:{node.http.port}"

    @property
    def grpc_address(self) -> str:
        """`host:port`, for every gRPC channel."""
        node = self.embedded.node
        return f"{node.grpc.settings.host}:{node.grpc.port}"

    @property
    def data_dir(self) -> Path:
        """Where everything is stored."""
        return self.embedded.data_dir

    @property
    def is_running(self) -> bool:
        """Between a start and a stop."""
        return self.embedded.is_running

    @staticmethod
    def unique_name(stem: str = "test") -> str:
        """A name for a topic or a group that no other test has."""
        return unique_name(stem)


class Broker(_Addressed):
    """A real broker, from the start of a `with` to its end."""

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
        super().__init__(EmbeddedNode(data_dir, settings or {}))
        self._thread = LoopThread("goqueue-broker")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
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
            self._do(self.embedded.start())
        except BaseException:
            self._thread.stop()
            raise

    def stop(self) -> None:
        """Stop and keep the data; `start` goes on with it, on the same ports."""
        if self.is_running:
            self._do(self.embedded.stop())
            self._thread.stop()

    def restart(self) -> None:
        """Stop and start: what a client sees when a server is updated."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove the data if it is in a temporary folder."""
        self.stop()
        self.embedded.remove_data()

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
        return self._do(self.embedded.create_topic(wanted, partitions, settings or {}))

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its messages."""
        self._do(self.embedded.delete_topic(name))

    def topics(self) -> list[str]:
        """The names of all topics."""
        return self._do(self.embedded.topics())

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
        return self._do(self.embedded.publish(topic, fields))

    def messages(self, topic: str) -> list[Message]:
        """Every message of a topic, partition by partition, without a client."""
        return self._do(self.embedded.messages(topic))

    def _do(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return self._thread.submit(coroutine).result()


def _in_thread(
    method: Callable[Concatenate[Broker, _P], _T],
) -> Callable[Concatenate[AsyncBroker, _P], Coroutine[Any, Any, _T]]:
    """The method of `AsyncBroker` that runs one of `Broker` and does not block the event loop."""

    @wraps(method)
    async def call(self: AsyncBroker, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await asyncio.to_thread(method, self.blocking, *args, **kwargs)

    return call


class AsyncBroker(_Addressed):
    """The same for tests that await: `async with AsyncBroker() as broker`."""

    def __init__(
        self,
        *,
        data_dir: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Make a broker that is not running yet; see `Broker`."""
        self.blocking = Broker(data_dir=data_dir, settings=settings)
        super().__init__(self.blocking.embedded)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.blocking.__enter__)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    start = _in_thread(Broker.start)
    stop = _in_thread(Broker.stop)
    restart = _in_thread(Broker.restart)
    close = _in_thread(Broker.close)
    create_topic = _in_thread(Broker.create_topic)
    delete_topic = _in_thread(Broker.delete_topic)
    topics = _in_thread(Broker.topics)
    publish = _in_thread(Broker.publish)
    messages = _in_thread(Broker.messages)

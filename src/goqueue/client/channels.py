"""The connections of a client, and single questions with their retries."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final, TypeVar

from grpc import StatusCode, aio, ssl_channel_credentials

from goqueue.client.errors import ClientClosedError, from_call
from goqueue.model.limits import MAX_CLIENT_BACKOFF_S
from goqueue.wire.grpc.limits import MAX_MESSAGE_BYTES
from goqueue.wire.grpc.v1 import goqueue_pb2_grpc as services

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.client.settings import ClientSettings

_Response = TypeVar("_Response")

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", int(MAX_CLIENT_BACKOFF_S * 1000)),
)


class Stubs:
    """The services over one connection."""

    def __init__(self, channel: aio.Channel) -> None:
        self.channel = channel
        self.publish = services.PublishServiceStub(channel)
        self.consume = services.ConsumeServiceStub(channel)
        self.acks = services.AckServiceStub(channel)
        self.offsets = services.OffsetServiceStub(channel)
        self.transactions = services.TransactionServiceStub(channel)
        self.admin = services.AdminServiceStub(channel)


class Channels:
    """A fixed number of connections, made when first used, which gRPC reconnects by itself."""

    def __init__(self, address: str, settings: ClientSettings) -> None:
        self.address = address
        self.settings = settings
        self._stubs: list[Stubs] = []
        self._turns = cycle(range(settings.connections))
        self.is_closed = False

    def next(self) -> Stubs:
        """The connection whose turn it is."""
        if self.is_closed:
            raise ClientClosedError("the client is closed: create another one")
        turn = next(self._turns)
        while len(self._stubs) <= turn:
            # A pool of its own for each: otherwise gRPC lets all channels share one connection.
            options = (*_OPTIONS, ("grpc.channel_id", len(self._stubs)))
            self._stubs.append(Stubs(self._open(options)))
        return self._stubs[turn]

    def _open(self, options: tuple[tuple[str, Any], ...]) -> aio.Channel:
        if self.settings.ca_file is None:
            return aio.insecure_channel(self.address, options=options)
        credentials = ssl_channel_credentials(self.settings.ca_file.read_bytes())
        return aio.secure_channel(self.address, credentials, options=options)

    async def ask(
        self,
        method: Callable[[Stubs], Callable[..., Any]],
        request: Any,
        kind: type[_Response],
        *,
        again: bool = True,
    ) -> _Response:
        """One question and its answer.

        It waits for a connection if there is none yet. A question that went wrong on the way is
        asked again only where `again` allows it: one that changes something may have been heard.

        Raises:
            GoQueueError: what the broker says, or `BrokerUnavailableError`.
        """
        timeout_s = self.settings.call_timeout_ms / 1000
        failures = 0
        while True:
            call = method(self.next())
            try:
                answer = await call(request, timeout=timeout_s, wait_for_ready=True)
            except aio.AioRpcError as failure:
                failures += 1
                lost = failure.code() is StatusCode.UNAVAILABLE
                if not (again and lost and failures < self.settings.tries):
                    raise from_call(failure, self.address) from None
                await asyncio.sleep(self.settings.backoff_s(failures))
            else:
                assert isinstance(answer, kind)
                return answer

    async def close(self) -> None:
        """Close every connection; calls under way end with an error."""
        self.is_closed = True
        for stubs in self._stubs:
            await stubs.channel.close()

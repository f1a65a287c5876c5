"""Calls that another node has forwarded, answered here: handlers without a connection of gRPC's.

A stream is carried in turns. The other node sends what its client has said, and each turn brings
back what the handler has written meanwhile; a turn that has nothing to bring back waits until it
has, or until the next turn arrives. So neither side holds more than a few messages for the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NoReturn

from grpc import StatusCode, aio

import goqueue
from goqueue.model.errors import PeerVersionError
from goqueue.protocols.grpc.interceptor import Handler, Kind, behaviour
from goqueue.protocols.kafka.internal.grpc_calls import GrpcAnswer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    import grpc

    from goqueue.protocols.kafka.internal.grpc_calls import Client

_INBOX_MESSAGES: Final = 16
"""What a client has sent and its handler has not taken; then the next turn waits to begin."""
_OUTBOX_BYTES: Final = 1024 * 1024
"""What a handler has written and no turn has taken; then its next write waits."""
_BEAT_S: Final = 10.0
"""A turn comes back after so long, whether there is something to bring back or not."""


class CarriedContext:
    """What a handler sees of its call, as far as ours look: see `grpc.aio.ServicerContext`."""

    def __init__(
        self, client: Client, sender: int, write: Callable[[Any], Awaitable[None]]
    ) -> None:
        self._client, self.principal = client
        self.sender = sender
        """The node that has forwarded the call."""
        self.write = write
        self.status = StatusCode.OK
        self.details = ""
        self.trailers: Sequence[tuple[str, str | bytes]] = ()

    def peer(self) -> str:
        """The client of the other node."""
        return self._client

    async def abort(
        self, code: StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> NoReturn:
        """End the call with a status."""
        self.status, self.details, self.trailers = code, details, trailing_metadata
        raise aio.AbortError

    def ended(self, messages: Sequence[bytes] = ()) -> GrpcAnswer:
        """How the call has ended."""
        number: int = self.status.value[0]
        trailers = [
            (name, value if isinstance(value, bytes) else value.encode())
            for name, value in self.trailers
        ]
        return GrpcAnswer(
            messages, is_ended=True, status=number, details=self.details, trailers=trailers
        )


class CarriedCalls:
    """The handlers of a node, for calls that other nodes bring."""

    def __init__(self, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
        """Answer with `handlers` of the bytes of requests, by method."""
        self._handlers = handlers

    def is_stream(self, method: str) -> bool:
        """Whether a method is answered in turns.

        Raises:
            PeerVersionError: there is no such method; a node of another version has others.
        """
        if method not in self._handlers:
            raise PeerVersionError(f"{method} is no method of goqueue {goqueue.__version__}")
        return behaviour(self._handlers[method])[0] is not Kind.UNARY_UNARY

    async def unary(self, method: str, request: bytes, client: Client, sender: int) -> GrpcAnswer:
        """The whole answer to a call."""
        handler = self._handlers[method]
        _, inner = behaviour(handler)
        context = CarriedContext(client, sender, _unwritten)
        try:
            answer = await inner(request, _seen_by_handlers(context))
        except aio.AbortError:
            return context.ended()
        assert handler.response_serializer is not None
        return context.ended([handler.response_serializer(answer)])

    def stream(self, method: str, client: Client, sender: int) -> CarriedStream:
        """A stream whose handler runs from now on."""
        return CarriedStream(self._handlers[method], client, sender)


async def _unwritten(_message: Any) -> None:
    raise NotImplementedError("a call without a stream returns its answer")


def _seen_by_handlers(context: CarriedContext) -> aio.ServicerContext[Any, Any]:
    """It has what our handlers use of gRPC's class, and is not of it."""
    return context  # type: ignore[return-value]  # as said


class CarriedStream:
    """One stream, from its first turn to its last."""

    def __init__(
        self, handler: grpc.RpcMethodHandler[Any, Any], client: Client, sender: int
    ) -> None:
        kind, inner = behaviour(handler)
        assert handler.response_serializer is not None
        self._serialise: Callable[[Any], bytes] = handler.response_serializer
        self._context = CarriedContext(client, sender, self._write)
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue(_INBOX_MESSAGES)
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._turns: deque[object] = deque()
        """Those that have not come back, the first of them first: only that one may take."""
        self._changed = asyncio.Condition()
        self._is_over = False
        self._task = asyncio.create_task(self._run(kind, inner), name="carried stream")

    async def _run(self, kind: Kind, inner: Handler) -> None:
        requests: Any = self._requests()
        context = _seen_by_handlers(self._context)
        try:
            if kind is Kind.UNARY_STREAM:
                requests = await anext(requests)
            await inner(requests, context)
        except aio.AbortError:
            pass  # the context knows the status
        finally:
            self._is_over = True
            async with self._changed:
                self._changed.notify_all()

    async def _requests(self) -> AsyncIterator[bytes]:
        while (data := await self._inbox.get()) is not None:
            yield data

    async def _write(self, message: Any) -> None:
        data = self._serialise(message)
        async with self._changed:
            await self._changed.wait_for(lambda: self._outbox_bytes < _OUTBOX_BYTES)
            self._outbox.append(data)
            self._outbox_bytes += len(data)
            self._changed.notify_all()

    async def turn(self, messages: Sequence[bytes], *, is_last: bool) -> GrpcAnswer:
        """Hand over what the client has sent, and bring back what there is for it."""
        for each in messages:
            await self._inbox.put(each)
        if is_last:
            await self._inbox.put(None)
        mine = object()
        async with self._changed:
            self._turns.append(mine)
            self._changed.notify_all()
            try:
                async with asyncio.timeout(_BEAT_S):
                    await self._changed.wait_for(lambda: self._may_return(mine))
            except TimeoutError:
                # Those before it have waited for longer, and so have come back.
                pass
            self._turns.remove(mine)
            taken, self._outbox, self._outbox_bytes = self._outbox, [], 0
            self._changed.notify_all()
        return self._context.ended(taken) if self._is_over else GrpcAnswer(taken)

    def _may_return(self, turn: object) -> bool:
        is_first = self._turns[0] is turn
        return is_first and bool(self._outbox or self._is_over or len(self._turns) > 1)

    def close(self) -> None:
        """The other node is gone, and its client with it."""
        self._task.cancel()

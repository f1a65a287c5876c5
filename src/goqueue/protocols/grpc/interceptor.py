"""The one place where the errors of handlers are caught and become the status of a call."""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import grpc
from grpc import aio

from goqueue.cluster.facts import as_refused
from goqueue.model.errors import GoQueueError
from goqueue.protocols.grpc.audited import Call
from goqueue.protocols.grpc.errors import ServerStoppingError, status_of, to_error
from goqueue.protocols.grpc.namespaces import (
    TenantContext,
    error_outside,
    message_inside,
    message_outside,
    namespace_of_call,
)
from goqueue.protocols.grpc.peers import host_of
from goqueue.protocols.grpc.request_bounds import BoundedParser, parser_of
from goqueue.protocols.grpc.rights import CALLER, HEALTH, RIGHTS, caller
from goqueue.wire.grpc.contract import ERROR_KEY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from google.protobuf.message import Message

    from goqueue.access.tenants.namespace import Namespace
    from goqueue.protocols.grpc.gate import Gate
    from goqueue.protocols.grpc.rights import Needs
    from goqueue.protocols.permissions import Permissions
    from goqueue.runtime.tasks import Turns

logger = logging.getLogger(__name__)

Handler: TypeAlias = "Callable[[Any, aio.ServicerContext[Any, Any]], Awaitable[Any]]"
"""Every handler of ours is a coroutine; those that stream write to their context."""


class Kind(Enum):
    """What a call sends and gets, as gRPC names it; the contract has no call that only sends."""

    UNARY_UNARY = "unary_unary"
    UNARY_STREAM = "unary_stream"
    STREAM_STREAM = "stream_stream"

    def make(self, inner: Handler, **codecs: Any) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler of this kind."""
        made: grpc.RpcMethodHandler[Any, Any] = getattr(grpc, f"{self.value}_rpc_method_handler")(
            inner, **codecs
        )
        return made


def behaviour(handler: grpc.RpcMethodHandler[Any, Any]) -> tuple[Kind, Handler]:
    """The kind of a handler, and the function in it."""
    return next((kind, inner) for kind in Kind if (inner := getattr(handler, kind.value)))


class OpenStreams:
    """The streams that would go on for as long as their clients want, so that a stop can end them.

    Unary calls are short, and are waited for.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_stopping = False

    def add(self, task: asyncio.Task[Any]) -> None:
        """End this task when the server stops."""
        if self.is_stopping:
            raise ServerStoppingError("the server is stopping: reconnect")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def add_current(self) -> None:
        """The same for the caller."""
        task = asyncio.current_task()
        assert task is not None
        self.add(task)

    def stop(self) -> None:
        """End all; new ones are refused."""
        self.is_stopping = True
        for task in tuple(self._tasks):
            task.cancel()


class ErrorInterceptor(aio.ServerInterceptor):
    """Around every handler."""

    def __init__(self, streams: OpenStreams, turns: Turns, gate: Gate) -> None:
        self._gate = gate
        self._streams = streams
        self._turns = turns
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        """By method, of which there are as many as in the contract."""

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Wrap the handler of a call, once."""
        method = handler_call_details.method
        if method in self._wrapped:
            return self._wrapped[method]
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        wrap = self.wrapped if _is_ours(method) else self._foreign
        self._wrapped[method] = wrap(method, handler)
        return self._wrapped[method]

    def wrapped(
        self, method: str, handler: grpc.RpcMethodHandler[Any, Any]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler of the bytes of requests, whose errors are the status of the call."""
        parser = parser_of(handler.request_deserializer, self._turns)
        kind, inner = behaviour(handler)
        is_stream = kind is Kind.STREAM_STREAM
        parsed = self._of_stream(inner, parser, RIGHTS[method]) if is_stream else inner
        if kind is Kind.UNARY_STREAM:
            parsed = self._held(inner, RIGHTS[method])
            if RIGHTS[method] is HEALTH:
                parsed = self._watching(inner)
        if kind is not Kind.UNARY_UNARY:
            parsed = self._paced(parsed)
        return kind.make(
            self._guarded(parsed, method, None if is_stream else parser, kind),
            response_serializer=handler.response_serializer,
        )

    def _permitted(self, inner: Handler, method: str, *, is_parsed: bool) -> Handler:
        """A handler for clients that may call it, in the names that it knows."""
        right = RIGHTS[method]

        async def handle(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            may = caller()
            namespace = namespace_of_call(context, may)
            if namespace is not None and is_parsed:
                request = message_inside(request, namespace)
            if is_parsed and not may.is_open:
                right.require(may, request)
            if namespace is None:
                return await inner(request, context)
            shown = cast("Any", TenantContext(context, namespace, method))
            return message_outside(await inner(request, shown), namespace, method)

        return handle

    def _foreign(
        self, method: str, handler: grpc.RpcMethodHandler[Any, Any]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler of gRPC's own health and reflection, which are told as our health is."""
        del method
        kind, inner = behaviour(handler)
        answered = inner if kind is Kind.UNARY_UNARY else self._watching(inner)

        async def handle(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            try:
                await self._gate.admit_stranger(context)
                return await answered(request, context)
            except GoQueueError as error:
                await _abort(context, error, None)

        return kind.make(
            handle,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _watching(self, inner: Any) -> Handler:
        """A handler of a stream that may need no login: there are few at a time."""

        async def handle(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            with self._gate.watchers.place(host_of(context.peer())):
                answer = inner(request, context)
                if not hasattr(answer, "__aiter__"):
                    return await answer
                async for each in answer:
                    await context.write(each)
            return None

        return handle

    def _guarded(
        self, inner: Handler, method: str, parser: BoundedParser[Any] | None, kind: Kind
    ) -> Handler:
        run = self._checked(inner, method, parser, is_stream=kind is not Kind.UNARY_UNARY)

        async def handle(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            call = Call(method, context, request)
            del request
            try:
                return await run(call)
            except GoQueueError as error:
                await self._refuse(call, error.with_traceback(None))
            except asyncio.CancelledError:
                refusal = self._gate.streams.refusal()
                if refusal is None and not self._streams.is_stopping:
                    raise
                await self._refuse(call, refusal or ServerStoppingError("the server is stopping"))
            except aio.AbortError:
                self._gate.trail.aborted(call)
                raise
            except Exception:
                logger.exception("%s failed", method)
                await self._refuse(call, GoQueueError("the broker failed; its log says how"))

        return handle

    def _checked(
        self, inner: Handler, method: str, parser: BoundedParser[Any] | None, *, is_stream: bool
    ) -> Callable[[Call], Awaitable[Any]]:
        """Calls a handler for a client that may call it."""
        right, gate = RIGHTS[method], self._gate
        permitted = self._permitted(inner, method, is_parsed=parser is not None)

        async def run(call: Call) -> Any:
            may = call.may = await gate.admit(call, right)
            CALLER.set(may)
            begun = gate.begin_call(call.context, may)
            ending = gate.hold(call) if is_stream else None
            try:
                gate.charge(call.context, may, right, 0 if parser is None else len(call.request))
                if parser is not None:
                    call.request = parser.parse_quickly(call.request) or await parser.parse(
                        call.request
                    )
                answer = await permitted(call.request, call.context)
            finally:
                if ending is not None:
                    ending.cancel()
                gate.end_call(call.context, may, begun)
            gate.trail.served(call)
            return answer

        return run

    async def _refuse(self, call: Call, error: GoQueueError) -> None:
        self._gate.trail.refused(call, error)
        # A call that is aborted is part of a cycle of references, and so would the request be:
        # up to 4 MB that wait for a collection of garbage.
        call.request = None
        namespace = None if call.may is None else namespace_of_call(call.context, call.may)
        await _abort(call.context, error, namespace)

    def _of_stream(self, inner: Handler, parser: BoundedParser[Any], right: Needs) -> Handler:
        """A handler of messages as one of the bytes that gRPC hands over."""

        async def parsed(
            requests: AsyncIterator[bytes],
            context: aio.ServicerContext[Any, Any],
            may: Permissions,
            task: asyncio.Task[Any] | None,
            namespace: Namespace | None,
        ) -> AsyncIterator[Any]:
            is_first = True
            async for data in requests:
                self._gate.charge(context, may, right, len(data))
                request = parser.parse_quickly(data)
                if request is None:
                    request = await parser.parse(data)
                if namespace is not None:
                    request = message_inside(request, namespace)
                if not may.is_open:
                    right.require(may, request)
                    if is_first:  # it says what the whole stream is about
                        self._gate.streams.add(task, partial(right.require, may, request))
                        is_first = False
                yield request

        async def handle(requests: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            task = asyncio.current_task()
            may = caller()
            namespace = namespace_of_call(context, may)
            return await inner(parsed(requests, context, may, task, namespace), context)

        return handle

    def _paced(self, inner: Handler) -> Handler:
        """A handler of a stream that sends no more than the quotas of its client allow."""

        async def handle(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            paced = PacedContext(context, self._gate, caller())
            return await inner(request, cast("aio.ServicerContext[Any, Any]", paced))

        return handle

    def _held(self, inner: Handler, right: Needs) -> Handler:
        """A handler whose stream ends when its client may not go on reading it."""

        async def handle(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            may = caller()
            if not may.is_open:
                check = partial(right.require, may, request)
                self._gate.streams.add(asyncio.current_task(), check)
            return await inner(request, context)

        return handle


class PacedContext:
    """The context of a call whose messages wait for the quotas of its client."""

    def __init__(
        self, context: aio.ServicerContext[Any, Any], gate: Gate, may: Permissions
    ) -> None:
        self._context = context
        self._gate = gate
        self._may = may

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, message: Message | bytes) -> None:
        """Send a message when that is allowed; those of other nodes come encoded."""
        size = len(message) if isinstance(message, bytes) else message.ByteSize()
        await self._gate.pace(self._may, size)
        await self._context.write(message)


def _is_ours(method: str) -> bool:
    """Health and reflection of gRPC itself are not."""
    return method.startswith("/goqueue.")


async def _abort(
    context: aio.ServicerContext[Any, Any], error: GoQueueError, namespace: Namespace | None
) -> None:
    error = as_refused(error)
    told, text = to_error(error), str(error)
    if namespace is not None:
        told, text = error_outside(told, namespace), namespace.text_outside(text)
    metadata = ((ERROR_KEY, told.SerializeToString()),)
    await context.abort(status_of(error).status, text, metadata)

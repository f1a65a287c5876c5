"""From one frame to the call of a handler, and from what the handler did to the bytes of an answer.

The one place where errors of handlers are caught.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from inspect import iscoroutine
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError, InvariantError
from goqueue.protocols.kafka.cluster.api_versions import unsupported_version_body
from goqueue.protocols.kafka.connection.calls import Call
from goqueue.protocols.kafka.context import Peer, RequestContext
from goqueue.protocols.kafka.errors import (
    UnauthenticatedRequestError,
    UnsupportedRequestError,
    code_for,
)
from goqueue.protocols.kafka.limits import MAX_SMALL_ELEMENTS
from goqueue.protocols.kafka.registry import (
    ApiKey,
    ApiSpec,
    Endpoint,
    Registry,
    Waiting,
    namespaces,
)
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.protocols.kafka.turns import encode_in_turns
from goqueue.wire.kafka.errors import TooManyElementsError
from goqueue.wire.kafka.frames import (
    LENGTH_BYTES,
    Bare,
    Encoded,
    RequestPrefix,
    Response,
    Whole,
    assemble,
    frame_of,
    has_flexible_header,
    parse_body,
    parse_client_id,
    parse_prefix,
)
from goqueue.wire.kafka.primitives import Buffer, Cursor
from goqueue.wire.kafka.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.protocols.kafka.connection.calls import Served
    from goqueue.protocols.kafka.throttling import BusyTime, Throttling


_log = logging.getLogger(__name__)

CALLS_A_TURN: Final = 64
"""Requests of one connection handled before the event loop gets its turn."""

_REQUEST_START: Final = Struct(">iIi")
"""The length of a request, its API and version, and its number."""

_TOKEN: Final = RequestPrefix(ApiKey.SASL_AUTHENTICATE, 0, 0)
"""Stands for the header that a bare SASL token does not have."""


def _stand_in(key: ApiKey, *, long_poll: bool) -> ApiSpec:
    return ApiSpec(
        key, 0, 0, pipelined=False, long_poll=long_poll, parse=None, on_error=None, right=ANYONE
    )


_TOKEN_SPEC: Final = _stand_in(ApiKey.SASL_AUTHENTICATE, long_poll=False)
_WAITING_SPEC: Final = _stand_in(ApiKey.API_VERSIONS, long_poll=True)
"""Stands for an API whose handler is not loaded yet."""


class HandlerFailedError(Exception):
    """A handler failed in a way that no answer can say; it has been logged."""


class Dispatcher:
    """Finds handlers, calls them, and turns what they return or raise into frames."""

    def __init__(self, registry: Registry) -> None:
        self._complete = asyncio.Event()
        """Set when the handlers of all APIs are there."""
        self.use(registry)
        self._large = asyncio.Lock()
        """Held by the one large request that is being served."""
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="kafka-large")

    def use(self, registry: Registry) -> None:
        """Serve with these handlers from now on, also what has waited for its handler."""
        self._registry = registry
        self.authorizer, self.trail = registry.authorizer, registry.trail
        """What decides what the clients of new connections may do, and where that is written."""
        self._throttling = registry.throttling
        if registry.is_complete:
            self._complete.set()

    def close(self) -> None:
        """Let go of the thread that reads large requests."""
        self._reading.shutdown(wait=False)

    def serve_straight(
        self, data: memoryview, max_bytes: int, peer: Peer, *, is_behind: bool = False
    ) -> Served:
        """Serve the whole requests at the start of a buffer, as long as they go straight.

        `is_behind` says that others of the connection are not answered: only a request that may run
        beside them is served, one at a time.

        Raises:
            HandlerFailedError: no answer can be given.
        """
        busy = self._timed(peer)
        if busy is None:
            return self._serve_straight(data, max_bytes, peer, is_behind=is_behind)
        with busy:
            return self._serve_straight(data, max_bytes, peer, is_behind=is_behind)

    @property
    def _gate(self) -> Throttling | None:
        """The quotas of clients, where there are any."""
        throttling = self._throttling
        return throttling if throttling is not None and throttling.is_on else None

    def admits(self, peer: Peer, api_key: int) -> bool:
        """Whether a request may begin; its connection is muted or closed where it may not."""
        gate = self._gate
        return gate is None or gate.admits(peer, api_key)

    def _timed(self, peer: Peer) -> BusyTime | None:
        """Counts the time of the event loop, for a client whose share of it is limited."""
        gate = self._gate
        return None if gate is None else gate.timed(peer)

    def _serve_straight(
        self, data: memoryview, max_bytes: int, peer: Peer, *, is_behind: bool
    ) -> Served:
        handlers, size, gate = self._registry.straight, len(data), self._gate
        at = count = 0
        answers: list[Buffer] = []
        while size - at >= _REQUEST_START.size and count < CALLS_A_TURN and not peer.is_muted:
            length, api, correlation_id = _REQUEST_START.unpack_from(data, at)
            stop = at + LENGTH_BYTES + length
            found = handlers.get(api)
            if found is None or stop > size or not LENGTH_BYTES <= length <= max_bytes:
                break
            endpoint, handler = found
            if is_behind and not endpoint.spec.pipelined:
                break
            if gate is not None and not gate.admits(peer, api >> 16):
                break
            frame = data[at + LENGTH_BYTES : stop]
            try:
                answer = handler(frame, peer, api & 0xFFFF, correlation_id)
            except Exception as error:
                prefix = RequestPrefix(api >> 16, api & 0xFFFF, correlation_id)
                raise _failed(RequestContext(prefix, None, peer), error) from error
            if answer is None:
                break
            count += 1
            if isinstance(answer, Waiting):
                call = Call(endpoint, answer.ctx, answer.request, stop - at)
                return stop, count, answers, (call, answer.response)
            if is_behind:
                prefix = RequestPrefix(api >> 16, api & 0xFFFF, correlation_id)
                call = Call(endpoint, RequestContext(prefix, None, peer), None, 0)
                call.is_done = True
                call.answer = answer if isinstance(answer, list) else [answer] if answer else None
                return stop, count, answers, (call, None)
            at = stop
            if isinstance(answer, list):
                answers += answer
            else:
                answers.append(answer)
        return at, count, answers, None

    def parse(self, frame: memoryview, peer: Peer) -> Call:
        """What a frame asks for.

        Raises:
            RequestError: it cannot be served; the connection is to be closed.
        """
        size = len(frame) + LENGTH_BYTES
        if peer.session.take_token is not None:
            takes_token = Endpoint(_TOKEN_SPEC, peer.session.take_token)
            return Call(takes_token, RequestContext(_TOKEN, None, peer), bytes(frame), size)
        prefix = parse_prefix(frame)
        if not peer.session.authenticated and prefix.api_key not in self._registry.before_login:
            raise UnauthenticatedRequestError(f"{_label(prefix)} before authentication")
        endpoint = self._registry.endpoints.get((prefix.api_key, prefix.version))
        if endpoint is None:
            return self._without_endpoint(prefix, frame, peer)
        cursor = Cursor(frame)
        max_elements = cursor.elements_left
        cursor.elements_left = MAX_SMALL_ELEMENTS
        flexible = has_flexible_header(prefix.api_key, prefix.version)
        ctx = RequestContext(prefix, parse_client_id(cursor, flexible=flexible), peer)
        peer.session.use_client_id(ctx.client_id)
        body_at = cursor.position
        try:
            return Call(endpoint, ctx, _read(endpoint, cursor, prefix), size)
        except TooManyElementsError:
            if not peer.session.authenticated:
                raise
        cursor.position, cursor.elements_left = body_at, max_elements
        ctx.is_large = True
        call = Call(endpoint, ctx, None, size)
        call.read = partial(_read, endpoint, cursor, prefix)
        return call

    def _without_endpoint(self, prefix: RequestPrefix, frame: memoryview, peer: Peer) -> Call:
        call = Call(None, RequestContext(prefix, None, peer), None, len(frame) + LENGTH_BYTES)
        if prefix.api_key == ApiKey.API_VERSIONS:
            body = unsupported_version_body(self._registry)
            call.answer = assemble(prefix.correlation_id, (body,), flexible=False)
        elif self._registry.is_complete:
            raise UnsupportedRequestError(f"{_label(prefix)} is not served here")
        else:
            call.endpoint = Endpoint(_WAITING_SPEC, self._serve_when_complete)
            call.request = call, frame
        return call

    async def _serve_when_complete(
        self, _ctx: RequestContext, request: tuple[Call, memoryview]
    ) -> Response | None:
        """Serve a request that came before its handler was loaded."""
        call, frame = request
        call.request = None
        await self._complete.wait()
        known = self.parse(frame, call.ctx.peer)
        call.endpoint, call.ctx = known.endpoint, known.ctx
        call.request, call.read = known.request, known.read
        answer = self.run(call)
        return None if answer is None else await answer

    def run(self, call: Call) -> Awaitable[Response | None] | None:
        """Start the handler. What has to be waited for is returned; otherwise the call is done.

        Raises:
            HandlerFailedError: no answer can be given.
        """
        if call.endpoint is None:
            call.is_done = True
            return None
        if (gate := self._gate) is not None:
            call.ctx.throttle(gate.requested(call.ctx.peer))
        if call.read is not None:
            return self._run_large(call.endpoint, call, call.read)
        busy = self._timed(call.ctx.peer)
        try:
            with busy or nullcontext():
                result = _called(call.endpoint, call)
        except Exception as error:  # noqa: BLE001 - the one place where handlers' errors are caught
            self.fail(call, error)
            return None
        if busy is not None and iscoroutine(result):
            return busy.of(result)
        if result is None or isinstance(result, Encoded | dict | Bare | Whole):
            self.finish(call, result)
            return None
        return result

    async def _run_large(
        self, endpoint: Endpoint, call: Call, read: Callable[[], Any]
    ) -> Response | None:
        """Serve a large request: read in a thread, handled and encoded in turns."""
        loop = asyncio.get_running_loop()
        async with self._large:
            call.request = await loop.run_in_executor(self._reading, read)
            if not endpoint.spec.long_poll:
                response = await _handled(endpoint, call)
                if isinstance(response, dict):
                    return await encode_in_turns(call.ctx, response)
                return response
        # It may wait for long, and others must not wait with it.
        return await _handled(endpoint, call)

    def finish(self, call: Call, response: Response | None) -> None:
        """Take what the handler returned."""
        call.is_done = True
        if response is None:
            return
        ctx = call.ctx
        if isinstance(response, dict) and (ctx.refused is not None or ctx.throttle_ms):
            response = ctx.completed(response)
        try:
            if ctx.peer.session.namespace is not None:
                response = namespaces().response_outside(ctx, response)
            call.answer = frame_of(ctx.correlation_id, response, ctx.api_key, ctx.version)
        except Exception as error:
            raise _failed(call.ctx, error) from error

    def fail(self, call: Call, error: BaseException) -> None:
        """Take what the handler raised: an answer with its code, where the API can say one."""
        call.is_done = True
        assert call.endpoint is not None
        if not isinstance(error, GoQueueError) or isinstance(error, InvariantError):
            raise _failed(call.ctx, error) from error
        # A refusal that is still held somewhere must not hold the request by its frames.
        error.with_traceback(None)
        ctx, code, on_error = call.ctx, code_for(error), call.endpoint.spec.on_error
        if on_error is not None:
            try:
                response = on_error(ctx, call.request, code)
            except Exception as second:
                raise _failed(call.ctx, second) from second
            self.finish(call, response)
        elif "error_code" in schema_of(ctx.api_key, ctx.version, "response").by_name:
            self.finish(call, {"error_code": code})
        else:
            raise _failed(call.ctx, error) from error


def _read(endpoint: Endpoint, cursor: Cursor, prefix: RequestPrefix) -> Any:
    parse = endpoint.spec.parse
    if parse is not None:
        return parse(cursor, prefix.version)
    return parse_body(cursor, prefix.api_key, prefix.version)


def _called(endpoint: Endpoint, call: Call) -> Response | Awaitable[Response | None] | None:
    """What the handler returns for what the client may ask for. Raises where that is nothing."""
    ctx = call.ctx
    if ctx.peer.session.namespace is not None:
        call.request = namespaces().request_inside(ctx, call.request)
    if not ctx.peer.session.permissions.is_open:
        call.request = endpoint.spec.right.admit(ctx, call.request)
    return endpoint.handler(ctx, call.request)


async def _handled(endpoint: Endpoint, call: Call) -> Response | None:
    result = _called(endpoint, call)
    if result is None or isinstance(result, Encoded | dict | Bare | Whole):
        return result
    return await result


def _failed(ctx: RequestContext, error: BaseException) -> HandlerFailedError:
    label = _label(RequestPrefix(ctx.api_key, ctx.version, ctx.correlation_id))
    _log.error("%s from %s failed", label, ctx.client_host, exc_info=error)
    return HandlerFailedError(f"{label} failed: {type(error).__name__}")


def _label(prefix: RequestPrefix) -> str:
    try:
        name = ApiKey(prefix.api_key).name
    except ValueError:
        name = f"API {prefix.api_key}"
    return f"{name} v{prefix.version}"

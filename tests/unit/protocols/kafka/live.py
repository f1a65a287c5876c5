"""A live listener with small handlers, and a client that knows nothing but frames."""

from __future__ import annotations

import asyncio
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

from goqueue.access.principals import Principal
from goqueue.model.errors import InvariantError, OffsetOutOfRangeError
from goqueue.protocols.kafka.cluster.api_versions import with_api_versions
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.registry import Registry, api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.protocols.kafka.settings import ListenerSettings
from goqueue.wire.kafka import fetch as fetch_wire, produce as produce_wire
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.wire.kafka.frames import Response

T = TypeVar("T")


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return uvloop.run(scenario)


class SmallApi:
    """Handlers whose ends the test holds in its hands."""

    def __init__(self) -> None:
        self.started: list[int] = []
        """Correlation ids in the order in which handlers started."""
        self.finished: list[int] = []
        self.cancelled: list[int] = []
        self.held: dict[int, asyncio.Future[Any]] = {}
        self.blob = b""

    def hold(self, ctx: RequestContext) -> asyncio.Future[Any]:
        return self.held.setdefault(ctx.correlation_id, asyncio.get_running_loop().create_future())

    @api(ApiKey.FIND_COORDINATOR, 0, 2, right=ANYONE)
    def echo(self, ctx: RequestContext, request: Any) -> Response:
        self.started.append(ctx.correlation_id)
        return {"error_code": 0, "node_id": 1, "host": request.key, "port": 9}

    @api(ApiKey.PRODUCE, 3, 13, pipelined=True, parse=produce_wire.parse_request, right=ANYONE)
    def produce(self, ctx: RequestContext, request: produce_wire.ProduceRequest) -> Any:
        self.started.append(ctx.correlation_id)
        if request.acks == 0:
            return None
        answer = produce_wire.encode_response(ctx.version, [])
        if request.timeout_ms == 0:
            return answer
        return self.hold(ctx)

    @api(ApiKey.FETCH, 4, 18, long_poll=True, parse=fetch_wire.parse_request, right=ANYONE)
    async def fetch(self, ctx: RequestContext, request: fetch_wire.FetchRequest) -> Response:
        self.started.append(ctx.correlation_id)
        if request.max_wait_ms:
            try:
                await self.hold(ctx)
            except asyncio.CancelledError:
                self.cancelled.append(ctx.correlation_id)
                raise
        part = fetch_wire.FetchedPartition(0, records=[self.blob])
        return fetch_wire.encode_response(ctx.version, [fetch_wire.FetchedTopic("t", None, [part])])

    @api(ApiKey.INIT_PRODUCER_ID, 0, 6, pipelined=True, right=ANYONE)
    async def slow(self, ctx: RequestContext, request: Any) -> Response:
        self.started.append(ctx.correlation_id)
        if request.transaction_timeout_ms:
            await self.hold(ctx)
        self.finished.append(ctx.correlation_id)
        return {"producer_id": 5, "producer_epoch": 0}

    @api(ApiKey.HEARTBEAT, 0, 4, right=ANYONE)
    async def raises(self, ctx: RequestContext, request: Any) -> Response:
        if request.group_id == "known":
            raise OffsetOutOfRangeError(5, 0, 1)
        if request.group_id == "invariant":
            raise InvariantError("x")
        if request.group_id == "misspelt":
            return {"eror_code": 0}
        raise RuntimeError("boom")

    @api(ApiKey.LIST_OFFSETS, 1, 11, right=ANYONE)
    def raises_without_a_place_for_it(self, ctx: RequestContext, request: Any) -> Response:
        raise OffsetOutOfRangeError(5, 0, 1)

    @api(
        ApiKey.DELETE_GROUPS,
        0,
        2,
        right=ANYONE,
        on_error=lambda _ctx, request, code: {
            "results": [{"group_id": g, "error_code": code} for g in request.groups_names]
        },
    )
    def raises_for_each_item(self, ctx: RequestContext, request: Any) -> Response:
        raise OffsetOutOfRangeError(5, 0, 1)

    @api(ApiKey.SASL_AUTHENTICATE, 0, 2, right=ANYONE)
    def authenticate(self, ctx: RequestContext, request: Any) -> Response:
        ctx.peer.session.authenticate(Principal(request.auth_bytes.decode()))
        return {"auth_bytes": ctx.peer.session.principal.label.encode(), "session_lifetime_ms": 0}


def registry_of(*families: object) -> Registry:
    return with_api_versions(Registry(*families))


@asynccontextmanager
async def listening(*families: object, **settings: Any) -> AsyncIterator[Listener]:
    # Sweeps are made by hand unless a test says otherwise.
    chosen = ListenerSettings(**{"port": 0, "sweep_s": 3600.0, **settings})
    listener = Listener(registry_of(*families), chosen)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop(deadline_s=5.0)


async def eventually(condition: Callable[[], object]) -> None:
    """Give the event loop turns until something that is bound to happen has happened."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the condition is another part's own state
            await asyncio.sleep(0.001)


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def answer(self) -> tuple[int, bytes]:
        """The correlation id and the rest of the next answer."""
        async with asyncio.timeout(60):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            data = await self.reader.readexactly(size)
        return struct.unpack_from(">i", data)[0], data[4:]

    async def is_closed_by_server(self) -> bool:
        async with asyncio.timeout(60):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    async def echo(self, word: str, correlation_id: int = 1) -> str:
        self.send(echo_frame(correlation_id, word))
        answered, body = await self.answer()
        assert answered == correlation_id
        return word_of(body)


@asynccontextmanager
async def connected(listener: Listener, **options: Any) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, **options)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


# --- Frames -------------------------------------------------------------------------------------


def frame(
    key: int, version: int, correlation_id: int, body: bytes, *, header_tags: bytes = b""
) -> bytes:
    data = struct.pack(">hhih", key, version, correlation_id, 2) + b"me" + header_tags + body
    return struct.pack(">i", len(data)) + data


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def echo_frame(correlation_id: int, word: str) -> bytes:
    return frame(ApiKey.FIND_COORDINATOR, 0, correlation_id, string(word))


def word_of(body: bytes) -> str:
    """The word in the answer to an echo: error code, node id, host."""
    (length,) = struct.unpack_from(">h", body, 6)
    return body[8 : 8 + length].decode()


def produce_frame(
    correlation_id: int, *, acks: int = -1, waits: bool = False, records: bytes = b""
) -> bytes:
    topics = struct.pack(">i", 1) + string("t") + struct.pack(">iii", 1, 0, len(records)) + records
    head = string("x") + struct.pack(">hi", acks, int(waits))
    return frame(ApiKey.PRODUCE, 7, correlation_id, head + topics)


def fetch_frame(correlation_id: int, *, waits: bool = False) -> bytes:
    body = struct.pack(">iiiibi", -1, int(waits), 1, 1 << 20, 0, 0)
    return frame(ApiKey.FETCH, 4, correlation_id, body)


def slow_frame(correlation_id: int, *, waits: bool = True) -> bytes:
    body = b"\xff\xff" + struct.pack(">i", int(waits))
    return frame(ApiKey.INIT_PRODUCER_ID, 0, correlation_id, body)


def heartbeat_frame(correlation_id: int, group: str) -> bytes:
    body = string(group) + struct.pack(">i", 1) + string("m")
    return frame(ApiKey.HEARTBEAT, 0, correlation_id, body)

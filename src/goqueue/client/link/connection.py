"""One connection to one broker: requests go out in order, and so do their answers come back.

Answers are read into buffers of their own, so that the batches of a Fetch are never copied. The
oldest request under way has a deadline; when that is over, the connection is closed, because
nobody knows any more what would come next.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from goqueue.client.errors import (
    BrokerError,
    ConnectionLostError,
    ForeignServerError,
    UnexpectedAnswerError,
)
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.frames import has_flexible_header, parse_response, request_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.client.link.addresses import Address
    from goqueue.client.settings import ClientSettings
    from goqueue.wire.kafka.primitives import Buffer
    from goqueue.wire.kafka.reading import Struct

_LENGTH: Final = struct.Struct(">i")
_REQUEST_START: Final = struct.Struct(">ihhih")
"""Length, API, version, number of the request, length of the client id."""
_SCRATCH_BYTES: Final = 64 * 1024
_MAX_ANSWER_BYTES: Final = 1 << 28
"""A longer answer is not one of ours: the stream is lost, and nothing is reserved for it."""
_MAX_ELEMENTS: Final = 1 << 24
"""Of all arrays in one answer; a broker is trusted with more than a client is."""
_CORRELATION_IDS: Final = 1 << 31
_HTTP2_SETTINGS: Final = b"\x04\0\0\0\0\0"
"""How a server of HTTP/2 begins, after three bytes of a length: as a Kafka answer that would be
one to request 0, and the first one is 1."""
_TELLING_BYTES: Final = 3 + len(_HTTP2_SETTINGS)
Room: TypeAlias = "Callable[[int, Callable[[], None]], bool]"


class _Callback:
    """Stands for a future whose only reader is called at once, not in the next turn."""

    __slots__ = ("_answered", "_is_done")

    def __init__(self, answered: Callable[[memoryview | Exception], None]) -> None:
        self._answered = answered
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, answer: memoryview) -> None:
        self._is_done = True
        self._answered(answer)

    def set_exception(self, error: Exception) -> None:
        self._is_done = True
        self._answered(error)

    def exception(self) -> None:
        """It has been told already."""


class _Question(NamedTuple):
    """A request that waits for its answer."""

    correlation_id: int
    api: int
    answer: asyncio.Future[memoryview] | _Callback
    deadline_s: float
    due_s: float
    """By when an answer is to be expected from a broker that is well."""
    room: Room | None = None
    """Counts so many bytes of an answer that comes in parts, or calls back when it has."""


class Connection(asyncio.BufferedProtocol):
    """Calls one broker; every failure of the network is a `ConnectionLostError`, and ends it."""

    def __init__(
        self, address: Address, settings: ClientSettings, scratch_bytes: int = _SCRATCH_BYTES
    ) -> None:
        """A longer answer than `scratch_bytes` has a buffer of its own."""
        self.address: Final = address
        self.is_open = False
        """Once something went wrong, nobody knows what would come next: it stays closed."""
        self._failure: Exception | None = None
        """What went wrong; it may have before anything was asked."""
        self.versions: dict[int, tuple[int, int]] = {}
        """What the broker serves: first and last version by API."""
        self._client_id = settings.client_id.encode()
        self._timeout_s = settings.call_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._correlation_id = 0
        self._waiting: deque[_Question] = deque()
        self._watchdog: asyncio.TimerHandle | None = None
        self._scratch = memoryview(bytearray(scratch_bytes))
        self._frame: memoryview | None = None
        """The answer that is coming in, where it did not fit the scratch buffer."""
        self._filled = 0
        """Bytes of the frame, or of the scratch buffer."""

    # --- Asking ----------------------------------------------------------------------------------

    async def ask(
        self,
        api: ApiKey,
        version: int,
        /,
        wait_s: float = 0.0,
        room: Room | None = None,
        **fields: Any,
    ) -> Struct:
        """Send a request, wait for its answer (`wait_s` longer than usual), count that in `room`.

        Raises:
            ConnectionLostError: there is no answer, and there will be none.
        """
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        frame = request_frame(self._correlation_id, self._client_id, fields, api, version)
        due_s = self._loop.time() + wait_s
        return self.parse(await self._send((frame,), api, wait_s, due_s, room), api, version)

    def exchange(
        self,
        api: ApiKey,
        version: int,
        body: Sequence[Buffer],
        wait_s: float = 0.0,
        *,
        is_prompt: bool = False,
    ) -> asyncio.Future[memoryview]:
        """Send a request whose body is written already; the future is the whole answer.

        `parse` reads the answer.

        Args:
            api: The API.
            version: The version of the API.
            body: The pieces of the body; they go to the socket as they are.
            wait_s: How much longer than usual the answer may take.
            is_prompt: Whether it comes at once as a rule, however long it may take.
        """
        due_s = self._loop.time() + (0.0 if is_prompt else max(wait_s, 0.0))
        return self._send(self._framed(api, version, body), api, wait_s, due_s)

    def call(
        self,
        api: ApiKey,
        version: int,
        body: Sequence[Buffer],
        answered: Callable[[memoryview | Exception], None],
        wait_s: float = 0.0,
    ) -> None:
        """`exchange` for one who is called with the answer, or the error, when it is there."""
        if self._transport is None or not self.is_open:
            self._loop.call_soon(answered, self._closed())
            return
        due_s = self._loop.time() + wait_s
        self._ask(self._framed(api, version, body), api, wait_s, _Callback(answered), due_s)

    def send(self, api: ApiKey, version: int, body: Sequence[Buffer]) -> None:
        """Send a request that the broker does not answer (a Produce without acks).

        Raises:
            ConnectionLostError: the connection is closed.
        """
        if self._transport is None or not self.is_open:
            raise self._closed()
        self._transport.writelines(self._framed(api, version, body))

    def _framed(self, api: ApiKey, version: int, body: Sequence[Buffer]) -> list[Buffer]:
        """Length and header in front of a body."""
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        start = bytearray(_REQUEST_START.size)
        start += self._client_id
        if has_flexible_header(api, version):
            start.append(0)
        size = len(start) + sum(map(len, body)) - _LENGTH.size
        _REQUEST_START.pack_into(
            start, 0, size, api, version, self._correlation_id, len(self._client_id)
        )
        return [start, *body]

    def parse(self, answer: memoryview, api: ApiKey, version: int) -> Struct:
        """The body of an answer; an answer that is none ends the connection."""
        try:
            return parse_response(answer, api, version, max_elements=_MAX_ELEMENTS)[1]
        except MalformedRequestError as error:
            raise self.misunderstood(api, error) from None

    def misunderstood(self, api: int, error: Exception) -> UnexpectedAnswerError:
        """Give up on a connection whose answer makes no sense."""
        lost = UnexpectedAnswerError(f"{self.address} answers {_name(api)} with nonsense: {error}")
        self._fail(lost)
        return lost

    def _send(
        self,
        parts: Sequence[Buffer],
        api: int,
        wait_s: float,
        due_s: float,
        room: Room | None = None,
    ) -> asyncio.Future[memoryview]:
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        if self._transport is None or not self.is_open:
            answer.set_exception(self._closed())
            return answer
        self._ask(parts, api, wait_s, answer, due_s, room=room)
        return answer

    def _ask(
        self,
        parts: Sequence[Buffer],
        api: int,
        wait_s: float,
        answer: asyncio.Future[memoryview] | _Callback,
        due_s: float,
        *,
        room: Room | None = None,
    ) -> None:
        transport = cast("asyncio.Transport", self._transport)
        deadline_s = self._loop.time() + self._timeout_s + wait_s
        self._waiting.append(_Question(self._correlation_id, api, answer, deadline_s, due_s, room))
        if self._watchdog is None:
            self._watchdog = self._loop.call_at(deadline_s, self._watch)
        if len(parts) == 1:
            transport.write(parts[0])
        else:
            transport.writelines(parts)

    @property
    def late_s(self) -> float:
        """For how long the answer to the oldest request has been expected; 0 while it is not."""
        return max(self._loop.time() - self._waiting[0].due_s, 0.0) if self._waiting else 0.0

    def _watch(self) -> None:
        """Look whether the oldest request has waited for too long."""
        self._watchdog = None
        if not self._waiting:
            return
        oldest = self._waiting[0]
        if oldest.deadline_s <= self._loop.time():
            self._fail(
                ConnectionLostError(f"{self.address} did not answer {_name(oldest.api)} in time")
            )
        else:
            self._watchdog = self._loop.call_at(oldest.deadline_s, self._watch)

    # --- What the transport says -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._fail(
            ConnectionLostError(f"{self.address} closed the connection: {exc or 'no reason given'}")
        )

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return (self._scratch if self._frame is None else self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        self._filled += nbytes
        if self._frame is None:
            self._split()
        elif self._filled == len(self._frame):
            frame, self._frame, self._filled = self._frame, None, 0
            self._answered(frame)

    def _split(self, *, is_counted: bool = False) -> None:
        """Take whole answers out of the scratch buffer; begin a buffer for one that has room."""
        scratch, filled, at = self._scratch, self._filled, 0
        while filled - at >= _LENGTH.size:
            size: int = _LENGTH.unpack_from(scratch, at)[0]
            begin = bytes(scratch[at : min(at + _TELLING_BYTES, filled)])
            if not _LENGTH.size <= size <= _MAX_ANSWER_BYTES or (
                not self.versions and begin[3:] == _HTTP2_SETTINGS
            ):
                self._fail(_foreign(self.address, begin))
                return
            start = at + _LENGTH.size
            if start + size > filled and not (is_counted or self._has_room(size)):
                break
            at = start + size
            if at > filled:
                self._frame = memoryview(bytearray(size))
                self._filled = filled - start
                self._frame[: self._filled] = scratch[start:filled]
                return
            self._answered(memoryview(bytes(scratch[start:at])))
            if self._transport is None:
                return  # whoever was called hung up
        scratch[: filled - at] = scratch[at:filled]
        self._filled = filled - at

    def _has_room(self, size_bytes: int) -> bool:
        """Whether an answer that is not whole may be read now; if not, nothing is until then."""
        room = self._waiting[0].room if self._waiting else None
        if room is None or room(size_bytes, self._read_on):
            return True
        cast("asyncio.Transport", self._transport).pause_reading()
        return False

    def _read_on(self) -> None:
        """There is room for the answer that waits."""
        if self._transport is not None:
            self._transport.resume_reading()
            self._split(is_counted=True)

    def _answered(self, frame: memoryview) -> None:
        if not self._waiting:
            self._fail(UnexpectedAnswerError(f"{self.address} answers what was not asked"))
            return
        # Read first: the caller gets an error also where that fails.
        correlation_id: int = _LENGTH.unpack_from(frame)[0]
        question = self._waiting.popleft()
        if correlation_id != question.correlation_id:
            lost = UnexpectedAnswerError(
                f"{self.address} answers request {correlation_id}, not {question.correlation_id}"
            )
            if not question.answer.done():
                question.answer.set_exception(lost)
            self._fail(lost)
        elif not question.answer.done():
            question.answer.set_result(frame)

    # --- The end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Hang up; what was asked and not answered fails."""
        self._fail(ConnectionLostError(f"the connection to {self.address} was closed here"))

    def _closed(self) -> Exception:
        return self._failure or ConnectionLostError(f"the connection to {self.address} is closed")

    def _fail(self, error: Exception) -> None:
        self.is_open = False
        self._failure = self._failure or error
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        while self._waiting:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # whoever asked may be gone


def _name(api: int) -> str:
    try:
        return ApiKey(api).name
    except ValueError:
        return f"API {api}"


def _foreign(address: Address, data: bytes) -> Exception:
    """What answers there is no Kafka broker: say what it looks like."""
    if data[3:] == _HTTP2_SETTINGS:
        kind = "HTTP/2, as gRPC does"
    elif data.startswith(b"HTTP/"):
        kind = "HTTP"
    elif data[:1] in {b"\x15", b"\x16"}:
        kind = "TLS: set `tls`, or `ca_file`"
    else:
        kind = "something else"
    return ForeignServerError(
        f"{address} does not speak Kafka's protocol but {kind}; the client needs the address of a "
        "Kafka listener, by default port 9092"
    )


def check_version(connection: Connection, api: ApiKey, version: int) -> None:
    """Raise `BrokerError` for a question that the broker does not know."""
    first, last = connection.versions.get(api, (0, -1))
    if not first <= version <= last:
        served = f"versions {first} to {last}" if last >= first else "no version"
        raise BrokerError(
            f"{connection.address} serves {served} of {api.name}, and this client speaks version "
            f"{version}: the broker is too old or too new for it"
        )

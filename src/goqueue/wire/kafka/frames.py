"""Frames and what they hold, in both directions.

`FrameReader` cuts a stream of bytes into frames: four bytes of length, then that many bytes.

A broker takes a request apart (`parse_prefix`, `parse_client_id`, `parse_body`) and makes the frame
of its answer (`frame_of`); a client makes the frame of a request (`request_frame`) and takes the
answer apart (`parse_response`).

What the hot pair (Produce, Fetch) needs beyond this is in `produce` and `fetch`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.errors import FrameTooLargeError, TruncatedRequestError
from goqueue.wire.kafka.limits import MAX_ELEMENTS
from goqueue.wire.kafka.primitives import Buffer, Cursor
from goqueue.wire.kafka.reading import Struct, reader_of
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_PREFIX: Final = struct.Struct(">hhi")
_REQUEST_START: Final = struct.Struct(">ihhih")
_FRAME_START: Final = struct.Struct(">ii")
CORRELATION_ID_BYTES: Final = 4
"""What every response starts with."""
_LENGTH: Final = struct.Struct(">i")
LENGTH_BYTES: Final = _LENGTH.size
_API_KEY: Final = struct.Struct(">h")


class FrameReader:
    """The bytes of one connection that are not a request yet.

    Bytes go in as they arrive, frames come out one at a time when the caller is ready for them.
    Memory follows what has arrived, never what a length claims. Each frame is a buffer of its own,
    writable, so that the log may stamp a batch where it lies.
    """

    def __init__(self) -> None:
        self._partial = bytearray()
        """The frame that is being put together, with its length in front."""
        self._rest = bytearray()
        """Arrived after it; bytes `_rest_at` and up are still to be used."""
        self._rest_at = 0
        self.frame_count = 0
        """Frames handed out so far."""

    @property
    def buffered_bytes(self) -> int:
        """What has arrived and was not handed out."""
        return len(self._partial) + len(self._rest) - self._rest_at

    @property
    def missing_bytes(self) -> int | None:
        """What is to come of the frame that is arriving; None while nobody knows."""
        if len(self._partial) < LENGTH_BYTES or self._rest:
            return None
        size: int = _LENGTH.unpack_from(self._partial)[0]
        return LENGTH_BYTES + size - len(self._partial)

    @property
    def begun_api_key(self) -> int:
        """The API of the frame that is arriving; -1 while nobody knows."""
        begun, at = (self._partial, 0) if self._partial else (self._rest, self._rest_at)
        if len(begun) - at < LENGTH_BYTES + _API_KEY.size:
            return -1
        key: int = _API_KEY.unpack_from(begun, at + LENGTH_BYTES)[0]
        return key

    def completed(self, data: memoryview) -> memoryview:
        """The frame that is arriving, of which `data` was missing, with its length in front."""
        self._partial += data
        return memoryview(self._partial)

    @property
    def arrived(self) -> memoryview | None:
        """Everything that was not handed out, if a frame begins there; `skip` what was used."""
        return None if self._partial else memoryview(self._rest)[self._rest_at :]

    def skip(self, size: int) -> None:
        """Leave out bytes of `arrived`: they were whole frames."""
        self._rest_at += size

    def clear(self) -> None:
        """Forget what has arrived and was not handed out."""
        self._partial, self._rest, self._rest_at = bytearray(), bytearray(), 0

    def feed(self, data: bytes | memoryview) -> None:
        """Take what the socket gave."""
        # One buffer, not a list of pieces: a client that sends single bytes must not make us keep
        # an object for each. What was handed out of it may still be looked at, so it is not cut.
        if self._rest_at:
            self._rest = self._rest[self._rest_at :]
            self._rest_at = 0
        self._rest += data

    def next_frame(self, max_bytes: int, max_other_bytes: int) -> memoryview | None:
        """The next whole frame without its length, or None until more has arrived.

        Args:
            max_bytes: How long a frame may be.
            max_other_bytes: How long it may be if it is no Produce request.

        Raises:
            FrameTooLargeError: the length is negative or over its limit; the stream is lost.
        """
        if self._partial or len(self._rest) - self._rest_at < LENGTH_BYTES:
            return self._next_in_pieces(max_bytes, max_other_bytes)
        start = self._rest_at + LENGTH_BYTES
        size = _size(self._rest, self._rest_at, max_bytes)
        stop = start + size
        if stop > len(self._rest) or size > max_other_bytes:
            return self._next_in_pieces(max_bytes, max_other_bytes)
        with memoryview(self._rest) as rest:
            frame = bytearray(rest[start:stop])
        self._rest_at = stop
        self.frame_count += 1
        return memoryview(frame)

    def _next_in_pieces(self, max_bytes: int, max_other_bytes: int) -> memoryview | None:
        """The same for a frame that has not arrived in one piece, or is long."""
        if not self._fill(LENGTH_BYTES):
            return None
        size = _size(self._partial, 0, max_bytes)
        if size > max_other_bytes:
            if not self._fill(LENGTH_BYTES + _API_KEY.size):
                return None
            _check_key(self._partial, size, max_other_bytes)
        if not self._fill(LENGTH_BYTES + size):
            return None
        frame = self._partial
        self._partial = bytearray()
        self.frame_count += 1
        return memoryview(frame)[LENGTH_BYTES:]

    def _fill(self, size: int) -> bool:
        """Move bytes into the partial frame until it has `size`; whether it does."""
        missing = size - len(self._partial)
        if missing <= 0:
            return True
        stop = min(self._rest_at + missing, len(self._rest))
        with memoryview(self._rest) as rest:
            self._partial += rest[self._rest_at : stop]
        self._rest_at = stop
        if stop == len(self._rest):
            self._rest, self._rest_at = bytearray(), 0
        return len(self._partial) == size


def _size(buffer: bytes | bytearray, position: int, max_bytes: int) -> int:
    size: int = _LENGTH.unpack_from(buffer, position)[0]
    if not 0 <= size <= max_bytes:
        raise FrameTooLargeError(f"a frame of {size} bytes; from 0 to {max_bytes} are accepted")
    return size


def _check_key(frame: bytearray, size: int, max_bytes: int) -> None:
    """Only Produce carries data; what else is so long was not written by a client."""
    api_key: int = _API_KEY.unpack_from(frame, LENGTH_BYTES)[0]
    if api_key != ApiKey.PRODUCE:
        raise FrameTooLargeError(
            f"a frame of {size} bytes of API {api_key}; up to {max_bytes} are accepted of it"
        )


class RequestPrefix(NamedTuple):
    """What every request starts with, whatever the version of its header."""

    api_key: int
    version: int
    correlation_id: int


class Encoded(NamedTuple):
    """A body that is bytes already. Its parts go to the socket as they are, never joined."""

    parts: Sequence[Buffer]


class Bare(NamedTuple):
    """A whole frame that has no header: a SASL token, as it went before SaslAuthenticate."""

    token: bytes


class Whole(NamedTuple):
    """A whole frame, with its length and its header."""

    frame: bytes


Response: TypeAlias = dict[str, Any] | Encoded | Bare | Whole
"""What a handler answers: Kafka's field names and plain values, or finished bytes."""


def parse_prefix(frame: Buffer) -> RequestPrefix:
    """The API, its version, and the number the answer must carry."""
    if len(frame) < _PREFIX.size:
        raise TruncatedRequestError(f"a request of {len(frame)} bytes is shorter than its header")
    return RequestPrefix._make(_PREFIX.unpack_from(frame))


def parse_client_id(cursor: Cursor, *, flexible: bool) -> str | None:
    """The rest of the header after the prefix. Tagged fields in it are skipped.

    The client id keeps the old string encoding in every version, so that a server can answer an
    ApiVersions request newer than itself.
    """
    cursor.position += _PREFIX.size
    client_id = cursor.nullable_string(compact=False)
    if flexible:
        cursor.skip_tags()
    return client_id


def has_flexible_header(api_key: int, version: int) -> bool:
    """Whether the header of this request carries tagged fields."""
    return schema_of(api_key, version, "request").has_flexible_header


def parse_body(cursor: Cursor, api_key: int, version: int) -> Struct:
    """The body of a request.

    Bytes after its last field are ignored, as Kafka ignores them: librdkafka 2.16 leaves three
    behind when it asks for the metadata of all topics.
    """
    return reader_of(schema_of(api_key, version, "request"))(cursor)


def request_frame(
    correlation_id: int, client_id: bytes, fields: Mapping[str, Any], api_key: int, version: int
) -> bytearray:
    """A whole request frame, as a client sends it."""
    schema = schema_of(api_key, version, "request")
    out = bytearray(_REQUEST_START.size)
    out += client_id
    if schema.has_flexible_header:
        out.append(0)
    writer_of(schema)(out, fields)
    size = len(out) - _LENGTH.size
    _REQUEST_START.pack_into(out, 0, size, api_key, version, correlation_id, len(client_id))
    return out


def parse_response(
    frame: memoryview, api_key: int, version: int, *, max_elements: int = MAX_ELEMENTS
) -> tuple[int, Struct]:
    """The number of the request that a response answers, and its body; blobs in it are views."""
    schema = schema_of(api_key, version, "response")
    cursor = Cursor(frame)
    cursor.elements_left = max_elements
    correlation_id = cursor.int32()
    if schema.has_flexible_header:
        cursor.skip_tags()
    return correlation_id, reader_of(schema)(cursor)


def encode_body(api_key: int, version: int, fields: Mapping[str, Any]) -> bytearray:
    """The body of a response."""
    out = bytearray()
    writer_of(schema_of(api_key, version, "response"))(out, fields)
    return out


def answer_is_flexible(api_key: int, version: int) -> bool:
    """Whether the header of this response carries tagged fields (of ApiVersions it never does)."""
    return schema_of(api_key, version, "response").has_flexible_header


def frame_of(correlation_id: int, body: Response, api_key: int, version: int) -> list[Buffer]:
    """A whole response frame in parts, for `writelines`."""
    if isinstance(body, Whole):
        return [body.frame]
    if isinstance(body, Bare):
        return [_LENGTH.pack(len(body.token)), body.token]
    flexible = answer_is_flexible(api_key, version)
    if isinstance(body, Encoded):
        return assemble(correlation_id, body.parts, flexible=flexible)
    return assemble(correlation_id, (encode_body(api_key, version, body),), flexible=flexible)


def assemble(correlation_id: int, parts: Sequence[Buffer], *, flexible: bool) -> list[Buffer]:
    """Length and header in front of a body; the body's parts are not touched."""
    size = sum(map(len, parts)) + CORRELATION_ID_BYTES + flexible
    start = _FRAME_START.pack(size, correlation_id)
    return [start + b"\0" if flexible else start, *parts]

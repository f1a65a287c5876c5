"""A stream of bytes cut into frames: four bytes of length, then that many bytes.

Pure: bytes go in as they arrive, frames come out one at a time when the caller is ready for them.
Memory follows what has arrived, never what a length claims. Each frame is a buffer of its own,
writable, so that the log may stamp a batch where it lies.
"""

from __future__ import annotations

import struct
from typing import Final

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.errors import FrameTooLargeError

LENGTH_BYTES: Final = 4
_LENGTH: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")


class FrameReader:
    """The bytes of one connection that are not a request yet."""

    def __init__(self) -> None:
        self._partial = bytearray()
        """The frame that is being put together, with its length in front."""
        self._rest: bytes | bytearray = b""
        """Arrived after it; bytes `_rest_at` and up are still to be used."""
        self._rest_at = 0
        self.frame_count = 0
        """Frames handed out so far."""

    @property
    def buffered_bytes(self) -> int:
        """What has arrived and was not handed out."""
        return len(self._partial) + len(self._rest) - self._rest_at

    def feed(self, data: bytes) -> None:
        """Take what the socket gave."""
        if self._rest_at == len(self._rest):
            self._rest, self._rest_at = data, 0
            return
        # One buffer, not a list of pieces: a client that sends single bytes must not make us keep
        # an object for each.
        if not isinstance(self._rest, bytearray):
            self._rest = bytearray(self._rest)
        del self._rest[: self._rest_at]
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
            self._rest, self._rest_at = b"", 0
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

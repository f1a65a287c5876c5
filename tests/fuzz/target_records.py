"""Record batches: the compiled codec must do what the readable one does, whatever the bytes.

An input is a number for the compression, the header of a batch and its records, not compressed. It
is compressed and gets the length and checksum that fit, so that damage reaches the decoders. Under
`make fuzz` the compiled codec is built with AddressSanitizer (`fuzz.sanitized`).
"""

from __future__ import annotations

import importlib.util
import os
import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from crc32c import crc32c

from fuzz.live import FindingError
from goqueue.model.errors import BatchError
from goqueue.records import Compression, Record
from goqueue.records.arrow import to_arrow
from goqueue.records.batch import HEADER_BYTES
from goqueue.records.choice import load
from goqueue.records.codec import Codec
from goqueue.records.compression import compress
from goqueue.records.opening import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.records.section import Section

LIBRARY: Final = "GOQUEUE_FUZZ_NATIVE"
"""Names the compiled codec to try, if it is not the one that is installed."""
REFERENCE: Final = load("reference")
_PRODUCE: Final = b"\0\0\0\x09\0\0\0\1"
"""API, version and number of a request, which an input may be the rest of."""


@cache
def native() -> Codec:
    """The compiled codec that is tried."""
    path = os.environ.get(LIBRARY)
    if path is None:
        return load("native")
    spec = importlib.util.spec_from_file_location("_native", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Codec("native", cast("Any", _Exact(module)))


class _Exact:
    """Gives the codec records that end where their memory ends: no read past them goes unnoticed.

    What was decompressed lies in a larger buffer as a rule.
    """

    def __init__(self, sections: Any) -> None:
        self._sections = sections

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sections, name)

    def decode_records(self, section: Section) -> Any:
        return self._sections.decode_records(_exact(section))

    def check_records(self, section: Section, *limits: int) -> None:
        self._sections.check_records(_exact(section), *limits)

    def Messages(self, *arguments: Any) -> Any:  # noqa: N802 - it is a class
        sections = [_exact(each) for each in arguments[3]]
        return self._sections.Messages(*arguments[:3], sections, *arguments[4:])

    def fill_columns(self, sections: Sequence[Section], *range_: int) -> Any:
        return self._sections.fill_columns([_exact(each) for each in sections], *range_)


def _exact(section: Section) -> Section:
    return section._replace(data=bytes(section.data))


def seeds() -> list[bytes]:
    """Batches of every shape, with every compression."""
    headers = (("name", b"header"), ("", None), ("ü\udcff", b""))
    shapes = [
        [],
        [Record(0, 1_700_000_000_000, b"key", b"value", headers)],
        [Record(n, 1_700_000_000_000 + n, None, b"v" * n) for n in range(70)],
        [Record(n * n, -n, b"" if n % 2 else None, None, headers[: n % 4]) for n in range(20)],
        [Record(0, 0, b"k" * 200, b"v" * 9000, headers * 40)],
    ]
    found = []
    for number, records in enumerate(shapes):
        batch = REFERENCE.encode(records, attributes=0x08 if number % 2 else 0)
        found += [bytes([int(codec)]) + batch for codec in Compression]
    request = b"\0\4fuzz\0\0\xff\xff\0\0\0\0\2\6topic\2\0\0\0\0"
    batch = REFERENCE.encode(shapes[1])
    return [*found, request + bytes([len(batch) + 1]) + batch + bytes(3)]


def dressed(data: bytes) -> bytes:
    """The batch that an input stands for."""
    codec = Compression(data[0] % len(Compression)) if data else Compression.NONE
    batch = bytearray(data[1 : 1 + HEADER_BYTES].ljust(HEADER_BYTES, b"\0"))
    batch += compress(codec, data[1 + HEADER_BYTES :])
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    batch[16] = 2
    batch[22] = batch[22] & 0xF8 | codec
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


def check(data: bytes) -> None:
    """Both codecs give the same, or both refuse."""
    batch = dressed(data)
    rows = _alike(lambda codec: codec.decode_rows(batch))
    _alike(lambda codec: _readable(codec, batch))
    _alike(lambda codec: codec.check_records(batch, max_value_bytes=100, max_headers_bytes=50))
    _alike(lambda codec: codec.admit(batch, room=SMALL))
    columns = _alike(lambda codec: codec.decode_columns(batch + batch[:-1]))
    _alike(lambda codec: codec.decode_columns(batch, from_offset=3, until_offset=10))
    _alike(lambda codec: _messages(codec, batch + batch[:-1]))
    _alike(lambda codec: codec.plain_header(memoryview(batch)))
    _alike(lambda codec: codec.single_batch(memoryview(_PRODUCE + data)))
    _alike(lambda codec: _messages(codec, batch + batch, from_offset=3, until_offset=10))
    if not isinstance(columns, type):
        to_arrow(columns).validate(full=True)
    if not isinstance(rows, type):
        base: dict[str, Any] = {
            "base_offset": rows[0].offset if rows else 0,
            "last_offset_delta": 2**31 - 1,
        }
        _alike(lambda codec: codec.encode(rows))
        _alike(lambda codec: codec.encode(rows[::-1], **base))


def _messages(codec: Codec, buffer: bytes, **options: Any) -> Any:
    messages = codec.decode_messages("topic", 0, buffer, **options)
    return [tuple(each) for each in messages], messages.next_offset, messages.remainder_bytes


def _readable(codec: Codec, batch: bytes) -> Any:
    """What decodes, and which offsets do not; why not is said in different words."""
    records, faults = codec.decode_readable(batch)
    return records, [fault[:2] for fault in faults]


def _alike(action: Callable[[Codec], Any]) -> Any:
    expected, found = _outcome(action, REFERENCE), _outcome(action, native())
    if expected != found:
        raise FindingError(f"the readable codec: {expected!r}\nthe compiled codec: {found!r}")
    return found


def _outcome(action: Callable[[Codec], Any], codec: Codec) -> Any:
    try:
        return action(codec)
    except BatchError as error:
        return type(error)

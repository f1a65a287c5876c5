"""Varints, and one record as bytes, in readable Python; `reference.py` has the format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from goqueue.records.record import Headers


class _Varints(dict[int, bytes]):
    """The varint of a number, remembered for small numbers (at most `2 * KEPT` of them)."""

    KEPT: Final = 4096

    def __missing__(self, number: int) -> bytes:
        raw = number << 1 if number >= 0 else (-number << 1) - 1
        encoded = bytearray()
        while raw > 0x7F:
            encoded.append(raw & 0x7F | 0x80)
            raw >>= 7
        encoded.append(raw)
        if -self.KEPT <= number < self.KEPT:
            self[number] = bytes(encoded)
        return bytes(encoded)


VARINT: Final = _Varints()


class VarintRangeError(Exception):
    """A varint is longer than its type allows."""


def read_varint(data: bytes | memoryview, position: int, bits: int = 32) -> tuple[int, int]:
    """The number at `position`, and the position after it."""
    first = data[position]
    if first < 0x80:
        return first >> 1 ^ -(first & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        raw = first & 0x7F | second << 7
        return raw >> 1 ^ -(raw & 1), position + 2
    return _read_long_varint(data, position, bits)


def _read_long_varint(data: bytes | memoryview, position: int, bits: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, bits, 7):
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                break
            return raw >> 1 ^ -(raw & 1), position
    raise VarintRangeError(f"a varint of more than {bits} bits")


def encode_record(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> bytes:
    """The record with its length in front."""
    record = b"".join(
        (
            b"\x00",
            VARINT[timestamp_delta],
            VARINT[offset_delta],
            VARINT[-1] if key is None else VARINT[len(key)],
            key or b"",
            VARINT[-1] if value is None else VARINT[len(value)],
            value or b"",
            encode_headers(headers) if headers else b"\x00",
        )
    )
    return VARINT[len(record)] + record


def encode_headers(headers: Headers) -> bytes:
    """Their count, and each."""
    parts = [VARINT[len(headers)]]
    for name, value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (VARINT[len(encoded)], encoded)
        parts += (VARINT[-1],) if value is None else (VARINT[len(value)], value)
    return b"".join(parts)

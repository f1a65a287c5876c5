"""Durations, times and bytes as JSON writes them.

A duration is `"1h30m"` or milliseconds; a time is RFC 3339 or milliseconds since the epoch; bytes
are text, or base64 where `encoding` says so.
"""

from __future__ import annotations

import binascii
import re
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.limits import MAX_TIME_MS

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_DIGITS: Final = re.compile(r"\d{1,15}", re.ASCII)

DURATION_EXPECTED: Final = 'a duration such as "30s", "5m" or "1h30m", or milliseconds'
TIME_EXPECTED: Final = 'a time such as "2025-01-31T12:00:00Z", or milliseconds since the epoch'

Duration: TypeAlias = Annotated[
    int | str,
    msgspec.Meta(
        description=f"{DURATION_EXPECTED[0].upper()}{DURATION_EXPECTED[1:]}.",
        examples=["30s"],
        extra_json_schema={
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^(\d+|(\d+(\.\d+)?(ms|s|m|h|d))+)$"},
            ]
        },
    ),
]
Time: TypeAlias = Annotated[
    int | str,
    msgspec.Meta(
        description=f"{TIME_EXPECTED[0].upper()}{TIME_EXPECTED[1:]}.",
        examples=["2025-01-31T12:00:00Z"],
        extra_json_schema={
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MAX_TIME_MS},
                {"type": "string", "format": "date-time"},
            ]
        },
    ),
]
Encoding: TypeAlias = Literal["text", "base64"]

_moment: Final = msgspec.json.Decoder(Annotated[datetime, msgspec.Meta(tz=True)])


def duration_ms(value: int | str, field: str, *, at_most_ms: int, location: str = "query") -> int:
    """The milliseconds of a duration.

    Raises:
        FieldError: it is no duration, negative, or longer than may be.
    """
    found = value if isinstance(value, int) else _duration_of(value)
    if found is None or not 0 <= found <= at_most_ms:
        bound = f"{DURATION_EXPECTED}, from 0 to {at_most_ms} ms"
        raise FieldError(
            f"{field} is {_shown(value)}, expected {bound}",
            field=field,
            location=location,
            expected=bound,
        )
    return found


def _duration_of(text: str) -> int | None:
    if _DIGITS.fullmatch(text):
        return int(text)
    if not _WHOLE.fullmatch(text):
        return None
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))


def time_ms(value: int | str, field: str, *, location: str = "query") -> int:
    """The milliseconds since the epoch of a time.

    Raises:
        FieldError: it is no time between 1970 and 9999.
    """
    found = value if isinstance(value, int) else _time_of(value)
    if found is None or not 0 <= found <= MAX_TIME_MS:
        raise FieldError(
            f"{field} is {_shown(value)}, expected {TIME_EXPECTED}",
            field=field,
            location=location,
            expected=TIME_EXPECTED,
        )
    return found


def _time_of(text: str) -> int | None:
    if _DIGITS.fullmatch(text):
        return int(text)
    try:
        moment = _moment.decode(msgspec.json.encode(text))
    except (msgspec.ValidationError, OverflowError, ValueError):
        return None
    # Through whole microseconds: a float of seconds would lose the last millisecond.
    return int((moment - _EPOCH) // _MILLISECOND)


_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MILLISECOND: Final = datetime.resolution * 1000


def to_bytes(text: str, encoding: Encoding, field: str) -> bytes:
    """What a text stands for.

    Raises:
        FieldError: it is not base64, or holds what UTF-8 cannot write.
    """
    if encoding == "text":
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise FieldError(
                f"{field} holds half of a surrogate pair, which UTF-8 cannot write",
                field=field,
                expected="Unicode text",
            ) from error
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise FieldError(
            f"{field} is not base64: {error}", field=field, expected="base64 with padding"
        ) from error


def to_text(data: bytes, *, force_base64: bool = False) -> tuple[str, Encoding]:
    """Bytes as text, and how: base64 where they are not UTF-8, or where it is asked for."""
    if not force_base64:
        try:
            return data.decode(), "text"
        except UnicodeDecodeError:
            pass
    return binascii.b2a_base64(data, newline=False).decode(), "base64"


def _shown(value: int | str) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"

"""Which trace a message belongs to.

A record with a W3C `traceparent` header belongs to the trace that it names. Every other message has
a trace of its own, whose id follows from the place of the message: so nothing need be written into
a producer's batch, and whoever knows the place knows the trace, and the other way round.

```
 trace id   8 bytes  the partition: a hash of the topic's id and the partition's number
            8 bytes  the offset, multiplied so that neighbours look nothing alike
```
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

TRACEPARENT_HEADER: Final = "traceparent"
"""The header of a record that names its trace, as W3C Trace Context writes it."""

PLACE_CHARS: Final = 16
"""Digits of a trace id that say the partition, if the trace is one of its messages."""
MASK: Final = (1 << 64) - 1
_SPREAD: Final = 0x9E3779B97F4A7C15
_GATHER: Final = pow(_SPREAD, -1, 1 << 64)
_SAMPLED: Final = 1
_TRACEPARENT: Final = re.compile(
    r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII
)
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_LONGEST: Final = 512
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16


class TraceContext(NamedTuple):
    """A trace, and the span in it that comes before whatever happens next."""

    trace_id: str
    span_id: str

    @property
    def traceparent(self) -> bytes:
        """The value of the header that names it."""
        return f"00-{self.trace_id}-{self.span_id}-01".encode()


def parse_traceparent(value: bytes | None) -> tuple[TraceContext, bool] | None:
    """The trace that a header names, and whether it is sampled; None when it names none.

    A header that is not as W3C has it is as good as none. Later versions than 00 may say more
    behind what is known.
    """
    if value is None or len(value) > _LONGEST:
        return None
    found = _TRACEPARENT.fullmatch(value.decode("latin-1"))
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more):
        return None
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return TraceContext(trace_id, span_id), flags == "01" or bool(int(flags, 16) & _SAMPLED)


def context_in(
    headers: Iterable[tuple[str, bytes | None]],
) -> tuple[TraceContext, bool] | None:
    """The trace that a record's headers name. Of several headers the first that is one counts."""
    for name, value in headers:
        if name == TRACEPARENT_HEADER:
            found = parse_traceparent(value)
            if found is not None:
                return found
    return None


def is_trace_id(text: str) -> bool:
    """Whether a text can be the id of a trace."""
    return _TRACE_ID.fullmatch(text) is not None


def place_of(topic_id: bytes, partition: int) -> str:
    """What the traces of a partition's messages begin with."""
    digest = blake2b(topic_id + partition.to_bytes(4), digest_size=8).hexdigest()
    return digest if int(digest, 16) else "0000000000000001"  # a trace id is never all zeros


def spread(number: int) -> int:
    """64 bits in which neighbours are far from each other; each number has its own."""
    return (number + 1) * _SPREAD & MASK


def derived_id(place: str, offset: int) -> str:
    """The trace of a message that names none."""
    return f"{place}{spread(offset):016x}"


def offset_in(place: str, trace_id: str) -> int | None:
    """The offset of the message of that trace, if it is one of this partition."""
    if not trace_id.startswith(place):
        return None
    return (int(trace_id[PLACE_CHARS:], 16) * _GATHER & MASK) - 1


def derived_context(place: str, offset: int) -> TraceContext:
    """The trace of a message that names none, to be named to whoever comes next."""
    trace_id = derived_id(place, offset)
    return TraceContext(trace_id, root_span(trace_id))


def new_trace() -> TraceContext:
    """A trace for what happens to no message that is stored."""
    trace_id = os.urandom(16).hex()
    return TraceContext(trace_id, root_span(trace_id))


def root_span(trace_id: str) -> str:
    """The span that a trace which began here begins with."""
    return blake2b(bytes.fromhex(trace_id), digest_size=8).hexdigest()

"""One record, as a producer gives it and as a reader gets it."""

from __future__ import annotations

from typing import TypeAlias

from goqueue.model.tuples import NamedTuple

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Names and values in the order written; a name may occur more than once.

Names are UTF-8 on the wire. A name that is not is kept with surrogate escapes, so that what was
stored is what is handed out.
"""


class Record(NamedTuple):
    """One message of a batch. A null value is a tombstone; a null key belongs to no key."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

"""What is said on etcd's JSON gateway.

Bytes are base64 and 64-bit integers are strings in this JSON. False, zero and empty fields are left
out: a failed transaction has no `succeeded`, a range of nothing no `kvs`, a lapsed lease no `TTL`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, TypeVar

import msgspec

from goqueue.runtime.http_connection import HttpConnectionError

RANGE: Final = "/v3/kv/range"
TRANSACTION: Final = "/v3/kv/txn"
WATCH: Final = "/v3/watch"
GRANT: Final = "/v3/lease/grant"
KEEP_ALIVE: Final = "/v3/lease/keepalive"
REVOKE: Final = "/v3/lease/revoke"
STATUS: Final = "/v3/maintenance/status"
ALARM: Final = "/v3/maintenance/alarm"
MEMBERS: Final = "/v3/cluster/member/list"

ALL_FROM: Final = b"\0"
"""As the end of a range: every key from its beginning on."""

_T = TypeVar("_T")


class Code(IntEnum):
    """The codes of gRPC that mean something to us; any other is an answer of no use."""

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    """Of leases alone: nothing else that we name must exist."""
    RESOURCE_EXHAUSTED = 8
    """The quota of the data, or too many requests; judged before anything is proposed."""
    FAILED_PRECONDITION = 9
    OUT_OF_RANGE = 11
    """A revision that is compacted, or not there yet."""


class Failure(msgspec.Struct, frozen=True):
    """An answer that is no success."""

    code: int = 0
    message: str = ""


class Header(msgspec.Struct, frozen=True):
    """With every answer."""

    revision: int = 0


class KeyValue(msgspec.Struct, frozen=True):
    """A key as it is stored, or, in an event, as it was written or removed."""

    key: bytes
    value: bytes = b""
    mod_revision: int = 0
    lease: int = 0


class RangeAnswer(msgspec.Struct, frozen=True):
    """Keys, sorted; `more` when the limit was reached."""

    header: Header = Header()
    kvs: tuple[KeyValue, ...] = ()
    more: bool = False


class Response(msgspec.Struct, frozen=True):
    """Of one operation of a transaction; only that of a reading tells something."""

    response_range: RangeAnswer = RangeAnswer()


class TransactionAnswer(msgspec.Struct, frozen=True):
    """Whether the conditions held, and what the operations answered."""

    header: Header
    succeeded: bool = False
    responses: tuple[Response, ...] = ()


class Lease(msgspec.Struct, frozen=True):
    """A lease was granted or kept alive; no `ttl`: it is over."""

    ttl: int = msgspec.field(name="TTL", default=0)


class KeptAlive(msgspec.Struct, frozen=True):
    """One message of a stream, of which there is one for each beat."""

    result: Lease = Lease()


class Event(msgspec.Struct, frozen=True):
    """One key written, or removed."""

    kv: KeyValue
    type: str = "PUT"


class WatchMessage(msgspec.Struct, frozen=True):
    """Events of whole revisions; without any, a heartbeat of the stream."""

    header: Header = Header()
    events: tuple[Event, ...] = ()
    canceled: bool = False
    compact_revision: int = 0


class WatchLine(msgspec.Struct, frozen=True):
    """One line of the stream."""

    result: WatchMessage = WatchMessage()
    error: Failure | None = None


class StatusAnswer(msgspec.Struct, frozen=True):
    """One member of itself."""

    header: Header
    version: str = ""
    leader: int = 0
    size_bytes: int = msgspec.field(name="dbSize", default=0)


class ListedMember(msgspec.Struct, frozen=True):
    """One member, as the others know it."""

    member_id: int = msgspec.field(name="ID")
    name: str = ""
    client_urls: tuple[str, ...] = msgspec.field(name="clientURLs", default=())


class MembersAnswer(msgspec.Struct, frozen=True):
    """All members."""

    members: tuple[ListedMember, ...] = ()


class RaisedAlarm(msgspec.Struct, frozen=True):
    """What keeps a member from serving."""

    alarm: str = ""


class AlarmsAnswer(msgspec.Struct, frozen=True):
    """All alarms that are raised."""

    alarms: tuple[RaisedAlarm, ...] = ()


def encode(body: dict[str, Any]) -> bytes:
    """A request."""
    return msgspec.json.encode(body)


def decode(body: bytes, kind: type[_T]) -> _T:
    """An answer.

    Raises:
        HttpConnectionError: it is something else.
    """
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HttpConnectionError(f"not an answer of etcd: {error}") from error


def end_of_prefix(prefix: bytes) -> bytes:
    """The end of the range of keys under a prefix; no UTF-8 ends in 0xff, so one can be added."""
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else ALL_FROM

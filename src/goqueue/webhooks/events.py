"""Events: what can happen, and what a target is told of it."""

from __future__ import annotations

import os
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from goqueue.runtime.clock import Clock

_MAX_TEXT_CHARS: Final = 500
"""Of one text in the data of an event, such as an error of a consumer; the rest is cut off."""
_NS_A_MS: Final = 1_000_000


class EventType(StrEnum):
    """What happened."""

    TOPIC_CREATED = "topic.created"
    TOPIC_DELETED = "topic.deleted"
    PARTITION_ADDED = "partition.added"
    GROUP_JOINED = "group.joined"
    GROUP_LEFT = "group.left"
    MESSAGE_DEAD_LETTERED = "message.dead_lettered"
    BROKER_READY = "broker.ready"
    BROKER_SHUTDOWN = "broker.shutdown"
    WEBHOOK_TEST = "webhook.test"
    """Sent when an administrator asks for it, whatever the endpoint's filters say."""


CHOOSABLE: Final = tuple(each for each in EventType if each is not EventType.WEBHOOK_TEST)
"""What the filter of an endpoint can name."""


class Event(msgspec.Struct, frozen=True):
    """One event: the body of the request, in this order."""

    id: str
    """The same for every attempt to deliver it."""
    type: str
    timestamp: int
    """When it happened, in milliseconds since the Unix epoch."""
    source: str
    """The node that saw it, as in `goqueue/CLUSTER/NODE`."""
    data: dict[str, Any]

    @property
    def topic(self) -> str | None:
        """The topic that it is about, if it is about one."""
        found = self.data.get("topic")
        return found if isinstance(found, str) else None


class EventMaker:
    """Gives events their ids and their source."""

    def __init__(self, clock: Clock, source: str) -> None:
        self._clock = clock
        self._source = source
        self._numbers = count(int.from_bytes(os.urandom(4)))
        """Two nodes do not begin at the same number."""

    def make(self, kind: EventType, data: dict[str, Any]) -> Event:
        """A new event."""
        now_ms = self._clock.now_ms()
        event_id = f"evt_{now_ms * _NS_A_MS}_{next(self._numbers)}"
        cut = {name: _cut(value) for name, value in data.items()}
        return Event(event_id, kind.value, now_ms, self._source, cut)


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_TEXT_CHARS:
        return value[: _MAX_TEXT_CHARS - 1] + "…"
    return value


def encode(event: Event) -> bytes:
    """The body of a request, and what the topic keeps."""
    return msgspec.json.encode(event)


def decode(body: bytes | None) -> Event | None:
    """An event of the topic; None for what is none."""
    try:
        return msgspec.json.decode(body or b"", type=Event)
    except msgspec.MsgspecError:
        return None

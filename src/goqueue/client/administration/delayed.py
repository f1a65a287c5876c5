"""`client.delayed`: messages that wait until they are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.client.administration.calls import Calls, message_of

if TYPE_CHECKING:
    from goqueue.client.link.link import Link


class DelayedMessage(msgspec.Struct, frozen=True):
    """A message that waits, or has waited."""

    id: int
    """`delayed_id` of the receipt."""
    topic: str
    partition: int
    state: str
    """pending, delivered, cancelled or expired."""
    deliver_at_ms: int = msgspec.field(name="deliverAt")
    published_at_ms: int = msgspec.field(name="publishedAt")
    priority: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class DelayStats(msgspec.Struct, frozen=True):
    """Delayed messages since the broker started, and those that wait now."""

    scheduled: int
    delivered: int
    cancelled: int
    expired: int
    """Dropped with their topic."""
    pending: int
    pending_by_topic: dict[str, int] = msgspec.field(name="topics")


class Timeline(msgspec.Struct, frozen=True):
    """When the delayed messages of all topics are due."""

    at_ms: int = msgspec.field(name="at")
    """Where the first step begins."""
    step_ms: int
    counts: tuple[int, ...]
    """Messages due in each step,"""
    later: int
    """and after the last one."""
    is_approximate: bool = msgspec.field(name="approximate")


class _Messages(msgspec.Struct):
    messages: list[dict[str, Any]]


class AsyncDelayed:
    """`client.delayed`."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    async def list(self, topic: str, *, limit: int = 100, skip: int = 0) -> list[DelayedMessage]:
        """The messages of a topic that wait, the next one first."""
        path = "/topics/{}/delayed"
        found = await self._calls.get(_Messages, path, topic, limit=limit, skip=skip)
        return [_message(each) for each in found.messages]

    async def get(self, topic: str, delayed_id: int) -> DelayedMessage:
        """One delayed message, by the id of its receipt; also one that waits no more."""
        path = "/topics/{}/delayed/{}"
        return _message(await self._calls.get(dict[str, Any], path, topic, delayed_id))

    async def cancel(self, topic: str, partition: int, delayed_id: int) -> DelayedMessage:
        """Let a message that waits never be delivered.

        Raises:
            DelayedNotPendingError: it was delivered or cancelled before.
        """
        path = "/topics/{}/delayed/{}/{}"
        found = await self._calls.delete(dict[str, Any], path, topic, partition, delayed_id)
        return _message(found)

    async def stats(self) -> DelayStats:
        """How many wait, and what became of the others."""
        return await self._calls.get(DelayStats, "/delay/stats")

    async def timeline(self, steps: int = 60) -> Timeline:
        """How many are due when, in so many steps up to the last one."""
        return await self._calls.get(Timeline, "/delay/timeline", buckets=steps)


def _message(fields: dict[str, Any]) -> DelayedMessage:
    return message_of(DelayedMessage, fields, key="key_encoding", value="encoding")

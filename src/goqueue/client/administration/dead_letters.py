"""`client.dead_letters`: messages that failed for good, looked at, redriven and purged."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.client.administration.calls import Calls, message_of, time_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goqueue.client.link.link import Link
    from goqueue.client.types import Content, Moment

_DRY_RUN_S: Final = 10.0
"""How long a broker waits for the end of a dry run before it answers."""
_LOOK_S: Final = 0.1
"""How often `wait` looks at a redrive."""
_TEXTS: Final = {"key": "key_encoding", "preview": "preview_encoding"}


class DeadLetter(msgspec.Struct, frozen=True):
    """A dead letter of a list; what is not known of its message is None."""

    partition: int
    """Of the dead-letter topic,"""
    offset: int
    """in which it has this offset."""
    key: bytes | None
    preview: bytes | None
    """The first 200 bytes of the value."""
    size_bytes: int
    """Of the whole value."""
    source_topic: str | None
    source_partition: int | None
    source_offset: int | None
    source_timestamp_ms: int | None = msgspec.field(name="source_timestamp")
    group: str | None
    member: str | None
    """The last one that it was delivered to."""
    reason: str | None
    """Such as REJECTED or MAX_DELIVERIES."""
    error: str | None
    deliveries: int | None
    first_delivery_ms: int | None = msgspec.field(name="first_delivery")
    last_delivery_ms: int | None = msgspec.field(name="last_delivery")
    died_at_ms: int = msgspec.field(name="died_at")
    redriven_count: int
    """Earlier redrives."""
    priority: str


class WholeDeadLetter(DeadLetter, frozen=True, kw_only=True):
    """A dead letter with its value and headers."""

    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    is_redriven: bool
    """Whether it was redriven; then it is not listed any more."""


class DeadLetterQueue(msgspec.Struct, frozen=True):
    """A topic that has dead letters, or had some."""

    topic: str
    dead_letter_topic: str
    total: int
    """Letters that have not been redriven."""
    newest_at_ms: int | None = msgspec.field(name="newest_at")


class RefusedLetter(msgspec.Struct, frozen=True):
    """A letter that its target topic refused."""

    partition: int
    offset: int
    to: str
    error: str


class Redrive(msgspec.Struct, frozen=True):
    """A redrive, which runs in the broker."""

    id: int
    topic: str
    to: str
    dry_run: bool
    state: str
    """counting, running, done, cancelled or failed."""
    total: int
    """Letters that it is about, once they are counted."""
    done: int
    failed: int
    """Letters that their target refused; they stay."""
    rate: float
    """Messages a second."""
    error: str | None
    started_at_ms: int = msgspec.field(name="started_at")
    ended_at_ms: int | None = msgspec.field(name="ended_at")
    targets: dict[str, int]
    """Letters redriven, by target topic."""
    refused: tuple[RefusedLetter, ...]
    """The first hundred."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will change any more."""
        return self.ended_at_ms is not None


class _Letters(msgspec.Struct):
    total: int
    letters: list[dict[str, Any]]


class _Queues(msgspec.Struct):
    topics: list[DeadLetterQueue]


class _Redrives(msgspec.Struct):
    redrives: tuple[Redrive, ...]


class _Purged(msgspec.Struct):
    purged: int


class AsyncDeadLetters:
    """`client.dead_letters`."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    # --- Looking ---------------------------------------------------------------------------------

    async def queues(self) -> list[DeadLetterQueue]:
        """Every topic with a dead-letter topic, and how many letters are there."""
        return (await self._calls.get(_Queues, "/dlq")).topics

    async def list(
        self,
        topic: str,
        *,
        reason: str | None = None,
        group: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 100,
        skip: int = 0,
    ) -> list[DeadLetter]:
        """The dead letters of a topic that were not redriven, the oldest of each partition first.

        Args:
            topic: The topic that the messages were in before.
            reason: Only those that died of this.
            group: Only those of this group.
            since: Only those dead-lettered at this time or later.
            until: Only those dead-lettered before this time.
            limit: At most so many.
            skip: Leave out so many that match.
        """
        found = await self._calls.get(
            _Letters,
            "/topics/{}/dlq",
            topic,
            reason=reason,
            group=group,
            since=time_ms(since),
            until=time_ms(until),
            limit=limit,
            skip=skip,
        )
        return [message_of(DeadLetter, each, **_TEXTS) for each in found.letters]

    async def count(self, topic: str) -> int:
        """How many dead letters of a topic were not redriven."""
        return (await self._calls.get(_Letters, "/topics/{}/dlq", topic, limit=1)).total

    async def get(self, topic: str, partition: int, offset: int) -> WholeDeadLetter:
        """One dead letter with its value and headers, by its place in the dead-letter topic."""
        path = "/topics/{}/dlq/{}/{}"
        found = await self._calls.get(dict[str, Any], path, topic, partition, offset)
        return message_of(WholeDeadLetter, found, value="encoding", **_TEXTS)

    # --- Redriving -------------------------------------------------------------------------------

    async def redrive(
        self,
        topic: str,
        *,
        to: str | None = None,
        reason: str | None = None,
        group: str | None = None,
        key: Content = None,
        since: Moment | None = None,
        until: Moment | None = None,
        offsets: Mapping[int, Iterable[int]] | None = None,
        limit: int | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        to_source: bool = False,
        letters_in: str | None = None,
    ) -> Redrive:
        """Send dead letters to their topic again, or to another one.

        It runs in the broker; `progress` and `wait` say how far it is.

        Args:
            topic: The topic that the messages were in before.
            to: Another topic, instead of that one.
            reason: Only letters that died of this.
            group: Only those of this group.
            key: Only those with this key.
            since: Only those dead-lettered at this time or later.
            until: Only those dead-lettered before this time.
            offsets: Only these, by partition of the dead-letter topic.
            limit: At most so many.
            rate: So many a second.
            dry_run: Only count them.
            to_source: Each to the topic that its own headers name.
            letters_in: The topic that the letters are in, instead of the dead-letter topic.
        """
        chosen: dict[str, Any] = {
            "reason": reason,
            "group": group,
            "since": time_ms(since),
            "until": time_ms(until),
            "offsets": None if offsets is None else {n: [*each] for n, each in offsets.items()},
        }
        if key is not None:
            raw = key.encode() if isinstance(key, str) else key
            chosen |= {"key": base64.b64encode(raw).decode(), "key_encoding": "base64"}
        body = {
            "to": to,
            "filter": chosen,
            "limit": limit,
            "rate": rate,
            "dry_run": dry_run,
            "to_source": to_source,
            "letters_in": letters_in,
        }
        wait_s = _DRY_RUN_S if dry_run else 0.0
        path = "/topics/{}/dlq/redrive"
        return await self._calls.post(Redrive, path, topic, body=body, wait_s=wait_s)

    async def redrives(self) -> tuple[Redrive, ...]:
        """Redrives since the broker started, the newest last."""
        return (await self._calls.get(_Redrives, "/redrives")).redrives

    async def progress(self, redrive_id: int) -> Redrive:
        """How far a redrive is."""
        return await self._calls.get(Redrive, "/redrives/{}", redrive_id)

    async def wait(self, redrive_id: int) -> Redrive:
        """Wait for the end of a redrive."""
        while True:
            found = await self.progress(redrive_id)
            if found.is_over:
                return found
            await asyncio.sleep(_LOOK_S)

    async def cancel(self, redrive_id: int) -> Redrive:
        """End a redrive; what was redriven stays redriven."""
        return await self._calls.delete(Redrive, "/redrives/{}", redrive_id)

    async def purge(self, topic: str) -> int:
        """Delete all dead letters of a topic for good; says how many."""
        return (await self._calls.delete(_Purged, "/topics/{}/dlq", topic, confirm=True)).purged

"""Messages between the stream that brings them and the program that takes them.

The two may be in different threads: everything happens under one lock, and nothing waits under it.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import TYPE_CHECKING

from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from goqueue.client.types import Message


class Inbox:
    """What has come and was not taken, and how far the program is.

    A message that was taken is in hand until the next one is asked for; then it is finished. What
    is finished may be committed without asking; what is in hand only when the program says so.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._messages: deque[Message] = deque()
        self._in_hand: Message | None = None
        self._handed: dict[TopicPartition, int] = {}
        self._finished: dict[TopicPartition, int] = {}
        self._freed = 0

    def put(self, messages: Iterable[Message]) -> None:
        """Messages have come."""
        with self._lock:
            self._messages.extend(messages)

    def take(self) -> Message | None:
        """The next message; None when there is none. The one before is finished either way."""
        with self._lock:
            self._finish()
            if not self._messages:
                return None
            message = self._messages.popleft()
            self._freed += 1
            self._in_hand = message
            self._handed[TopicPartition(message.topic, message.partition)] = message.offset + 1
            return message

    def finish(self) -> None:
        """The message in hand is finished."""
        with self._lock:
            self._finish()

    def _finish(self) -> None:
        if self._in_hand is not None:
            place = TopicPartition(self._in_hand.topic, self._in_hand.partition)
            self._finished[place] = self._in_hand.offset + 1
            self._in_hand = None

    def has_freed(self, at_least: int) -> bool:
        """Whether so many messages have been taken or dropped since the last time."""
        return self._freed >= at_least

    def take_freed(self, at_least: int) -> int:
        """How many messages have been taken or dropped since the last time, if so many."""
        with self._lock:
            if self._freed < at_least:
                return 0
            freed, self._freed = self._freed, 0
            return freed

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Forget what has come of these partitions: somebody else will read it."""
        with self._lock:
            kept = [each for each in self._messages if (each.topic, each.partition) not in places]
            self._freed += len(self._messages) - len(kept)
            self._messages = deque(kept)

    def keep_only(self, places: Collection[TopicPartition]) -> None:
        """Forget how far the program is with partitions other than these."""
        with self._lock:
            for positions in (self._handed, self._finished):
                for place in positions.keys() - set(places):
                    del positions[place]

    def clear(self) -> None:
        """Drop the buffered messages; the next session delivers them again."""
        with self._lock:
            self._messages.clear()
            self._freed = 0

    def holds_any(self, places: Collection[TopicPartition]) -> bool:
        """Whether the message in hand is of one of these partitions."""
        with self._lock:
            held = self._in_hand
            return held is not None and (held.topic, held.partition) in places

    def positions(self, *, finished_only: bool) -> dict[TopicPartition, int]:
        """The next offset of each partition, with or without the message in hand."""
        with self._lock:
            return dict(self._finished if finished_only else self._handed)

"""Messages between the fetcher that brings them and the program that takes them.

The program takes messages from `rows`, an iterator over a list, which costs it nothing else: how
far it is follows from how much is left in the iterator. Only when that is empty does it call
`advance`, once a chunk. The two sides may be in different threads: everything else happens under
one lock, and nothing waits under it. Taking from the iterator of a list, and emptying it, are each
one step for the interpreter.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from operator import length_hint
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from goqueue.client.consuming.decoding import Chunk
    from goqueue.client.types import Message
    from goqueue.model.topic_partition import TopicPartition

PREFETCH_BYTES: Final = 4 * 1024 * 1024
"""What waits to be taken; at the bound, nothing more is fetched."""


class _Hand:
    """The chunk that the program takes from."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.messages: list[Message] = list(chunk.content)
        self.rows = iter(self.messages)
        self._cut: int | None = None
        """How many were taken when the rest was dropped."""
        self.batch = (0, 0)
        """The first message of the batch that was taken last, and the first after it."""

    @property
    def taken(self) -> int:
        """How many messages the program has taken."""
        if self._cut is not None:
            return self._cut
        return len(self.messages) - length_hint(self.rows)

    def cut(self) -> None:
        """Drop what was not taken; another thread may be taking at this moment."""
        dropped = len(list(self.rows))
        if self._cut is None:
            self._cut = len(self.messages) - dropped

    def handed(self) -> int | None:
        """The offset after the last message that was taken; None when none was."""
        taken = self.taken
        if taken == len(self.messages):
            return self.chunk.next_offset
        return self.messages[taken - 1].offset + 1 if taken else None

    def finished(self) -> int | None:
        """The offset of the first message in hand; None when nothing before it was taken."""
        taken = self.taken
        first = self.batch[0] if self.batch[1] == taken else taken - 1
        return self.messages[first].offset if first > 0 else None


class Inbox:
    """What has come and was not taken, and how far the program is.

    What was taken last is in hand until more is asked for; then it is finished. What is finished
    may be committed without asking; what is in hand only when the program says so.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        """Make an empty one; `tell` is called when something has come, or never will."""
        self._tell = tell
        self._lock = Lock()
        self._chunks: deque[Chunk] = deque()
        self._bytes = 0
        self._hand: _Hand | None = None
        self._done: dict[TopicPartition, int] = {}
        """The next offset of each partition, without the chunk in hand."""
        self.rows: Iterator[Message] = iter(())
        """The messages that may be taken at once."""
        self.failure: Exception | None = None
        """Why nothing more comes."""

    @property
    def has_room(self) -> bool:
        """Whether more may be fetched."""
        return self._bytes < PREFETCH_BYTES

    def put(self, chunk: Chunk) -> None:
        """Messages have come."""
        with self._lock:
            self._chunks.append(chunk)
            self._bytes += chunk.size_bytes
        self._tell()

    def fail(self, error: Exception) -> None:
        """Nothing more comes."""
        self.failure = self.failure or error
        self._tell()

    # --- The program's side -----------------------------------------------------------------------

    def advance(self) -> bool:
        """More is asked for: whether there is some in `rows`. What was in hand is finished."""
        with self._lock:
            if self._hand is not None and length_hint(self._hand.rows):
                return True  # another thread has advanced
            self._finish()
            while self._chunks:
                chunk = self._chunks.popleft()
                self._bytes -= chunk.size_bytes
                if chunk.count:
                    self._hand = _Hand(chunk)
                    self.rows = self._hand.rows
                    return True
                self._done[chunk.place] = chunk.next_offset
            return False

    def take_batch(self, size: int) -> list[Message]:
        """Up to so many messages of those in `rows`; all of them are in hand then."""
        with self._lock:
            hand = self._hand
            if hand is None:
                return []
            batch = list(islice(hand.rows, size))
            end = hand.taken
            hand.batch = (end - len(batch), end)
            return batch

    def finish(self) -> None:
        """What is in hand is finished, and nothing more will be taken of its chunk."""
        with self._lock:
            if self._hand is not None:
                self._hand.cut()
            self._finish()

    def _finish(self) -> None:
        if self._hand is not None:
            handed = self._hand.handed()
            if handed is not None:
                self._done[self._hand.chunk.place] = handed
            self._hand = None

    # --- The fetcher's side -----------------------------------------------------------------------

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Forget what has come of these partitions: somebody else will read it."""
        with self._lock:
            self._chunks = deque(each for each in self._chunks if each.place not in places)
            self._bytes = sum(each.size_bytes for each in self._chunks)
            if self._hand is not None and self._hand.chunk.place in places:
                self._hand.cut()

    def keep_only(self, places: Collection[TopicPartition]) -> None:
        """Forget how far the program is with partitions other than these."""
        with self._lock:
            self._done = {place: at for place, at in self._done.items() if place in places}
            if self._hand is not None and self._hand.chunk.place not in places:
                self._hand.cut()
                self._hand = None

    def clear(self) -> None:
        """Drop what has come; how far the program is stays known."""
        with self._lock:
            self._chunks.clear()
            self._bytes = 0
            if self._hand is not None:
                self._hand.cut()

    def holds_any(self, places: Collection[TopicPartition]) -> bool:
        """Whether a message in hand is of one of these partitions."""
        with self._lock:
            hand = self._hand
            return hand is not None and hand.chunk.place in places and hand.taken > 0

    def positions(self, *, finished_only: bool) -> dict[TopicPartition, int]:
        """The next offset of each partition, with or without what is in hand."""
        with self._lock:
            found = dict(self._done)
            if self._hand is not None:
                at = self._hand.finished() if finished_only else self._hand.handed()
                if at is not None:
                    found[self._hand.chunk.place] = at
            return found

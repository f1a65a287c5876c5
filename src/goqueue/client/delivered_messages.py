"""Messages that a queue group has handed to this client.

They come in columns and stay in them: a message is a place in a run, and nothing is made of it
before somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.model.delivery import Priority

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

NO_HEADERS: Final[tuple[tuple[str, bytes | None], ...]] = ()


class Run(NamedTuple):
    """Messages of one partition and one priority, column by column."""

    session: int
    """Of the stream that brought them; their numbers mean nothing to another one."""
    first_id: int
    topic: str
    partition: int
    priority: int
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    values: Sequence[bytes]
    keys: Sequence[bytes]
    without_value: frozenset[int]
    without_key: frozenset[int]
    headers: dict[int, tuple[tuple[str, bytes | None], ...]]
    counts: Sequence[int]
    nonces: Sequence[int]

    @classmethod
    def of(cls, columns: pb.MessageColumns, session: int) -> Run:
        """A run as it came."""
        return cls(
            session,
            columns.first_delivery_id,
            columns.topic,
            columns.partition,
            columns.priority - 1,
            list(columns.offsets),
            list(columns.timestamps_ms),
            list(columns.values),
            list(columns.keys),
            frozenset(columns.without_value),
            frozenset(columns.without_key),
            {each.place: _headers(each) for each in columns.headers},
            list(columns.delivery_counts),
            list(columns.nonces),
        )


def _headers(at: pb.HeadersAt) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each.name, each.value if each.HasField("value") else None) for each in at.headers)


class Delivered:
    """One message, handed to this client for a while."""

    __slots__ = ("_at", "_owner", "_run", "is_settled")

    def __init__(self, owner: Any, run: Run, at: int) -> None:
        self._owner = owner
        self._run = run
        self._at = at
        self.is_settled = False
        """Whether the program has said what became of it."""

    @property
    def topic(self) -> str:
        """Where it was published."""
        return self._run.topic

    @property
    def partition(self) -> int:
        """The partition of the topic."""
        return self._run.partition

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        return self._run.offsets[self._at]

    @property
    def timestamp_ms(self) -> int:
        """When it was published; of a delayed one, when it was due."""
        return self._run.timestamps_ms[self._at]

    @property
    def value(self) -> bytes | None:
        """What it says; None is a tombstone."""
        value = self._run.values[self._at]
        return None if not value and self._at in self._run.without_value else value

    @property
    def key(self) -> bytes | None:
        """Its key, if it has one."""
        run = self._run
        return None if not run.keys or self._at in run.without_key else run.keys[self._at]

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """Its headers in their order."""
        return self._run.headers.get(self._at, NO_HEADERS)

    @property
    def priority(self) -> Priority:
        """How urgent it is."""
        return Priority(self._run.priority)

    @property
    def delivery_count(self) -> int:
        """How often it was delivered to the group: 1 is the first time."""
        counts = self._run.counts
        return counts[self._at] if counts else 1

    @property
    def receipt_handle(self) -> str:
        """With it anybody may settle the message, also elsewhere; see `AsyncClient.receipts`."""
        run, nonce = self._run, self._run.nonces[self._at]
        return f"{run.topic}:{run.partition}:{self.offset}:{self.delivery_count}:{nonce:016x}"

    @property
    def delivery_id(self) -> int:
        """Its number on the stream that brought it."""
        return self._run.first_id + self._at

    @property
    def session(self) -> int:
        """Which of the client's streams brought it."""
        return self._run.session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.receipt_handle}>"

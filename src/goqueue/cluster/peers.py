"""What a node asks of another; `goqueue.server.cluster.peers` does it over internal listeners."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Sequence

    from goqueue.model.errors import GoQueueError
    from goqueue.wire.kafka.api_keys import ApiKey
    from goqueue.wire.kafka.primitives import Buffer
    from goqueue.wire.kafka.reading import Struct
    from goqueue.wire.kafka.replica_fetch import ReplicaFetch, ReplicaFetched


Room: TypeAlias = "Callable[[int, Callable[[], None]], bool]"
"""Counts so many bytes; false when it calls back once it has. See `goqueue.runtime.byte_room`."""


class Lane(Enum):
    """What a connection is for. One lane never waits for another."""

    LIVE = "live"
    """Partitions that have about everything that their leader has."""
    SYNCED = "synced"
    """Those of topics with `fsync=always`: each answer waits for a disk."""
    CATCH_UP = "catch-up"
    """Those that miss more than one answer holds."""
    CALLS = "calls"
    """Everything that is asked once."""


class ReplicaLink(Protocol):
    """A connection to the leader of partitions, and the fetch session on it."""

    def fetch(
        self, request: ReplicaFetch, answered: Callable[[ReplicaFetched | GoQueueError], None]
    ) -> None:
        """Send a request now, and call back with its answer or with why there is none.

        Answers come in order; a second request ends the wait of the first. After
        `PeerUnavailableError` the connection is lost, and the session with it.
        """

    def close(self) -> None:
        """Hang up; what was asked and not answered fails."""


class PeerConnection(Protocol):
    """A connection to a node that one caller has for itself: its requests stay in order."""

    is_open: bool

    async def ask(
        self,
        api: ApiKey,
        version: int,
        /,
        wait_s: float = 0.0,
        room: Room | None = None,
        **fields: Any,
    ) -> Struct:
        """Ask one thing. Raises `ConnectionLostError` of the client."""

    def exchange(
        self, api: ApiKey, version: int, body: Sequence[Buffer], wait_s: float = 0.0
    ) -> Future[memoryview]:
        """Send a request whose body is encoded already; the future is the frame of the answer.

        Several may be under way; whether they are served side by side is for the API to say.
        """

    def parse(self, answer: memoryview, api: ApiKey, version: int) -> Struct:
        """What an answer says."""

    def close(self) -> None:
        """Hang up; what was asked and not answered fails."""


class Peers(Protocol):
    """The other nodes of the cluster."""

    async def open(self, node_id: int, lane: Lane) -> ReplicaLink:
        """A new connection to a node, proven on both sides.

        Raises:
            PeerUnavailableError: it cannot be reached, or is not registered.
            ClusterMismatchError, StaleNodeError, AuthenticationFailedError: one of the two has no
                business with the other.
        """

    async def ask(
        self,
        node_id: int,
        api: ApiKey,
        version: int,
        /,
        wait_s: float = 0.0,
        room: Room | None = None,
        **fields: Any,
    ) -> Struct:
        """Ask a node one thing, on a connection that nobody else uses meanwhile.

        `wait_s` is how long the request lets the answer wait. An answer that comes in parts is read
        on when `room` has counted its bytes, or has called back. Raises like `open`, and
        `PeerUnavailableError` when the connection is lost before the answer is there: then nobody
        knows whether the request was served.
        """

    async def dial(self, node_id: int) -> PeerConnection:
        """A connection for requests that have to stay in order. Raises like `open`."""

"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what has changed.

The server remembers the partitions of a session and answers only for those that have something
new. The epoch of a session grows with each request, so that an answer that got lost is noticed: the
client sees the error and starts over with a full request.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.tuples import NamedTuple
from goqueue.protocols.kafka.errors import (
    FetchSessionNotFoundError,
    InvalidFetchSessionEpochError,
)
from goqueue.wire.kafka.fetch import FetchPartition

if TYPE_CHECKING:
    from uuid import UUID

    from goqueue.wire.kafka.fetch import FetchRequest

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1

MAX_SESSIONS: Final = 1000
"""`max.incremental.fetch.session.cache.slots`; beyond it the one unused longest is forgotten, and
its client starts over."""

MAX_PLACES: Final = 100_000
"""Partitions in all sessions together, whether they exist or not; beyond it likewise. A session
that has more by itself is not remembered: its client names everything every time."""

_LARGEST: Final = (1 << 31) - 1


class Place(NamedTuple):
    """A partition as the client names it: by id from version 13 on, by name before."""

    name: str | None
    topic_id: UUID | None
    partition: int


class Wanted(msgspec.Struct):
    """What a session reads of one partition, and what it was last told about it."""

    read: FetchPartition
    told: tuple[int, int, int] | None = None
    """The watermarks in the last answer: a change of one of them is worth a new answer."""


class FetchSession(msgspec.Struct):
    """The partitions of one consumer, in the order in which they are served next."""

    session_id: int
    epoch: int
    wanted: OrderedDict[Place, Wanted] = msgspec.field(default_factory=OrderedDict)

    @property
    def is_incremental(self) -> bool:
        """Whether answers leave out what has not changed."""
        return self.epoch > INITIAL_EPOCH

    def update(self, request: FetchRequest) -> None:
        """Take in what a request adds, changes and drops."""
        for topic in request.topics:
            for read in topic.partitions:
                place = Place(topic.name, topic.topic_id, read.partition)
                known = self.wanted.get(place)
                if known is None:
                    self.wanted[place] = Wanted(read)
                else:
                    known.read = read
        for forgotten in request.forgotten:
            for number in forgotten.partitions:
                self.wanted.pop(Place(forgotten.name, forgotten.topic_id, number), None)

    def served(self, place: Place) -> None:
        """Put a partition that has just had its turn behind the others."""
        if place in self.wanted:
            self.wanted.move_to_end(place)


class FetchSessions:
    """Every session of this broker."""

    def __init__(self, max_sessions: int = MAX_SESSIONS, max_places: int = MAX_PLACES) -> None:
        self._max_sessions = max_sessions
        self._max_places = max_places
        self._place_count = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(self, request: FetchRequest) -> FetchSession:
        """The session that a request belongs to, with what it says taken in.

        Raises:
            FetchSessionNotFoundError, InvalidFetchSessionEpochError: start a new one.
        """
        if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            self._forget(request.session_id)
            session = FetchSession(NO_SESSION, request.session_epoch)
        else:
            session = self._known(request)
            self._forget(session.session_id)
        session.update(request)
        if request.session_epoch != FINAL_EPOCH:
            self._remember(session)
        return session

    def _remember(self, session: FetchSession) -> None:
        """Put a session behind the others, and forget the first ones if there are too many."""
        size = len(session.wanted)
        if size > self._max_places:
            session.session_id = NO_SESSION
            return
        while session.session_id == NO_SESSION or session.session_id in self._sessions:
            session.session_id = secrets.randbelow(_LARGEST) + 1
        while self._sessions and (
            len(self._sessions) >= self._max_sessions or self._place_count + size > self._max_places
        ):
            self._forget(next(iter(self._sessions)))
        self._sessions[session.session_id] = session
        self._place_count += size

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._place_count -= len(session.wanted)

    def _known(self, request: FetchRequest) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionNotFoundError(f"there is no fetch session {request.session_id}")
        expected = 1 if session.epoch == _LARGEST else session.epoch + 1
        if request.session_epoch != expected:
            raise InvalidFetchSessionEpochError(
                f"fetch session {request.session_id} is at epoch {session.epoch}, the request says "
                f"{request.session_epoch}, expected {expected}"
            )
        session.epoch = expected
        return session

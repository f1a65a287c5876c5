"""Share sessions: a share consumer names its partitions once, then only what has changed.

One for each member of a group. Its epoch grows with each request, so that one that got lost, or
came twice, is noticed: the consumer hears of it and opens the session anew.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from goqueue.model.errors import InvalidShareSessionEpochError, ShareSessionNotFoundError
from goqueue.model.topic_partition import TopicIdPartition
from goqueue.protocols.kafka.errors import ShareSessionLimitError
from goqueue.protocols.kafka.limits import MAX_SHARE_SESSION_PARTITIONS, MAX_SHARE_SESSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.wire.kafka.reading import Struct

    SessionKey: TypeAlias = tuple[str, str]
    """A group and a member of it."""

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1


_LARGEST: Final = (1 << 31) - 1
_CLOSED_PART: Final = 10
"""Where nobody here knows who is a member, one in so many sessions makes room for others."""


class ShareSession(msgspec.Struct):
    """What one member reads."""

    epoch: int = 1
    """Of its next request."""
    places: dict[TopicIdPartition, None] = msgspec.field(default_factory=dict)

    def advance(self, epoch: int) -> None:
        """Take the next request.

        Raises:
            InvalidShareSessionEpochError: this is another one.
        """
        if epoch != self.epoch:
            raise InvalidShareSessionEpochError(
                f"the share session expects epoch {self.epoch}, the request says {epoch}"
            )
        self.epoch = 1 if epoch == _LARGEST else epoch + 1


class ShareSessions:
    """Every share session of this broker."""

    def __init__(
        self,
        is_member: Callable[[str, str], bool] | None,
        max_sessions: int = MAX_SHARE_SESSIONS,
        max_places: int = MAX_SHARE_SESSION_PARTITIONS,
    ) -> None:
        """Keep sessions; `is_member` tells, by group and member, whose are still of use.

        None: other nodes know that. Where there are too many, those that were not used for the
        longest time are closed, and opened anew by members that are still there.
        """
        self._is_member = is_member
        self._max_sessions = max_sessions
        self._max_places = max_places
        self._place_count = 0
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __contains__(self, key: SessionKey) -> bool:
        return key in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(self, key: SessionKey, request: Struct) -> ShareSession:
        """The session of a ShareFetch request, opened by it or known, with what it says taken in.

        Raises:
            ShareSessionNotFoundError, InvalidShareSessionEpochError: open it anew.
            ShareSessionLimitError: there are too many.
        """
        if request.share_session_epoch == INITIAL_EPOCH:
            session = self._open(key)
        else:
            session = self._known(key)
            session.advance(request.share_session_epoch)
        before = len(session.places)
        for topic in request.topics:
            for each in topic.partitions:
                session.places[topic.topic_id, each.partition_index] = None
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                session.places.pop((forgotten.topic_id, number), None)
        self._place_count += len(session.places) - before
        if self._place_count > self._max_places:
            self._forget(each for each in self._useless() if each != key)
        if self._place_count > self._max_places:
            self._forget([key])
            raise ShareSessionLimitError(f"there are {self._max_places} partitions in sessions")
        return session

    def advance(self, key: SessionKey, epoch: int) -> None:
        """Take a request that opens nothing: ShareAcknowledge. Raises like `resume`."""
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpochError("a share session is opened by ShareFetch")
        self._known(key).advance(epoch)

    def close(self, key: SessionKey) -> list[TopicIdPartition]:
        """End a session; returns what its member has read.

        Raises:
            ShareSessionNotFoundError: there is none.
        """
        session = self._known(key)
        self._forget([key])
        return list(session.places)

    def _known(self, key: SessionKey) -> ShareSession:
        session = self._sessions.pop(key, None)
        if session is None:
            raise ShareSessionNotFoundError(f"member {key[1]!r} has no share session here")
        self._sessions[key] = session  # used last
        return session

    def _open(self, key: SessionKey) -> ShareSession:
        self._forget([key])
        if len(self._sessions) >= self._max_sessions:
            self._forget(self._useless())
        if len(self._sessions) >= self._max_sessions:
            raise ShareSessionLimitError(f"there are {self._max_sessions} share sessions")
        session = self._sessions[key] = ShareSession()
        return session

    def _useless(self) -> list[SessionKey]:
        if self._is_member is None:
            return list(islice(self._sessions, max(len(self._sessions) // _CLOSED_PART, 1)))
        return [key for key in self._sessions if not self._is_member(*key)]

    def _forget(self, keys: Iterable[SessionKey]) -> None:
        for key in keys:
            session = self._sessions.pop(key, None)
            if session is not None:
                self._place_count -= len(session.places)

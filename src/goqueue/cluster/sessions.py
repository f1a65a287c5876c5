"""Which sessions are alive: deadlines only, driven by whoever knows the time."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.cluster.metadata import SessionId
from goqueue.model.errors import InvalidMetadataRequestError, SessionLapsedError
from goqueue.model.limits import MAX_METADATA_SESSIONS


@dataclass(slots=True)
class _Session:
    ttl_s: float
    deadline_s: float


class Sessions:
    """A session is over from its deadline on, also before anybody has tidied up after it."""

    def __init__(self) -> None:
        self._sessions: dict[SessionId, _Session] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, ttl_ms: int, now_s: float) -> SessionId:
        """Start one."""
        if ttl_ms <= 0:
            raise InvalidMetadataRequestError(f"a session of {ttl_ms} ms, expected more than 0")
        if len(self._sessions) >= MAX_METADATA_SESSIONS:
            raise InvalidMetadataRequestError(
                f"{MAX_METADATA_SESSIONS} sessions are open, as many as may be: end some first"
            )
        self._last_id += 1
        session = SessionId(self._last_id)
        self._sessions[session] = _Session(ttl_ms / 1000, now_s + ttl_ms / 1000)
        return session

    def require(self, session: SessionId, now_s: float) -> None:
        """Raise `SessionLapsedError` unless the session is alive."""
        found = self._sessions.get(session)
        if found is None or found.deadline_s <= now_s:
            raise SessionLapsedError(f"session {session} has ended: open another one")

    def keep_alive(self, session: SessionId, now_s: float) -> None:
        """Move the deadline of a session that is alive."""
        self.require(session, now_s)
        found = self._sessions[session]
        found.deadline_s = now_s + found.ttl_s

    def due(self, now_s: float) -> list[SessionId]:
        """The sessions that are over and whose keys are still to be removed, then `forget`."""
        return [name for name, found in self._sessions.items() if found.deadline_s <= now_s]

    def lapse(self, session: SessionId, now_s: float) -> None:
        """Bring the deadline forward to now."""
        found = self._sessions.get(session)
        if found is not None:
            found.deadline_s = min(found.deadline_s, now_s)

    def forget(self, session: SessionId) -> None:
        """The session's keys are gone."""
        self._sessions.pop(session, None)

    def next_deadline_s(self) -> float | None:
        """When the next session is over, if nobody speaks for it."""
        return min((found.deadline_s for found in self._sessions.values()), default=None)

"""Fetch between nodes: where the replicas of a follower are, and the batches behind that.

Only on the internal listener, behind Hello: a fetch acknowledges, so whoever could pose as a
follower could commit what nobody has. Requests are pipelined: one that waits here is answered when
the next arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import GoQueueError, StaleNodeError
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.wire.kafka import fetch as wire
from goqueue.wire.kafka.replica_fetch import VERSION

if TYPE_CHECKING:
    import asyncio

    from goqueue.partitions.replication.feed import FeedSession, ReplicaFeed
    from goqueue.protocols.kafka.context import RequestContext, Session
    from goqueue.wire.kafka.error_codes import ErrorCode
    from goqueue.wire.kafka.frames import Encoded, Response


def _refused(ctx: RequestContext, _request: wire.FetchRequest, code: ErrorCode) -> Response:
    return wire.encode_response(ctx.version, (), error_code=code)


class ReplicaFetchApi:
    """Serves the followers of what this node leads."""

    def __init__(self, feed: ReplicaFeed) -> None:
        self._feed = feed
        self._sessions: dict[Session, FeedSession] = {}
        """One for each connection that fetches."""

    @api(ApiKey.FETCH, long_poll=True, pipelined=True, parse=wire.parse_request, on_error=_refused)
    def fetch(
        self, ctx: RequestContext, request: wire.FetchRequest
    ) -> Encoded | asyncio.Future[Encoded]:
        """Take in what a follower has, and answer with what it lacks."""
        if ctx.version != VERSION:
            raise _OtherVersionError(f"replicas fetch by version {VERSION}, not {ctx.version}")
        return self._session(ctx, request).fetch(request)

    def _session(self, ctx: RequestContext, request: wire.FetchRequest) -> FeedSession:
        connection = ctx.peer.session
        asked = request.replica_id, request.replica_epoch
        if connection.node != asked:
            raise StaleNodeError(
                f"replica {asked[0]} of incarnation {asked[1]} fetches on a connection of "
                f"{connection.node}: connect anew"
            )
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = self._feed.open(*asked)
            connection.on_lost[self] = lambda: self._lost(connection)
        return session

    def _lost(self, connection: Session) -> None:
        session = self._sessions.pop(connection, None)
        if session is not None:
            session.close()


class _OtherVersionError(GoQueueError):
    """A Fetch that is not a replica's."""

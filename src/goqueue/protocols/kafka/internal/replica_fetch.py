"""Fetch between nodes: where the replicas of a follower are, and the batches behind that.

Only on the internal listener, behind Hello: a fetch acknowledges, so whoever could pose as a
follower could commit what nobody has. Requests are pipelined: one that waits here is answered when
the next arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError, StaleNodeError
from goqueue.protocols.kafka.context import RequestContext
from goqueue.protocols.kafka.errors import UnsupportedRequestError
from goqueue.protocols.kafka.registry import ApiKey, Waiting, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.wire.kafka.errors import RequestError
from goqueue.wire.kafka.frames import Encoded, RequestPrefix, assemble
from goqueue.wire.kafka.replica_fetch import VERSION, encode_response, parse_request

if TYPE_CHECKING:
    from goqueue.partitions.replication.feed import ReplicaFeed
    from goqueue.partitions.replication.feed_session import FeedSession
    from goqueue.protocols.kafka.context import Peer, Session
    from goqueue.wire.kafka.error_codes import ErrorCode
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.primitives import Buffer, Cursor
    from goqueue.wire.kafka.replica_fetch import ReplicaFetch
    from goqueue.wire.kafka.replies import Reply

_CLIENT_ID_AT: Final = 8
"""Behind the API, its version and the number of the request."""


def _parse(cursor: Cursor, version: int) -> ReplicaFetch:
    if version != VERSION:
        raise UnsupportedRequestError(f"replicas fetch by version {VERSION}, not {version}")
    return parse_request(cursor.buffer, cursor.position)


def _refused(_ctx: RequestContext, _request: ReplicaFetch, code: ErrorCode) -> Response:
    return encode_response((), code)


class ReplicaFetchApi:
    """Serves the followers of what this node leads."""

    def __init__(self, feed: ReplicaFeed) -> None:
        self._feed = feed
        self._sessions: dict[Session, FeedSession] = {}
        """One for each connection that fetches."""

    def fetch_plain(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> list[Buffer] | Waiting | None:
        """`fetch`, from the frame to the frame of the answer."""
        if version != VERSION:
            return None
        self._feed.traffic.received.add(len(frame))
        client_id_bytes = int.from_bytes(frame[_CLIENT_ID_AT : _CLIENT_ID_AT + 2], "big")
        body_at = _CLIENT_ID_AT + 2 + client_id_bytes + 1
        try:
            request = parse_request(frame, body_at)
            answer = self._session(peer.session, request).fetch(request)
        except (RequestError, GoQueueError):
            return None  # nothing was changed, and whoever reads it again says why
        if isinstance(answer, Encoded):
            return assemble(correlation_id, answer.parts, flexible=True)
        prefix = RequestPrefix(ApiKey.FETCH, version, correlation_id)
        return Waiting(RequestContext(prefix, None, peer), answer, request)

    @api(
        ApiKey.FETCH,
        right=NODES,
        long_poll=True,
        pipelined=True,
        parse=_parse,
        on_error=_refused,
        straight=fetch_plain,
    )
    def fetch(self, ctx: RequestContext, request: ReplicaFetch) -> Encoded | Reply[Encoded]:
        """Take in what a follower has, and answer with what it lacks."""
        return self._session(ctx.peer.session, request).fetch(request)

    def _session(self, connection: Session, request: ReplicaFetch) -> FeedSession:
        asked = request.node_id, request.incarnation
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

"""CallGrpc, an API between nodes: a call of gRPC that another node has to answer.

One without a stream is one request. A stream has a connection of its own, and every request on it
is a turn: what the client has sent since the last one, and back what there is for it. The services
of gRPC are handed in; this package does not know them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from goqueue.access.principals import Principal
from goqueue.model.errors import PeerUnavailableError, PeerVersionError
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.protocols.kafka.context import RequestContext, Response, Session
    from goqueue.wire.kafka.reading import Struct

    class GrpcStream(Protocol):
        """A stream under way."""

        async def turn(self, messages: Sequence[bytes], *, is_last: bool) -> GrpcAnswer:
            """Hand over what the client has sent, and bring back what there is for it."""

        def close(self) -> None:
            """The client is gone."""

    class GrpcCalls(Protocol):
        """The services of gRPC, for calls that other nodes bring."""

        def is_stream(self, method: str) -> bool:
            """Whether a method is answered in turns. Raises `PeerVersionError` if there is none."""

        async def unary(
            self, method: str, request: bytes, client: Client, sender: int
        ) -> GrpcAnswer:
            """The whole answer to a call that the node `sender` has forwarded."""

        def stream(self, method: str, client: Client, sender: int) -> GrpcStream:
            """A stream that begins now."""


class Client(NamedTuple):
    """Who has called the other node."""

    peer: str
    """Its address, as gRPC writes it."""
    principal: Principal


class GrpcAnswer(NamedTuple):
    """What a call or a turn of a stream brings back."""

    messages: Sequence[bytes]
    is_ended: bool = False
    status: int = 0
    """gRPC's number of it."""
    details: str = ""
    trailers: Sequence[tuple[str, bytes]] = ()


_UNIMPLEMENTED: Final = 12
_UNAVAILABLE: Final = 14
"""gRPC's statuses for a method that a server does not have, and for what may be tried again."""


class GrpcCallsApi:
    """Hands calls of other nodes to the services of gRPC."""

    def __init__(self, calls: Callable[[], GrpcCalls]) -> None:
        """`calls` raises a retriable error before they are there."""
        self._find_calls = calls
        self._streams: dict[Session, GrpcStream] = {}
        """One for each connection that carries one."""

    @api(ApiKey.CALL_GRPC, 0, 0, right=NODES, pipelined=True)
    async def call_grpc(self, ctx: RequestContext, request: Struct) -> Response:
        """Answer a call, or the next turn of a stream."""
        try:
            return _told(await self._answer(ctx, request))
        except PeerVersionError as error:
            return _told(GrpcAnswer((), is_ended=True, status=_UNIMPLEMENTED, details=str(error)))
        except PeerUnavailableError as error:
            return _told(GrpcAnswer((), is_ended=True, status=_UNAVAILABLE, details=str(error)))

    async def _answer(self, ctx: RequestContext, request: Struct) -> GrpcAnswer:
        session, calls = ctx.peer.session, self._find_calls()
        assert session.node is not None  # or nothing but Hello is served
        sender = session.node.node_id
        messages = [bytes(each.data) for each in request.messages]
        stream = self._streams.get(session)
        if stream is None:
            if not calls.is_stream(request.method):
                return await calls.unary(request.method, messages[0], _client(request), sender)
            stream = calls.stream(request.method, _client(request), sender)
            self._streams[session] = stream
            session.on_lost[self] = lambda: self._lost(session)
        ctx.is_long_poll = True
        answer = await stream.turn(messages, is_last=request.is_last)
        if answer.is_ended:
            self._streams.pop(session, None)
            session.on_lost.pop(self, None)
        return answer

    def _lost(self, session: Session) -> None:
        stream = self._streams.pop(session, None)
        if stream is not None:
            stream.close()


def _client(request: Struct) -> Client:
    return Client(request.client, msgspec.json.decode(request.principal, type=Principal))


def _told(answer: GrpcAnswer) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "is_ended": answer.is_ended,
        "status": answer.status,
        "details": answer.details,
        "trailers": [{"name": name, "value": value} for name, value in answer.trailers],
        "messages": [{"data": each} for each in answer.messages],
    }

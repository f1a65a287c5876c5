"""Hello: the first request on a connection between nodes; nothing else is served before it.

The caller says who it is and sends a nonce; the answer holds the listener's. The second Hello
carries the caller's proof over both, and its answer the listener's. Either side may hang up at any
point, and then has told the other nothing but names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.access.principals import Principal, PrincipalKind
from goqueue.cluster.hello import (
    CALLER,
    LISTENER,
    NONCE_BYTES,
    Greeting,
    check_cluster,
    greeting_of,
    is_proven,
    proof,
)
from goqueue.model.errors import (
    AuthenticationFailedError,
    ClusterMismatchError,
    GoQueueError,
    StaleNodeError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.kafka.context import Node
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cluster.hello import NodeIdentity
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.wire.kafka.reading import Struct

_NO_NONCE: Final = Greeting("", -1, 0, 0, b"")


class _Exchange(NamedTuple):
    """What `Session.sasl` holds between the two requests."""

    caller: Greeting
    mine: Greeting


class HelloApi:
    """Lets the nodes of this cluster in, and nobody else."""

    def __init__(self, identity: NodeIdentity, registered: Callable[[int], int | None]) -> None:
        """Prove who this node is; `registered` is the incarnation of a node that is known here."""
        self._identity = identity
        self._registered = registered

    @api(ApiKey.HELLO, 0, 0, right=ANYONE)
    def hello(self, ctx: RequestContext, request: Struct) -> Response:
        """One of the two requests of a greeting."""
        try:
            return self._greet(ctx, request)
        except GoQueueError as error:
            # Answered here and not by the dispatcher: the caller is told the whole sentence.
            ctx.peer.refuse(str(error))
            return _answer(_NO_NONCE, code=code_for(error), text=str(error))

    def _greet(self, ctx: RequestContext, request: Struct) -> dict[str, Any]:
        session = ctx.peer.session
        caller = Greeting(
            request.cluster_id,
            request.node_id,
            request.incarnation,
            request.level,
            bytes(request.nonce),
        )
        if session.authenticated:
            raise ClusterMismatchError(f"node {caller.node_id} greets twice on one connection")
        if not request.proof:
            self._check(caller)
            mine = greeting_of(self._identity)
            session.sasl = _Exchange(caller, mine)
            return _answer(mine)
        exchange, session.sasl = session.sasl, None
        if not isinstance(exchange, _Exchange) or exchange.caller != caller:
            raise AuthenticationFailedError(
                f"node {caller.node_id} sends a proof for a greeting that was not made"
            )
        secret, mine = self._identity.secret, exchange.mine
        if not is_proven(bytes(request.proof), secret, CALLER, caller, mine):
            raise AuthenticationFailedError(
                f"node {caller.node_id} has another secret than node {mine.node_id} of cluster "
                f"{mine.cluster_id!r}: all nodes need the same `cluster.secret_file`"
            )
        self._check_incarnation(caller)
        principal = Principal(str(caller.node_id), PrincipalKind.NODE)
        session.authenticate_node(Node(caller.node_id, caller.incarnation), principal)
        return _answer(mine, proof(secret, LISTENER, caller, mine))

    def _check(self, caller: Greeting) -> None:
        identity = self._identity
        check_cluster(identity.cluster_id, caller.cluster_id, f"node {caller.node_id}")
        if len(caller.nonce) != NONCE_BYTES:
            raise AuthenticationFailedError(
                f"a nonce of {len(caller.nonce)} bytes, expected {NONCE_BYTES}"
            )
        if caller.node_id == identity.node_id:
            raise ClusterMismatchError(
                f"a second node calls itself {caller.node_id}, as this one does: give each node "
                "an id of its own"
            )

    def _check_incarnation(self, caller: Greeting) -> None:
        """A run of a node that was followed by another is over. The view may lag, never lead."""
        known = self._registered(caller.node_id)
        if known is not None and caller.incarnation < known:
            raise StaleNodeError(
                f"node {caller.node_id} says incarnation {caller.incarnation} and is registered "
                f"as {known}: another run of it has replaced this one, which has to stop"
            )


def _answer(
    mine: Greeting, given: bytes = b"", *, code: ErrorCode = ErrorCode.none, text: str = ""
) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": text,
        "cluster_id": mine.cluster_id,
        "node_id": mine.node_id,
        "incarnation": mine.incarnation,
        "level": mine.level,
        "nonce": mine.nonce,
        "proof": given,
    }

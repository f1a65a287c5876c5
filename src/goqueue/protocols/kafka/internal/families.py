"""The handlers of the internal listener, and how that listener is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.protocols.kafka.internal.hello import HelloApi
from goqueue.protocols.kafka.registry import ApiKey, Registry
from goqueue.protocols.kafka.settings import ListenerSettings
from goqueue.wire.kafka.replica_fetch import VERSION as REPLICA_FETCH_VERSION

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from goqueue.cluster.hello import NodeIdentity

LISTENER_NAME: Final = "INTERNAL"
_NODE_CONNECTIONS: Final = 4096
"""Connections of all nodes together; one more is closed as soon as it is accepted."""
_REQUEST_BYTES: Final = 32 * 1024 * 1024
"""One request of a node; a client's whole request, which it may forward, is shorter."""
_GREETING_BYTES: Final = 4096
"""What a connection may send before it has proven itself."""


def internal_registry(
    identity: NodeIdentity, registered: Callable[[int], int | None], *families: object
) -> Registry:
    """What nodes ask each other: Hello first, then these families.

    `registered` is the incarnation under which a node is known here, None of one that is not.
    Requests of other APIs wait until these are served too: nodes ask what clients ask. Replicas
    fetch by a version of their own, and whoever only reads by another.
    """
    greeting = HelloApi(identity, registered)
    registry = Registry(greeting, *families, before_login=frozenset({ApiKey.HELLO}))
    registry.only(ApiKey.FETCH, REPLICA_FETCH_VERSION)
    registry.is_complete = False
    return registry


def internal_settings(host: str, port: int, tls: ssl.SSLContext | None = None) -> ListenerSettings:
    """A listener on which nothing but Hello is served before the peer has proven itself."""
    return ListenerSettings(
        host=host,
        port=port,
        name=LISTENER_NAME,
        tls=tls,
        requires_authentication=True,
        max_connections=_NODE_CONNECTIONS,
        max_unauthenticated_request_bytes=_GREETING_BYTES,
        max_other_request_bytes=_REQUEST_BYTES,
        max_unsent_bytes=16 * 1024 * 1024,
        login_s=5.0,
        refused_linger_s=0.1,
    )

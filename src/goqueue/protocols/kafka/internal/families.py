"""The handlers of the internal listener, and how that listener is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.protocols.kafka.internal.hello import HelloApi
from goqueue.protocols.kafka.registry import ApiKey, Registry
from goqueue.protocols.kafka.settings import ListenerSettings

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from goqueue.cluster.hello import NodeIdentity

LISTENER_NAME: Final = "INTERNAL"
_NODE_CONNECTIONS: Final = 4096
"""Connections of all nodes together; one more is closed as soon as it is accepted."""
_GREETING_BYTES: Final = 4096
"""What a connection may send before it has proven itself."""


def internal_registry(
    identity: NodeIdentity, registered: Callable[[int], int | None], *families: object
) -> Registry:
    """What nodes ask each other: Hello first, then these families.

    `registered` is the incarnation under which a node is known here, None of one that is not.
    """
    greeting = HelloApi(identity, registered)
    return Registry(greeting, *families, before_login=frozenset({ApiKey.HELLO}))


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
        max_unsent_bytes=16 * 1024 * 1024,
        login_s=5.0,
        refused_linger_s=0.1,
    )

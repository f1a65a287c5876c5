"""Who is at the other end of a gRPC connection: its address, and its certificate's subject."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from grpc import aio

_SUBJECT: Final = "x509_subject"
"""Where gRPC puts the subject of a certificate that it has verified, as of RFC 2253."""
_BYTES: Final = re.compile(r"(?:\\[0-9A-F]{2})+")
"""Bytes of a text that is not ASCII, which gRPC's TLS library writes as numbers."""


def host_of(peer: str) -> str:
    """The address in what gRPC calls a peer: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`."""
    kind, _, rest = peer.partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return "local"
    host = rest.rpartition(":")[0]
    return host.replace("%5B", "").replace("%5D", "").strip("[]")


def subject_of(context: aio.ServicerContext[Any, Any]) -> str | None:
    """The subject of the client's certificate, as the other listeners write it; None: it has none.

    gRPC asks clients for certificates only where they are required (`tls.client_auth`).
    """
    for found in context.auth_context().get(_SUBJECT, ()):
        return readable(found.decode("latin-1"))
    return None


def readable(subject: str) -> str:
    """A subject whose letters beyond ASCII are letters again."""
    return _BYTES.sub(_decoded, subject)


def _decoded(found: re.Match[str]) -> str:
    data = bytes.fromhex(found[0].replace("\\", ""))
    try:
        return data.decode()
    except UnicodeDecodeError:
        return found[0]

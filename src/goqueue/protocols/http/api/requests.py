"""What a client has sent."""

from __future__ import annotations

import httptools
import msgspec

from goqueue.access.principals import Principal
from goqueue.protocols.permissions import Permissions
from goqueue.quotas.tenant_places import TenantPlaces


class Request(msgspec.Struct):
    """What a client has sent, as far as it is not in a handler's types."""

    method: str
    target: bytes
    headers: dict[bytes, bytes] = msgspec.field(default_factory=dict)
    """By their names in lower case."""
    body: bytes = b""
    client_host: str = ""
    request_id: str | None = None
    cors: tuple[tuple[str, str], ...] = ()
    """Headers of the answer, where a page of another site may read it."""
    sender: int | None = None
    """The node that has forwarded it; None when it came from the client itself."""
    is_part: bool = False
    """That node gathers the parts of all nodes, and asks for the part of this one."""
    certified: Principal | None = None
    """Who its client is by the certificate of the connection."""
    may: Permissions | None = None
    """What its client may do; None before the client is known (`gate`)."""
    tenant_polls: TenantPlaces | None = None
    """The polls of tenants at the listener that it came to; None unless it is a poll."""

    @property
    def raw_path(self) -> bytes:
        """The part before the question mark."""
        return self.target.partition(b"?")[0]

    def header(self, name: bytes) -> str:
        """The value of a header, or nothing."""
        return self.headers.get(name, b"").decode("latin-1")


def relative_target(target: bytes) -> bytes:
    """The path and query of an address in full, which clients of proxies send."""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return target
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")

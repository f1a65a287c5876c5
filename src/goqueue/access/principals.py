"""Who a request is made by, whichever listener it came by and however the client logged in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from goqueue.model.tuples import NamedTuple


class PrincipalKind(StrEnum):
    """How the client has proven who it is."""

    USER = "user"
    """A password or a SCRAM proof."""
    API_KEY = "api_key"
    TOKEN = "token"  # noqa: S105 - a kind, no secret
    """A token of an OIDC provider."""
    CERTIFICATE = "certificate"
    ANONYMOUS = "anonymous"
    """The listener did not ask."""
    NODE = "node"
    """Another node of the cluster, by the cluster's secret."""


class Principal(msgspec.Struct, frozen=True, cache_hash=True):
    """One client, as rules name it."""

    name: str
    """A user's name, the id of an API key, or what a token or a certificate is mapped to."""
    kind: PrincipalKind = PrincipalKind.USER
    roles: frozenset[str] = frozenset()
    """What the credential itself says: of an API key, or by the claims of a token. Roles that are
    given to a name are looked up when a decision is made, so that a change counts at once."""
    tenant: str | None = None

    @property
    def label(self) -> str:
        """The name as in Kafka's rules."""
        return f"User:{self.name}"


ANONYMOUS: Final = Principal("ANONYMOUS", PrincipalKind.ANONYMOUS)
"""A client that was not asked who it is; Kafka's name for it."""


class Login(NamedTuple):
    """A login that succeeded, and when it stops to count, by the wall clock (None: never)."""

    principal: Principal
    expires_ms: int | None = None
    mark: object = None
    """The user as stored when the password was checked, to notice another password; else None."""


CertificatePrincipal: TypeAlias = Callable[[Mapping[str, Any] | None], Principal | None]
"""Who a client is by the certificate that TLS has verified, as `ssl` tells it."""

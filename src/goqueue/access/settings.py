"""What the server's configuration says about who may do what."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import msgspec

from goqueue.access.name_rules import NameRule

_AS_IT_IS = (NameRule(),)


class OidcSettings(msgspec.Struct, frozen=True):
    """Whose tokens are accepted, and who their bearers are."""

    issuer: str
    audiences: frozenset[str]
    jwks_url: str | None = None
    """Where the keys are; None: where the provider's configuration says."""
    clock_skew_s: float = 30.0
    principal_claim: str = "sub"
    principal_rules: tuple[NameRule, ...] = _AS_IT_IS
    roles_claim: str | None = None
    roles: Mapping[str, str] = msgspec.field(default_factory=dict)
    """From a value of that claim to a role; other values give none."""
    tenant_claim: str | None = None
    tenant_optional: bool = False
    """Whether a token without that claim is accepted, and belongs to no tenant."""
    max_token_lifetime_s: float = 24 * 3600.0
    """How long a token counts at most after it was issued, whatever it says."""
    client_id: str | None = None
    """As whom people sign in to the console; None: they cannot."""
    client_secret: str | None = None
    redirect_url: str | None = None
    """Where the provider sends them back to; None: to where they came from."""

    def __repr__(self) -> str:
        return f"OidcSettings({self.issuer!r})"  # no secret


class AccessSettings(msgspec.Struct, frozen=True):
    """Whether clients are asked who they are, and which of them need no rule."""

    is_enabled: bool = False
    """Every listener asks, and every request is checked. Without it all is open."""
    uses_rules: bool = True
    """Whether rules (ACLs) count; without them the roles alone decide."""
    uses_tenants: bool = False
    """Whether there are tenants; without them nothing of them is read."""
    super_users: frozenset[str] = frozenset()
    """Names of principals that may do everything, whatever the rules say."""
    allow_health: bool = True
    """Whether health and version are told to clients that do not say who they are."""
    open_metrics: bool = False
    """The same of metrics."""
    root_key: str | None = None
    """An API key with all rights that is stored nowhere."""
    max_login_delay_s: float = 2.0
    """How long a login waits at most after many wrong ones of the same name."""
    session_lifetime_s: float = 8 * 3600.0
    """How long somebody stays signed in to the console."""
    session_key: bytes = msgspec.field(default_factory=lambda: secrets.token_bytes(32))
    """What signs the sessions of the console: the same on all nodes of a cluster."""
    secure_cookies: bool = False
    """Browsers reach this server by HTTPS only."""
    oidc: OidcSettings | None = None
    certificate_rules: tuple[NameRule, ...] = _AS_IT_IS
    """From the subject of a client's certificate to a name."""

    def __repr__(self) -> str:
        return f"AccessSettings(is_enabled={self.is_enabled})"  # no keys

"""The settings of who may do what."""

# ruff: noqa: FBT003 - the first argument of `setting` is its default

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.access.name_rules import DEFAULT, parse_rules, split_rules
from goqueue.access.settings import AccessSettings, OidcSettings
from goqueue.server.config_kinds import (
    DAY,
    MINUTE,
    SECOND,
    Duration,
    Items,
    MismatchError,
    Switch,
    Word,
    Words,
)
from goqueue.server.config_table import Section, setting


class NameRules(msgspec.Struct, frozen=True):
    """Rules from a subject to a name; in a file a list, elsewhere with commas between them."""

    expected: str = "RULE:pattern/replacement/, with L or U after it, or DEFAULT"

    def parse(self, raw: object) -> tuple[str, ...]:
        """The texts of the rules; raises `MismatchError`."""
        try:
            texts = tuple(raw) if isinstance(raw, list | tuple) else split_rules(str(raw))
            parse_rules(texts)
        except (ValueError, TypeError) as error:
            raise MismatchError from error
        return texts

    def render(self, value: tuple[str, ...]) -> str:
        """As one text."""
        return ",".join(value)


_ACCESS: Final = AccessSettings()
_OIDC: Final = OidcSettings("", frozenset())


class AuthSection(Section):
    """Authentication and rights, on every listener; see the page on security."""

    enabled: bool = setting(
        False,
        Switch(),
        "Clients of every listener must authenticate, and need a right for every request.",
    )
    super_users: tuple[str, ...] = setting(
        (),
        Words(r"[^\s,;]+", "names, with commas between them"),
        "Names of users that may do everything, whatever the rules say.",
    )
    allow_health: bool = setting(
        True,
        Switch(),
        "Answer /health, /healthz, /livez, /readyz and /version, and the health services and "
        "reflection of gRPC, without authentication.",
    )
    open_metrics: bool = setting(
        False,
        Switch(),
        "Answer /metrics without authentication; otherwise it needs the permission metrics:read.",
    )
    root_key: str | None = setting(
        None,
        Word(),
        "An API key with all rights. It is not stored and cannot be revoked: use it to create "
        "others.",
        environment="GOQUEUE_API_ROOT_KEY",
        secret=True,
    )
    max_login_delay_ms: int = setting(
        round(_ACCESS.max_login_delay_s * SECOND),
        Duration(0, MINUTE),
        "How long a login waits at most, after many wrong logins of the same name. From one "
        "address an eighth of it.",
    )
    session_lifetime_ms: int = setting(
        round(_ACCESS.session_lifetime_s * SECOND),
        Duration(MINUTE, 31 * DAY),
        "How long somebody stays signed in to the console.",
    )
    certificate_rules: tuple[str, ...] = setting(
        (DEFAULT,),
        NameRules(),
        "How the subject of a client's certificate becomes the name of a principal; the first "
        "rule that matches counts. The syntax is that of Kafka's `ssl.principal.mapping.rules`.",
    )


class OidcSection(Section):
    """Tokens of an OpenID Connect provider; needs the extra `goqueue[oidc]`."""

    issuer: str | None = setting(
        None,
        Word(),
        "The issuer of accepted tokens, as in their claim `iss`. Not set: no tokens are accepted.",
    )
    audience: tuple[str, ...] = setting(
        (), Items("audiences"), "The audiences of which a token must name one, in `aud`."
    )
    jwks_url: str | None = setting(
        None,
        Word(),
        "Where the provider's keys are, over HTTPS. Not set: where its configuration under "
        "`/.well-known/openid-configuration` says.",
    )
    clock_skew_ms: int = setting(
        round(_OIDC.clock_skew_s * SECOND),
        Duration(0, 10 * MINUTE),
        "How much the clocks of the provider and of this server may differ.",
    )
    principal_claim: str = setting(
        _OIDC.principal_claim,
        Word(),
        "The claim with the name of the principal; with dots, one inside another.",
    )
    principal_rules: tuple[str, ...] = setting(
        (DEFAULT,),
        NameRules(),
        "How that claim becomes a name; the syntax of `auth.certificate_rules`.",
    )
    roles_claim: str | None = setting(
        None, Word(), "The claim with the roles of the principal: a list, or words with blanks."
    )
    roles: tuple[str, ...] = setting(
        (),
        Words(r"[^\s,=]+=[A-Za-z0-9._-]+", "pairs VALUE=ROLE"),
        "Which role each value of that claim gives. Values that are not named here give none.",
    )
    max_token_lifetime_ms: int = setting(
        round(_OIDC.max_token_lifetime_s * SECOND),
        Duration(MINUTE, 366 * DAY),
        "How long a token counts at most after it was issued (`iat`; without that, after this node "
        "saw it first), also where its `exp` is later.",
    )
    tenant_claim: str | None = setting(
        None,
        Word(),
        "The claim with the tenant of the principal. Where `tenancy.enabled` is true, a token "
        "without it is refused, unless its principal is one of `auth.super_users` or was given "
        "to a tenant.",
    )
    tenant_optional: bool = setting(
        False,
        Switch(),
        "Accept tokens without that claim: their principals belong to no tenant, and see what "
        "belongs to all as far as their rights allow.",
    )
    client_id: str | None = setting(
        None,
        Word(),
        "The client that this server is at the provider. With it people can sign in to the console "
        "there; the provider sends them back to `/session/oidc/callback`.",
    )
    client_secret: str | None = setting(
        None, Word(), "The secret of that client, if it has one.", secret=True
    )
    redirect_url: str | None = setting(
        None,
        Word(),
        "Where the provider sends people back to, as in "
        "`https://queue.example.org/session/oidc/callback`. Not set: to the address by which they "
        "called this server.",
    )


class AclSection(Section):
    """Access control lists."""

    enabled: bool = setting(
        True,
        Switch(),
        "Rules (ACLs) are checked where `auth.enabled` is true. Without them roles alone decide.",
    )


class TenancySection(Section):
    """Tenants: teams that share a broker and see nothing of each other."""

    enabled: bool = setting(
        False,
        Switch(),
        "There are tenants: users, API keys and tokens may belong to one, whose names they see "
        "without its id. Needs `auth.enabled`.",
    )

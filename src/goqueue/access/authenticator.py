"""Who a client is: one place for the credentials of every protocol.

A login that fails raises the same error whatever was wrong; its text is for the log. Work that
takes long, such as deriving keys from a password, is done in threads of its own. Wrong logins are
slowed (`login_throttle`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from goqueue.access.api_keys import KEY_PREFIX, is_key_id
from goqueue.access.login_throttle import LoginThrottle
from goqueue.access.name_rules import distinguished_name, map_name
from goqueue.access.principals import Login, Principal, PrincipalKind
from goqueue.model.errors import AuthenticationFailedError, AuthorizationFailedError
from goqueue.model.limits import MAX_USER_NAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.access.directory import AccessDirectory
    from goqueue.access.oidc.tokens import OidcTokens
    from goqueue.access.settings import AccessSettings
    from goqueue.runtime.clock import Clock


EXPIRED: Final = "the token has expired, connect again with a new one"


class Authenticator:
    """Turns a credential into a principal."""

    def __init__(
        self,
        settings: AccessSettings,
        directory: AccessDirectory,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._clock = clock
        self._throttle = LoginThrottle(settings.max_login_delay_s)
        self._tokens: OidcTokens | None = None
        self.key_uses: dict[str, int] = {}
        """When each API key was last used on this node, since it was started."""
        self.is_required = settings.is_enabled
        """Whether listeners refuse clients that do not say who they are."""

    # --- Credentials -----------------------------------------------------------------------------

    async def password_login(self, user: str, password: str, host: str) -> Login:
        """A user by name and password; a key by its id, with the key as the password.

        Raises:
            AuthenticationFailedError: there is no such user, or the password is another one.
        """
        if is_key_id(user):
            login = await self.bearer_login(password, host)
            if user != login.principal.name:
                self.failed(host, "")
                await self.slow_down(host, "")
                raise AuthenticationFailedError(f"{user} is not the id of the API key")
            return login
        await self.slow_down(host, user)
        mark = self._directory.users.find(user)
        if not await self._directory.users.has_password(user, password):
            self.failed(host, user)
            raise AuthenticationFailedError(f"user {user!r} has no such password")
        return Login(self.user(user), mark=mark)

    def user(self, name: str) -> Principal:
        """A user who has proven to be that.

        Raises:
            AuthenticationFailedError: the tenant of that user is disabled.
        """
        return self._admit(Principal(name, tenant=self._directory.tenant_of(name)))

    async def bearer_login(self, token: str, host: str) -> Login:
        """An API key, or a token of the OIDC provider.

        Raises:
            AuthenticationFailedError: it is unknown, expired or revoked.
        """
        found = self._directory.key_index.find(token)
        try:
            if found is not None or token.startswith(KEY_PREFIX):
                return self._key(token)
            return await self._token(token)
        except AuthenticationFailedError:
            self.failed(host, "")
            await self.slow_down(host, "")
            raise

    def peer(self, certificate: Mapping[str, Any] | None) -> Principal | None:
        """Who a client is by the certificate that TLS has verified, as `ssl` tells it."""
        subject = (certificate or {}).get("subject")
        return self.certificate(distinguished_name(subject)) if subject else None

    def certificate(self, subject: str) -> Principal | None:
        """Who a client is whose certificate has this subject (RFC 2253); None: no rule matches."""
        name = map_name(self._settings.certificate_rules, subject)
        if name is None or len(name.encode()) > MAX_USER_NAME_BYTES or is_key_id(name):
            return None
        principal = Principal(
            name, PrincipalKind.CERTIFICATE, tenant=self._directory.tenant_of(name)
        )
        return principal if self._is_admitted(principal) else None

    # --- Logins that end -------------------------------------------------------------------------

    def left_s(self, login: Login) -> float | None:
        """How long a login still counts; None: for as long as its credential does."""
        if login.expires_ms is None:
            return None
        return (login.expires_ms - self._clock.now_ms()) / 1000

    def require(self, login: Login) -> None:
        """Return if what was opened with a login may go on.

        Raises:
            AuthenticationFailedError: its token has expired, or its password is another one now.
            AuthorizationFailedError: its key was revoked, or its user deleted.
        """
        principal, left_s = login.principal, self.left_s(login)
        is_token = principal.kind is PrincipalKind.TOKEN  # the directory knows of keys
        if is_token and left_s is not None and left_s <= 0:
            raise AuthenticationFailedError.expired(EXPIRED)
        if self._directory.roles_of(principal) is None:
            raise AuthorizationFailedError(
                f"{principal.label} was deleted, revoked or moved: log in with another credential"
            )
        if login.mark is not None and self._directory.users.find(principal.name) != login.mark:
            raise AuthenticationFailedError(
                "the password was changed, connect again with the new one"
            )

    def counts(self, login: Login) -> bool:
        """Whether what was opened with a login may go on."""
        try:
            self.require(login)
        except (AuthenticationFailedError, AuthorizationFailedError):
            return False
        return True

    # --- Wrong logins ----------------------------------------------------------------------------

    async def slow_down(self, host: str, user: str) -> None:
        """Wait, where there were many wrong logins of that name or from that address."""
        delay_s = self._throttle.delay_s(host, user, self._clock.monotonic_s())
        if delay_s:
            await asyncio.sleep(delay_s)

    def failed(self, host: str, user: str) -> None:
        """Count a wrong login."""
        self._throttle.failed(host, user, self._clock.monotonic_s())

    # --- Keys and tokens -------------------------------------------------------------------------

    def _key(self, presented: str) -> Login:
        found = self._directory.key_index.find(presented)
        if found is None:
            raise AuthenticationFailedError("an API key that does not exist")
        key_id, key = found
        now_ms = self._clock.now_ms()
        if not key.is_valid(now_ms):
            if key.is_revoked:
                raise AuthenticationFailedError(f"API key {key_id} is revoked")
            raise AuthenticationFailedError.expired(f"API key {key_id} is expired")
        self.key_uses[key_id] = now_ms
        principal = Principal(key_id, PrincipalKind.API_KEY, frozenset(key.roles), key.tenant)
        return Login(self._admit(principal), key.expires_ms)

    async def _token(self, token: str) -> Login:
        return self.of_token(Login(*await self.tokens().check(token)))

    def tokens(self) -> OidcTokens:
        """What checks the tokens of the OIDC provider.

        Raises:
            AuthenticationFailedError: none is configured.
        """
        if self._settings.oidc is None:
            raise AuthenticationFailedError("a token, and no OIDC provider is configured")
        if self._tokens is None:
            from goqueue.access.oidc.tokens import OidcTokens  # noqa: PLC0415 - seldom needed

            self._tokens = OidcTokens(self._settings.oidc, self._clock)
        return self._tokens

    def of_token(self, login: Login) -> Login:
        """Whom a token is about, with the tenant that the name belongs to.

        Raises:
            AuthenticationFailedError: the token says another tenant or, where it should say one,
                none; or the tenant is disabled.
        """
        principal = login.principal
        tenant = self._directory.tenant_of(principal.name)
        if tenant is not None and principal.tenant not in {None, tenant}:
            raise AuthenticationFailedError(
                f"a token of tenant {principal.tenant!r}, whose subject belongs to {tenant!r}"
            )
        if tenant is not None:
            principal = replace(principal, tenant=tenant)
        if principal.tenant is None and self._must_have_tenant(principal):
            raise AuthenticationFailedError(f"a token of {principal.label} without a tenant")
        return login._replace(principal=self._admit(principal))

    def close(self) -> None:
        """Let go of the threads."""
        if self._tokens is not None:
            self._tokens.close()

    # --- Tenants ---------------------------------------------------------------------------------

    def _admit(self, principal: Principal) -> Principal:
        if not self._is_admitted(principal):
            raise AuthenticationFailedError(
                f"{principal.label}: tenant {principal.tenant!r} is disabled or does not exist"
            )
        return principal

    def _is_admitted(self, principal: Principal) -> bool:
        tenants = self._directory.tenants
        if principal.tenant is None or not tenants.is_enabled:
            return True
        tenant = tenants.get(principal.tenant)
        return tenant is not None and tenant.is_open

    def _must_have_tenant(self, principal: Principal) -> bool:
        """Or a token that says no tenant would see the topics of all."""
        oidc = self._settings.oidc
        if oidc is None or oidc.tenant_claim is None or oidc.tenant_optional:
            return False
        is_super = principal.name in self._settings.super_users
        return self._directory.tenants.is_enabled and not is_super

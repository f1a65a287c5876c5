"""Signing in to the console and out of it; who is signed in."""

from __future__ import annotations

import logging
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from goqueue.access.principals import PrincipalKind
from goqueue.model.errors import AuthenticationFailedError
from goqueue.protocols.http.access.session_shapes import (
    Allowed,
    CallbackQuery,
    SessionInfo,
    SignedOut,
    SignInBody,
    SignInMethod,
)
from goqueue.protocols.http.api.errors import FieldError, NoSuchPathError
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.responses import Response, json
from goqueue.protocols.http.api.rights import (
    CLUSTER_ALTER,
    CLUSTER_CREATE,
    CLUSTER_DESCRIBE,
    PUBLIC,
)
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.cookies import Cookie, session_cookie
from goqueue.protocols.logins import FAILED
from goqueue.protocols.permissions import Permissions

if TYPE_CHECKING:
    from goqueue.access.oidc.sign_in import OidcSignIn
    from goqueue.access.principals import Login
    from goqueue.access.sessions import Session
    from goqueue.broker.broker import Broker

_log = logging.getLogger(__name__)

_TAG: Final = "access"
_CALLBACK: Final = "/session/oidc/callback"
_NOT_STORED: Final = ("cache-control", "no-store")
_FAILED_AT: Final = "/console?sign-in=failed"


class SessionRoutes:
    """Sessions of people in browsers."""

    def __init__(self, broker: Broker) -> None:
        self._authenticator = broker.authenticator
        self._authorizer = broker.authorizer
        self._access = broker.access
        self._sessions = broker.sessions
        self._broker = broker
        self._oidc = broker.settings.access.oidc
        self._cookie = session_cookie(broker.settings)
        # The browser comes from the provider's site: a cookie that is Strict would stay behind.
        self._sign_in_cookie = Cookie(broker.settings, "oidc", same_site="Lax")

    @route("GET", "/session", tag=_TAG, right=PUBLIC, answers={200: SessionInfo}, place=LOCAL)
    async def describe(self, request: Request, may: Permissions) -> Response:
        """Who the client is, what it may do, and how people can sign in."""
        token = self._cookie.of(request.headers)
        return self._told(may, None if token is None else self._sessions.find(token))

    @route("POST", "/session", tag=_TAG, right=PUBLIC, answers={200: SessionInfo}, place=LOCAL)
    async def sign_in(self, request: Request, body: SignInBody) -> Response:
        """Sign in with a user and a password, or with an API key or a token; sets a cookie."""
        try:
            login = await self._login(body, request.client_host)
        except AuthenticationFailedError as error:
            _log.warning("HTTP client %s: %s", request.client_host, error)
            raise AuthenticationFailedError(FAILED) from None
        return self._told(*self._opened(request, login))

    async def _login(self, body: SignInBody, host: str) -> Login:
        if body.key is not None:
            return await self._authenticator.bearer_login(body.key.strip(), host)
        if not body.user or body.password is None:
            raise FieldError(
                "the body has no credential: expected user and password, or key",
                field="user" if not body.user else "password",
                location="body",
                expected="user and password, or key",
            )
        return await self._authenticator.password_login(body.user, body.password, host)

    @route("DELETE", "/session", tag=_TAG, right=PUBLIC, answers={200: SignedOut}, place=LOCAL)
    async def sign_out(self, request: Request) -> Response:
        """Sign out: the session ends, and the browser forgets its cookie."""
        token = self._cookie.of(request.headers)
        if token is not None:
            await self._sessions.close(token)
        headers = (self._cookie.cleared(), _NOT_STORED)
        return json(SignedOut())._replace(headers=headers)

    # --- At an OIDC provider ---------------------------------------------------------------------

    @route(
        "GET",
        "/session/oidc",
        tag=_TAG,
        right=PUBLIC,
        is_page=True,
        answers={303: "text/plain"},
        place=LOCAL,
    )
    async def begin(self, request: Request) -> Response:
        """Go to the sign-in page of the OIDC provider."""
        from goqueue.access.oidc.sign_in import SIGN_IN_S  # noqa: PLC0415 - few have a provider

        await self._authenticator.slow_down(request.client_host, "")
        begun = await self._sign_in.begin(self._redirect_url(request))
        cookie = self._sign_in_cookie.set(begun.browser, SIGN_IN_S)
        return _gone_to(begun.url, cookie)

    @route(
        "GET",
        _CALLBACK,
        tag=_TAG,
        right=PUBLIC,
        is_page=True,
        answers={303: "text/plain"},
        place=LOCAL,
    )
    async def finish(self, request: Request, query: CallbackQuery) -> Response:
        """Come back from the provider, and be signed in."""
        request.target = request.raw_path  # the code is for nobody who reads the log
        host = request.client_host
        await self._authenticator.slow_down(host, "")
        browser = self._sign_in_cookie.of(request.headers)
        forget = self._sign_in_cookie.cleared()
        try:
            login = self._authenticator.of_token(
                await self._sign_in.finish(
                    query.state,
                    browser or "",
                    query.code,
                    redirect_url=self._redirect_url(request),
                    problem=query.error,
                )
            )
        except AuthenticationFailedError as error:
            self._authenticator.failed(host, "")
            _log.warning("HTTP client %s: %s", host, error)
            return _gone_to(_FAILED_AT, forget)._replace(error=error)
        return _gone_to("/console", forget, self._opened(request, login)[2])

    @cached_property
    def _sign_in(self) -> OidcSignIn:
        from goqueue.access.oidc.sign_in import OidcSignIn  # noqa: PLC0415 - few have a provider

        if self._oidc is None or self._oidc.client_id is None:
            raise NoSuchPathError(
                "nobody can sign in at an OIDC provider here: expected oidc.issuer and "
                "oidc.client_id in the configuration; sign in with a password or a key"
            )
        key = self._broker.settings.access.session_key
        return OidcSignIn(self._oidc, key, self._authenticator.tokens(), self._broker.clock)

    def _redirect_url(self, request: Request) -> str:
        assert self._oidc is not None  # or there is no sign-in
        if self._oidc.redirect_url is not None:
            return self._oidc.redirect_url
        scheme = "https" if self._broker.settings.access.secure_cookies else "http"
        return f"{scheme}://{request.header(b'host')}{_CALLBACK}"

    # --- Answers ---------------------------------------------------------------------------------

    def _opened(
        self, request: Request, login: Login
    ) -> tuple[Permissions, Session, tuple[str, str]]:
        token, session = self._sessions.open(login)
        request.may = Permissions(self._authorizer, login.principal, request.client_host)
        lifetime_s = (session.expires_ms - self._broker.clock.now_ms()) / 1000
        return request.may, session, self._cookie.set(token, lifetime_s)

    def _told(
        self, may: Permissions, session: Session | None, cookie: tuple[str, str] | None = None
    ) -> Response:
        principal = may.principal
        is_known = principal.kind is not PrincipalKind.ANONYMOUS
        roles = self._access.roles_of(principal) if is_known else None
        found = SessionInfo(
            is_required=self._authenticator.is_required,
            principal=principal.label if is_known else None,
            kind=principal.kind.value if is_known else None,
            roles=sorted(roles or ()),
            allowed=Allowed(
                create_topics=may.allows(CLUSTER_CREATE),
                see_cluster=may.allows(CLUSTER_DESCRIBE),
                change_access=may.allows(CLUSTER_ALTER),
            ),
            methods=self._methods(),
            csrf_token=None if session is None else session.csrf_token,
            expires_at=None if session is None else session.expires_ms,
        )
        headers = (_NOT_STORED,) if cookie is None else (_NOT_STORED, cookie)
        return json(found)._replace(headers=headers)

    def _methods(self) -> list[SignInMethod]:
        if not self._authenticator.is_required:
            return []
        has_oidc = self._oidc is not None and self._oidc.client_id is not None
        return ["password", "key", "oidc"] if has_oidc else ["password", "key"]


def _gone_to(url: str, *headers: tuple[str, str]) -> Response:
    found = (("location", url), _NOT_STORED, *headers)
    return Response(HTTPStatus.SEE_OTHER, b"", "text/plain", found)

"""Who a request comes from, and whether that client may call its route.

Asked once for each request, before its handler. A request that another protocol or another node
has carried here brings its client along (`Request.may`).
"""

from __future__ import annotations

import hmac
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.access.principals import ANONYMOUS
from goqueue.model.errors import AuthenticationFailedError
from goqueue.protocols.http.api.errors import CsrfTokenError
from goqueue.protocols.http.api.responses import Response
from goqueue.protocols.http.api.rights import HEALTH, METRICS, PUBLIC, TOPIC_READ, TOPIC_WRITE
from goqueue.protocols.http.cookies import session_cookie
from goqueue.protocols.logins import FAILED, MISSING, Logins, credential_of
from goqueue.protocols.permissions import Permissions

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.access.principals import Principal
    from goqueue.broker.log_broker import LogBroker
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.responses import Stream
    from goqueue.protocols.http.api.rights import Needs
    from goqueue.protocols.http.api.route import Route
    from goqueue.protocols.permissions import Decides
    from goqueue.quotas.client_meter import ClientMeter

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

_log = logging.getLogger(__name__)


_Client: TypeAlias = "tuple[Principal, Callable[[], bool] | None]"
"""Who it is, and what tells whether the login still counts; None: it does not end by itself."""


class Gate:
    """Lets requests through to their handlers, with what their clients may do."""

    def __init__(self, broker: LogBroker) -> None:
        settings = broker.settings.access
        self._authorizer: Decides = broker.authorizer
        self._authenticator = broker.authenticator
        self._logins = Logins(
            broker.authenticator,
            broker.authorizer,
            broker.clock.monotonic_s,
            broker.access_trail,
            "http",
        )
        self._quotas = broker.quotas
        self._sessions = broker.sessions
        self._cookie = session_cookie(broker.settings)
        public = {PUBLIC}
        if settings.allow_health:
            public.add(HEALTH)
        if settings.open_metrics:
            public.add(METRICS)
        self._public = frozenset(public)
        """What is answered to clients that do not say who they are."""

    def permissions_of(self, principal: Principal, host: str) -> Permissions:
        """What a client may do that another protocol, or another node, has let in."""
        return Permissions(self._authorizer, principal, host)

    async def admit(self, request: Request, right: Needs) -> Permissions:
        """What the client of a request may do.

        Raises:
            AuthenticationFailedError: the credentials are wrong, or missing and needed.
        """
        if request.may is None:
            principal, counts = await self._who(request, right)
            request.may = Permissions(
                self._authorizer, principal, request.client_host, counts=counts
            )
        return request.may

    async def _who(self, request: Request, right: Needs) -> _Client:
        headers = request.headers
        authorization, key = headers.get(b"authorization"), headers.get(b"x-api-key")
        if authorization is None and key is None:
            known = self._signed_in(request, right)
            if known is None and request.certified is not None:
                known = request.certified, None
                self._logins.logged_in(request.certified, request.client_host, "certificate")
            if known is not None:
                return known
            if self._logins.is_required and right not in self._public:
                raise AuthenticationFailedError(MISSING)
            return ANONYMOUS, None
        try:
            credential = credential_of(_text(authorization), _text(key))
            assert credential is not None  # one of the headers is there
            login = await self._logins.login(credential, request.client_host)
        except AuthenticationFailedError as error:
            _log.warning("HTTP client %s: %s", request.client_host, error)
            raise error.told(FAILED) from None
        return login.principal, partial(self._authenticator.counts, login)

    def _signed_in(self, request: Request, right: Needs) -> _Client | None:
        """Who is signed in where the request comes from; pages of other sites cannot send it all.

        Raises:
            CsrfTokenError: it would change something, and does not have the token of the session.
        """
        token = self._cookie.of(request.headers)
        session = None if token is None else self._sessions.find(token)
        if session is None or token is None:
            return None
        if request.method not in _SAFE and right is not PUBLIC:
            given = request.headers.get(b"x-csrf-token", b"")
            if not hmac.compare_digest(given, session.csrf_token.encode()):
                raise CsrfTokenError(
                    "the request is authenticated by a cookie and has no X-CSRF-Token of its "
                    "session: send the csrf_token of GET /session, or reload the page"
                )
        return session.principal, lambda: self._sessions.find(token) is not None

    def charge(self, request: Request, route: Route) -> None:
        """Count a request against the quotas of its client, unless another node has done that.

        Raises:
            RateLimitedError: there were too many, or too large ones.
            TenantShareExceededError: as many clients of its tenant wait as may.
        """
        meter = self._meter(request, route)
        if meter is not None:
            writes = TOPIC_WRITE in route.right.rights
            size_bytes = len(request.body) if writes else 0
            meter.admit_request(size_bytes=size_bytes, is_read=_reads(route))
        tenant_polls, may = request.tenant_polls, request.may
        if tenant_polls is not None and may is not None and may.principal.tenant is not None:
            tenant_polls.hold(may.principal.tenant)

    def answered(self, request: Request, route: Route, response: Response | Stream) -> None:
        """Count what a client has read."""
        if self._quotas.is_active and _reads(route) and isinstance(response, Response):
            meter = self._meter(request, route)
            if meter is not None:
                meter.fetched(len(response.body))

    def _meter(self, request: Request, route: Route) -> ClientMeter | None:
        if not self._quotas.is_active or request.sender is not None or request.may is None:
            return None
        if route.right in self._public:
            return None
        return self._quotas.meter(request.may.principal)

    def may_call(self, may: Permissions, right: Needs) -> bool:
        """Whether a client need not be asked for a right at all."""
        return may.is_open or right in self._public


def _reads(route: Route) -> bool:
    """Whether messages are in the answer."""
    return TOPIC_READ in route.right.rights or route.polls


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")

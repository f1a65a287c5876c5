"""What is asked of an OIDC provider over HTTP, by threads: its configuration, keys, and tokens."""

from __future__ import annotations

import base64
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.access.oidc.urls import check_url
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.access.settings import OidcSettings

_CLOCK: Final = SystemClock()
_TIMEOUT_S: Final = 5.0
_ANSWER_S: Final = 10.0
"""For a whole answer, however slowly it comes."""
_CHUNK_BYTES: Final = 64 * 1024
_MAX_BYTES: Final = 1024 * 1024
"""Of one answer of the provider; a larger one is not read."""


class ProviderUrls(NamedTuple):
    """Where people sign in, and where a code becomes a token."""

    authorization_url: str
    token_url: str


def configuration(issuer: str) -> dict[str, Any]:
    """What the provider says of itself.

    Raises:
        OSError, ValueError, msgspec.MsgspecError: it cannot be asked, or says something else.
    """
    document = read_json(issuer.rstrip("/") + "/.well-known/openid-configuration")
    if document.get("issuer") != issuer:
        raise ValueError("the provider says that it is another issuer")
    return document


def discovered(issuer: str) -> ProviderUrls:
    """Where the provider's sign-in page and its tokens are.

    Raises:
        OSError, ValueError, KeyError, msgspec.MsgspecError: it does not say, or says something that
            cannot be trusted.
    """
    document = configuration(issuer)
    urls = ProviderUrls(str(document["authorization_endpoint"]), str(document["token_endpoint"]))
    if not all(check_url(url) for url in urls):
        raise ValueError("addresses without HTTPS")
    return urls


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: the answer would be another's, who would get the client's secret, too."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """None: the redirect is an error."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def exchange(settings: OidcSettings, url: str, form: Mapping[str, str]) -> str:
    """The ID token that the provider gives for a code.

    Raises:
        OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError: it gives none.
    """
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if settings.client_secret is not None:
        parts = (settings.client_id or "", settings.client_secret)
        pair = ":".join(urllib.parse.quote(part, safe="") for part in parts)
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    body = urllib.parse.urlencode(form).encode()
    token = read_json(url, body, headers)["id_token"]
    if not isinstance(token, str):
        raise TypeError("an id_token that is no text")
    return token


def read_json(
    url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The JSON object at an address; with a body it is posted.

    Raises:
        OSError, ValueError, msgspec.MsgspecError: there is none.
    """
    if not check_url(url):
        raise ValueError(f"{url} is neither HTTPS nor on this machine")
    request = urllib.request.Request(  # noqa: S310 - checked
        url, body, {"Accept": "application/json", **(headers or {})}
    )
    found = bytearray()
    until_s = _CLOCK.monotonic_s() + _ANSWER_S
    with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
        while chunk := answer.read1(_CHUNK_BYTES):
            found += chunk
            if len(found) > _MAX_BYTES:
                raise ValueError(f"more than {_MAX_BYTES} bytes")
            if _CLOCK.monotonic_s() > until_s:
                raise TimeoutError(f"no whole answer within {_ANSWER_S:.0f} s")
    return msgspec.json.decode(found, type=dict[str, Any])

"""What is asked of an OIDC provider over HTTP, by threads: its configuration, keys, and tokens."""

from __future__ import annotations

import base64
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.access.oidc.urls import check_url
from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.access.settings import OidcSettings

_TIMEOUT_S: Final = 5.0
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
        AuthenticationFailedError: it does not say, or says something that cannot be trusted.
    """
    try:
        document = configuration(issuer)
        urls = ProviderUrls(
            str(document["authorization_endpoint"]), str(document["token_endpoint"])
        )
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise AuthenticationFailedError(
            f"the configuration of the OIDC provider {issuer} could not be read: {error}"
        ) from error
    if not all(check_url(url) for url in urls):
        raise AuthenticationFailedError("the OIDC provider names addresses without HTTPS")
    return urls


def exchange(settings: OidcSettings, form: Mapping[str, str]) -> str:
    """The ID token that the provider gives for a code.

    Raises:
        OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError: it gives none.
        AuthenticationFailedError: it does not say where to ask.
    """
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if settings.client_secret is not None:
        parts = (settings.client_id or "", settings.client_secret)
        pair = ":".join(urllib.parse.quote(part, safe="") for part in parts)
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    body = urllib.parse.urlencode(form).encode()
    token = read_json(discovered(settings.issuer).token_url, body, headers)["id_token"]
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
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - checked
        found = answer.read(_MAX_BYTES + 1)
    if len(found) > _MAX_BYTES:
        raise ValueError(f"more than {_MAX_BYTES} bytes")
    return msgspec.json.decode(found, type=dict[str, Any])

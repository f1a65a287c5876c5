"""Which requests are taken: by the name they call this server, and by the page they come from.

A browser lets every web page send requests to this machine. It tells where a request comes from
(`Origin`, `Sec-Fetch-Site`), and by which name the page found the server (`Host`): a foreign name
is how a page makes its own address point here (DNS rebinding). Other clients send no `Origin`, and
call the server by a name that it knows.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from goqueue.protocols.http.api.errors import (
    ForeignHostError,
    ForeignOriginError,
    UnsupportedMediaTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.protocols.http.api.requests import Request

ANY: Final = "*"
"""In either list: no check."""

_MAX_REMEMBERED_HOSTS: Final = 1024
"""`Host` headers that need not be looked at again; at the bound all are forgotten."""
_SHOWN_CHARACTERS: Final = 100

_HERE: Final = frozenset({b"same-origin", b"none"})
"""`Sec-Fetch-Site` of this server's own pages, and of what a user typed or has as a bookmark."""
_OF_FORMS: Final = (b"text/plain", b"multipart/")
"""What the forms of any page can send and clients of this API do not."""
_URLENCODED: Final = b"application/x-www-form-urlencoded"
"""The same, but also what `curl -d` says of anything."""

_EXPOSED_HEADERS: Final = (
    "X-Request-ID, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After"
)


class OriginPolicy:
    """The names of one listener, and the pages that may call it beside its own."""

    def __init__(self, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        """Take requests for these names, `*.suffix` included, and from these origins."""
        names = {_plain(each) for each in hosts}
        self._names = names | {"localhost"}
        self._suffixes = (".localhost", *(each[1:] for each in names if each.startswith("*.")))
        self._any_host = ANY in names
        self._origins = frozenset(each.lower() for each in origins)
        self._good_hosts: set[bytes] = set()

    def check(self, request: Request, *, is_page: bool) -> None:
        """Refuse what another site's page may have sent; `is_page`: any page may link to it.

        Raises:
            ForeignHostError, ForeignOriginError, UnsupportedMediaTypeError: it is refused.
        """
        headers = request.headers
        host = headers.get(b"host")
        if host is not None and host not in self._good_hosts:
            self._check_host(host)
        if b"origin" in headers or b"sec-fetch-site" in headers:
            self._check_origin(request, is_page=is_page)
        if b"content-type" in headers:
            _check_media_type(headers)

    def _check_host(self, host: bytes) -> None:
        text = host.decode("latin-1")
        name = _plain(text)
        known = self._any_host or name in self._names or name.endswith(self._suffixes)
        if not known and not _is_address(name):
            raise ForeignHostError(
                f"{_shown(text)} is not a name of this server; use its own name or address, or add "
                "the name to http.allowed_hosts"
            )
        if len(self._good_hosts) >= _MAX_REMEMBERED_HOSTS:
            self._good_hosts.clear()
        self._good_hosts.add(host)

    def _check_origin(self, request: Request, *, is_page: bool) -> None:
        headers = request.headers
        origin = request.header(b"origin").lower()
        if origin and (origin in self._origins or ANY in self._origins):
            request.cors = _cors(ANY if ANY in self._origins else origin)
            return
        site = headers.get(b"sec-fetch-site")
        if site in _HERE:
            return
        if site is None and origin.partition("://")[2] == request.header(b"host").lower():
            return
        if is_page and not origin and _opens(headers):
            return
        shown = _shown(origin) if origin else "another site"
        raise ForeignOriginError(
            f"pages of {shown} may not call this server; add their origin to http.allowed_origins"
        )


def _check_media_type(headers: dict[bytes, bytes]) -> None:
    if headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers:
        return
    given = headers[b"content-type"].lower()
    of_browser = b"origin" in headers or b"sec-fetch-site" in headers
    if given.startswith(_OF_FORMS) or (of_browser and given.startswith(_URLENCODED)):
        raise UnsupportedMediaTypeError(
            f"a body of type {_shown(given.decode('latin-1'))} is not supported; send JSON with "
            "content-type: application/json"
        )


def _opens(headers: dict[bytes, bytes]) -> bool:
    """Whether a user has followed a link: the page with the link cannot read what is shown."""
    return (
        headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _cors(origin: str) -> tuple[tuple[str, str], ...]:
    return (
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", _EXPOSED_HEADERS),
        ("vary", "origin"),
    )


def _plain(host: str) -> str:
    """A name or an address without port, brackets, capitals and the dot of the root."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return (host if host.count(":") > 1 else host.partition(":")[0]).removesuffix(".")


def _is_address(name: str) -> bool:
    """No page can make an address point elsewhere, so any is good."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARACTERS])

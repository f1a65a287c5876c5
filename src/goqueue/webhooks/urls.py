"""The URL of a target: taken apart once, strictly, by the same code that connects to it."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urlsplit

from goqueue.model.errors import WebhookTargetError
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.http_connection import Endpoint

_MAX_URL_CHARS: Final = 2000
"""A longer URL is refused."""
_PRINTABLE: Final = re.compile(r"[!-\[\]-~]+")
"""ASCII without spaces, control characters and the backslash, which parsers read differently."""
_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label like this makes a resolver read the host as an IPv4 address."""
_PORTS: Final = {"http": 80, "https": 443}


class TargetUrl(NamedTuple):
    """Where events are posted to."""

    endpoint: Endpoint
    path: str
    """With the query."""


def parse_target(url: str) -> TargetUrl:
    """Take a URL apart.

    Raises:
        WebhookTargetError: saying what is wrong with it and what was expected.
    """
    if len(url) > _MAX_URL_CHARS or not _PRINTABLE.fullmatch(url):
        raise _refused(
            "it is too long, or has spaces, backslashes or characters that are not ASCII",
            f"at most {_MAX_URL_CHARS} ASCII characters, others percent-encoded",
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused(str(error), "a URL such as https://example.com/events") from error
    if parts.scheme not in _PORTS:
        raise _refused(f"the scheme is {parts.scheme[:20]!r}", "http or https")
    if "@" in parts.netloc:
        raise _refused(
            "it has a user name or a password in it",
            "none: requests are signed with the endpoint's secret",
        )
    if parts.fragment:
        raise _refused("it has a fragment", "none: a server is never sent one")
    host = _host(parts.netloc, parts.hostname or "")
    endpoint = Endpoint(host, port or _PORTS[parts.scheme], parts.scheme == "https")
    return TargetUrl(endpoint, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


def _host(netloc: str, host: str) -> str:
    host = host.removesuffix(".")
    try:
        if netloc.startswith("["):
            if "%" in host:
                raise _refused("the address has a zone", "an address without one")
            return str(IPv6Address(host))
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            return str(IPv4Address(host))  # which takes neither 2130706433 nor 0177.0.0.1
    except AddressValueError as error:
        raise _refused(
            f"{host[:80]!r} is no IP address in the usual notation", "one such as 203.0.113.7"
        ) from error
    if not _NAME.fullmatch(host):
        raise _refused(f"the host is {host[:80]!r}", "a DNS name or an IP address")
    return host


def _refused(found: str, expected: str) -> WebhookTargetError:
    return WebhookTargetError(f"the URL of a webhook is refused: {found}; expected {expected}")

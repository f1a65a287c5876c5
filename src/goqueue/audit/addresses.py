"""The address of a client behind proxies: only proxies that are trusted may say it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, TypeAlias

from goqueue.audit.limits import MAX_HOPS

if TYPE_CHECKING:
    from collections.abc import Iterable

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """Networks of proxies whose `X-Forwarded-For` counts."""

    def __init__(self, networks: Iterable[str]) -> None:
        """Trust addresses in these, such as `10.0.0.0/8`. Raises `ValueError` for another text."""
        self._networks: list[_Network] = [
            ipaddress.ip_network(each, strict=False) for each in networks
        ]

    def client(self, peer: str, forwarded: str) -> str:
        """The address that a request came from, by the other end of its connection and the header.

        The header is read from right to left, since each proxy appends whom it was called by, and
        what a client itself wrote there stays on the left. The first address that is no trusted
        proxy is the client. What is no address ends the walk: the proxy before it counts.
        """
        found = peer
        if not self._trusts(peer):
            return found
        for hop in reversed(forwarded.split(",")[-MAX_HOPS:]):
            address = _parsed(hop)
            if address is None:
                break
            found = str(address)
            if not self._trusts(found):
                break
        return found

    def _trusts(self, text: str) -> bool:
        address = _parsed(text)
        return address is not None and any(address in each for each in self._networks)


def _parsed(hop: str) -> _Address | None:
    """An address, maybe with a port or in brackets, as proxies write it."""
    text = hop.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address

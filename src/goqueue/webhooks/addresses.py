"""Which IP addresses events may be sent to. Pure: nothing is resolved and nobody is called here.

Whoever may create an endpoint chooses a URL that the broker then calls from inside its network. So
only addresses of the public Internet are allowed, unless the server's configuration says otherwise.
An IPv6 address that carries an IPv4 address is as good as the one that it carries.
"""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.errors import WebhookTargetError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.webhooks.settings import WebhookSettings

Address: TypeAlias = "IPv4Address | IPv6Address"

_METADATA: Final = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # AWS, Azure, Google Cloud, OpenStack
            "169.254.170.2",  # AWS: credentials of containers
            "168.63.129.16",  # Azure: a public address, answered by the host
            "100.100.100.200",  # Alibaba Cloud
            "192.0.0.192",  # Oracle Cloud
            "fd00:ec2::254",  # AWS
            "fd20:ce::254",  # Google Cloud
        ),
    )
)
"""Where clouds tell their machines secrets. `allow_private` does not allow these."""

_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
"""What it carries, and where, is a matter of the network: refused as a whole."""
_SHARED: Final = IPv4Network("100.64.0.0/10")
_COMPATIBLE: Final = IPv6Network("::/96")
"""IPv4 in the last 32 bits, as nobody uses it any more."""


class AddressPolicy:
    """Decides on addresses."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._allow_private = settings.allow_private
        self._networks = tuple(ip_network(each) for each in settings.allowed_networks)

    def check(self, addresses: Iterable[str]) -> list[str]:
        """The addresses that a name resolves to, if all of them may be called.

        One that may not refuses all: a name that is half public is an attempt.

        Raises:
            WebhookTargetError: one is refused, or there is none.
        """
        found = list(dict.fromkeys(addresses))
        if not found:
            raise WebhookTargetError("the host of the URL has no address: check its name")
        for each in found:
            reason = self.refusal(each)
            if reason is not None:
                raise WebhookTargetError(
                    f"events may not be sent to {each}: it is {reason}, expected a public "
                    "address; the server allows others by webhooks.allow_private or "
                    "webhooks.allowed_networks"
                )
        return found

    def refusal(self, text: str) -> str | None:
        """What an address is that may not be called; None: it may be."""
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return "no IP address"
        carried = carried_address(address)
        if any(_is_in(each, self._networks) for each in (address, carried)):
            return None
        return _kind(carried, allow_private=self._allow_private)


def carried_address(address: Address) -> Address:
    """The IPv4 address that an IPv6 address carries, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    low = int(address) & 0xFFFFFFFF
    if address in _NAT64:
        return IPv4Address(low)
    if address in _COMPATIBLE and low > 1:  # :: and ::1 are addresses of IPv6
        return IPv4Address(low)
    return address


def _is_in(address: Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(address.version == each.version and address in each for each in networks)


def _kind(address: Address, *, allow_private: bool) -> str | None:
    """Why an address is no public one; None: it is, or it need not be."""
    if address in _METADATA:
        return "the metadata address of a cloud"
    if address.is_multicast:
        return "a multicast address"
    if address.is_unspecified:
        return "the unspecified address"
    if allow_private and (address.is_private or address.is_link_local or _is_shared(address)):
        return None
    if address.is_loopback:
        return "a loopback address"
    if address.is_link_local:
        return "a link-local address"
    if isinstance(address, IPv6Address) and (address.is_site_local or address in _LOCAL_NAT64):
        return "a private address"
    if address.is_private or not address.is_global:
        return "a private or reserved address"
    if address.is_reserved:
        return "a reserved address"
    return None


def _is_shared(address: Address) -> bool:
    """Of the space that carriers share, which is neither private nor global."""
    return isinstance(address, IPv4Address) and address in _SHARED

"""Which addresses webhooks may call: everything that is not public is refused, however written."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import WebhookTargetError
from goqueue.webhooks.addresses import AddressPolicy
from goqueue.webhooks.settings import WebhookSettings

STRICT = AddressPolicy(WebhookSettings())
PRIVATE = AddressPolicy(WebhookSettings(allow_private=True))

REFUSED = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.1.1",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2001:0:53aa:64c:0:0:80ff:fffe",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "not an address",
]
ALLOWED = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert STRICT.refusal(address) is not None
    with pytest.raises(WebhookTargetError, match="allow_private"):
        STRICT.check([address])


@pytest.mark.parametrize("address", ALLOWED)
def test_a_public_address_is_allowed(address: str) -> None:
    assert STRICT.refusal(address) is None


def test_one_refused_address_among_public_ones_refuses_the_name() -> None:
    with pytest.raises(WebhookTargetError, match=r"10\.0\.0\.1"):
        STRICT.check(["8.8.8.8", "10.0.0.1"])


def test_a_name_without_an_address_is_refused() -> None:
    with pytest.raises(WebhookTargetError, match="no address"):
        STRICT.check([])


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "fe80::1", "100.64.0.1"])
def test_private_addresses_can_be_allowed(address: str) -> None:
    assert PRIVATE.refusal(address) is None


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "::ffff:169.254.169.254", "168.63.129.16", "fd00:ec2::254", "224.0.0.1"],
)
def test_metadata_and_multicast_addresses_are_no_private_ones(address: str) -> None:
    assert PRIVATE.refusal(address) is not None


def test_a_network_that_is_named_is_allowed_and_no_other() -> None:
    policy = AddressPolicy(WebhookSettings(allowed_networks=("10.1.0.0/16", "fd00::/8")))
    assert policy.refusal("10.1.2.3") is None
    assert policy.refusal("::ffff:10.1.2.3") is None
    assert policy.refusal("fd00::7") is None
    assert policy.refusal("10.2.0.1") is not None
    assert policy.refusal("::ffff:10.2.0.1") is not None


@given(st.ip_addresses(v=4))
def test_an_address_in_ipv6_clothes_is_what_it_is_without_them(
    address: ipaddress.IPv4Address,
) -> None:
    number = int(address)
    mapped = ipaddress.IPv6Address(0xFFFF << 32 | number)
    translated = ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) | number)
    expected = STRICT.refusal(str(address)) is None
    assert (STRICT.refusal(str(mapped)) is None) == expected
    assert (STRICT.refusal(str(translated)) is None) == expected

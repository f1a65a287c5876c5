"""Whom a request came from: only trusted proxies may say it."""

from __future__ import annotations

import pytest

from goqueue.audit.addresses import TrustedProxies
from goqueue.audit.limits import MAX_HOPS

PROXIES = TrustedProxies(["10.0.0.0/8", "192.168.1.1", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", "1.2.3.4", "203.0.113.9"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", "6.6.6.6, 1.2.3.4, 10.9.9.9", "1.2.3.4"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "1.2.3.4, unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "'; drop table", "10.0.0.1"),
        ("10.0.0.1", "1.2.3.4:5678", "1.2.3.4"),
        ("10.0.0.1", "[2001:db8::7]:443", "2001:db8::7"),
        ("::ffff:10.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("fd00::1", "2001:db8::7", "2001:db8::7"),
        ("local", "1.2.3.4", "local"),
    ],
)
def test_the_first_address_from_the_right_that_is_no_trusted_proxy_is_the_client(
    peer, forwarded, client
) -> None:
    assert PROXIES.client(peer, forwarded) == client


def test_a_long_list_of_hops_is_walked_so_far_and_no_further() -> None:
    hops = ["6.6.6.6", *(f"10.0.1.{number}" for number in range(MAX_HOPS))]
    assert PROXIES.client("10.0.0.1", ", ".join(hops)) == "10.0.1.0"


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError, match="proxy"):
        TrustedProxies(["proxy"])

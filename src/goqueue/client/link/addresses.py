"""Addresses as people write them: `host:port`, several with commas, or a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_PORT = 65_535


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(addresses: str | Iterable[str]) -> tuple[Address, ...]:
    """The addresses of a cluster; any that answers tells of the others.

    Raises:
        ValueError: one of them is no `host:port`, or there is none.
    """
    listed = addresses.split(",") if isinstance(addresses, str) else addresses
    found = tuple(_parse(each.strip()) for each in listed)
    if not found:
        raise ValueError("no address is given: expected host:port, several separated by commas")
    return found


def _parse(text: str) -> Address:
    host, separator, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        separator = ""  # an IPv6 address needs brackets to be told from its port
    if not separator or not host or not port.isdecimal() or not 0 < int(port) <= _MAX_PORT:
        raise ValueError(f"{text!r} is no address: expected host:port, such as 127.0.0.1:9092")
    return Address(host, int(port))

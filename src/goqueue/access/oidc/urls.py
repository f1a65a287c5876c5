"""Where the keys of an OIDC provider may be fetched from."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def check_url(url: str) -> bool:
    """Whether keys from there can be trusted: over HTTPS, or from this machine."""
    try:
        parts = urlsplit(url)
        is_near = parts.hostname in _LOOPBACK
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_near)

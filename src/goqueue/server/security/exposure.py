"""Whether clients on other machines can reach a listener, and what they need to be let in.

On loopback everything may be open. Any other address needs logins and TLS, or a word that says who
does without, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.server.config import LOOPBACK, Config, problem_with
from goqueue.server.config_node import ClientAuth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.server.config_table import Problem

_LISTENERS: Final = ("kafka", "http", "grpc")
_REQUIRED: Final = frozenset({ClientAuth.REQUIRE, ClientAuth.REQUIRE_VERIFY})


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host.lower() in LOOPBACK:
        return True
    import ipaddress  # noqa: PLC0415 - few listen anywhere else

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_exposure(config: Config) -> Iterator[Problem]:
    """A listener that others can reach without a login or without TLS is a problem."""
    if config.listeners.insecure:
        return
    for name in _LISTENERS:
        if missing := _missing(config, name):
            wanted = " and ".join(missing)
            yield problem_with(
                config,
                f"listeners.{name}",
                f"an address of this machine alone, or {wanted}, since other machines can reach "
                "it (docs/how-to/security.md); --tls-terminated-by-proxy says that a proxy does "
                "TLS, --insecure does without",
            )


def _missing(config: Config, name: str) -> list[str]:
    """What a listener needs and does not have, as settings; nothing on loopback."""
    if is_loopback(getattr(config.listeners, name).host):
        return []
    missing = []
    if not _has_logins(config, name):
        missing.append("auth.enabled")
    if not (config.tls.enabled or config.tls.terminated_by_proxy):
        missing.append("tls.enabled")
    return missing


def _has_logins(config: Config, name: str) -> bool:
    """Whether nobody gets in without a login or a certificate that is verified."""
    if config.tls.enabled and config.tls.client_auth in _REQUIRED:
        return True
    return config.asks_kafka_clients if name == "kafka" else config.auth.enabled


def exposure(config: Config) -> str | None:
    """What is open to other machines because `--insecure` says so, as a sentence; None: nothing."""
    found = [
        f"{name} ({getattr(config.listeners, name)}) without {' and '.join(_lacks(missing))}"
        for name in _LISTENERS
        if (missing := _missing(config, name))
    ]
    return f"other machines can reach {', '.join(found)}" if found else None


def _lacks(missing: list[str]) -> list[str]:
    return ["logins" if each == "auth.enabled" else "TLS" for each in missing]

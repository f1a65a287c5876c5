"""The cookies of people who are signed in to the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.configs.broker_settings import BrokerSettings

_SHOWN_ID: Final = 8


class Cookie:
    """One cookie of a server, or of all nodes of a cluster.

    Cookies know no ports: the name tells the servers of one machine apart. With HTTPS the prefix
    `__Host-` keeps other hosts of the domain from setting it.
    """

    def __init__(self, settings: BrokerSettings, use: str, same_site: str = "Strict") -> None:
        is_secure = settings.access.secure_cookies
        prefix = "__Host-" if is_secure else ""
        self.name = f"{prefix}goqueue-{use}-{settings.cluster_id[:_SHOWN_ID]}"
        self._key = self.name.encode("latin-1", "replace")
        self._rules = f"Path=/; HttpOnly; SameSite={same_site}" + ("; Secure" if is_secure else "")

    def of(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Its value in the headers of a request; None: it is not there."""
        header = headers.get(b"cookie")
        if header is None:
            return None
        for pair in header.split(b";"):
            name, _, value = pair.strip().partition(b"=")
            if name == self._key:
                return value.decode("latin-1")
        return None

    def set(self, value: str, lifetime_s: float) -> tuple[str, str]:
        """The header that lets a browser keep it for so long."""
        age_s = max(0, round(lifetime_s))
        return "set-cookie", f"{self.name}={value}; Max-Age={age_s}; {self._rules}"

    def cleared(self) -> tuple[str, str]:
        """The header that lets a browser forget it."""
        return self.set("", 0)


def session_cookie(settings: BrokerSettings) -> Cookie:
    """The cookie with the token of a session."""
    return Cookie(settings, "session")

"""Wrong logins are slowed, by the address that they come from and by the name that they try.

A few wrong logins cost nothing: people mistype. After that every attempt waits before it is
looked at, a right one too, so that trying in parallel gains nothing. Nobody is locked out: the
longest delay of a name is `max_delay_s`, and failures are forgotten by half every
`_HALF_LIFE_S`. Pure: the caller has the clock and does the waiting.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

_HALF_LIFE_S: Final = 30.0
_FREE_OF_NAME: Final = 5
_FREE_OF_HOST: Final = 50
"""So many recent failures are free; behind one address there may be many clients."""
_FIRST_DELAY_S: Final = 0.1
_HOST_SHARE: Final = 0.125
"""The longest delay for an address, as a part of that for a name."""
_MAX_ENTRIES: Final = 10_000
"""Addresses, and names, that failures are remembered of; of more, the one that failed longest ago
is forgotten."""


class _Failures:
    """How often each of some keys failed of late."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._counts: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def add(self, key: str, now_s: float) -> None:
        self._counts[key] = (self._count(key, now_s) + 1, now_s)
        self._counts.move_to_end(key)
        if len(self._counts) > _MAX_ENTRIES:
            self._counts.popitem(last=False)

    def delay_s(self, key: str, now_s: float, longest_s: float) -> float:
        beyond = self._count(key, now_s) - self._free
        if beyond <= 0:
            return 0.0
        doublings = min(beyond, 30.0)  # far past the longest delay
        return float(min(longest_s, _FIRST_DELAY_S * 2.0**doublings))

    def _count(self, key: str, now_s: float) -> float:
        count, at_s = self._counts.get(key, (0.0, now_s))
        return float(count * 0.5 ** (max(0.0, now_s - at_s) / _HALF_LIFE_S))


class LoginThrottle:
    """Which attempts have to wait, and how long."""

    def __init__(self, max_delay_s: float) -> None:
        self._max_delay_s = max_delay_s
        self._names = _Failures(_FREE_OF_NAME)
        self._hosts = _Failures(_FREE_OF_HOST)

    def delay_s(self, host: str, name: str, now_s: float) -> float:
        """How long an attempt has to wait before it is looked at."""
        by_host = self._hosts.delay_s(host, now_s, self._max_delay_s * _HOST_SHARE)
        by_name = self._names.delay_s(name, now_s, self._max_delay_s) if name else 0.0
        return max(by_host, by_name)

    def failed(self, host: str, name: str, now_s: float) -> None:
        """Count an attempt that failed; an API key or a token has no name."""
        self._hosts.add(host, now_s)
        if name:
            self._names.add(name, now_s)

"""Refusals and logins of which one client may cause thousands a second, as few counted lines.

The first refusal of a right on a resource is written at once. Those of the next seconds are
counted, and one line says how many they were, so that the sum of `refusals` is that of all.
Logins of clients that log in with every request are written once for some minutes.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.audit.events import NOBODY, Event, Outcome
from goqueue.audit.limits import MAX_COUNTED_REFUSALS, MAX_NOTED_LOGINS

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.audit.log import AuditLog

_REFUSALS_S: Final = 10.0
_LOGINS_S: Final = 300.0

_Key: TypeAlias = tuple[str, str, str]
"""A principal, a right and a resource."""


def _on_loop(wait_s: float, call: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(wait_s, call)


class AccessTrail:
    """Writes down who was refused and who has logged in; used on the event loop alone."""

    def __init__(
        self,
        audit: AuditLog,
        now_s: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object] = _on_loop,
    ) -> None:
        """Write to `audit`; `later` calls something after so many seconds."""
        self._audit = audit
        self._now_s = now_s
        self._later = later
        self._refusals: dict[_Key, tuple[int, str]] = {}
        """Since the last line of a key: how many, and the address of the last."""
        self._uncounted = 0
        """Those beyond the bound, of all keys."""
        self._logins: dict[tuple[str, str, str], float] = {}
        """By principal, address and listener: until when another one is not written."""

    def denied(self, principal: str, right: str, resource: str, host: str) -> None:
        """A request of this principal was refused for want of a right on a resource."""
        key = principal, right, resource
        known = self._refusals.get(key)
        if known is not None:
            self._refusals[key] = known[0] + 1, host
        elif len(self._refusals) >= MAX_COUNTED_REFUSALS:
            self._uncounted += 1
        else:
            self._begin(key, host, 1)

    def _begin(self, key: _Key, host: str, count: int) -> None:
        principal, right, resource = key
        self._refusals[key] = 0, host
        self._write(count, principal=principal, host=host, resource=resource, right=right)
        self._later(_REFUSALS_S, partial(self._end, key))

    def _end(self, key: _Key) -> None:
        count, host = self._refusals.pop(key)
        if count:
            self._begin(key, host, count)
        if self._uncounted:
            count, self._uncounted = self._uncounted, 0
            self._write(count, principal=NOBODY, host=NOBODY, resource="", right="")

    def _write(self, count: int, *, principal: str, host: str, resource: str, right: str) -> None:
        self._audit.record(
            Event.ACL_DENIED,
            principal=principal,
            host=host,
            resource=resource,
            outcome=Outcome.DENIED,
            right=right,
            refusals=count,
        )

    def logged_in(self, principal: str, host: str, listener: str, mechanism: str) -> None:
        """A client has proven who it is, as it does with every request or connection."""
        key, now_s = (principal, host, listener), self._now_s()
        if now_s < self._logins.get(key, now_s):
            return
        if len(self._logins) >= MAX_NOTED_LOGINS:
            self._logins.clear()
        self._logins[key] = now_s + _LOGINS_S
        self._audit.record(
            Event.AUTH_SUCCESS,
            principal=principal,
            host=host,
            resource=f"listener:{listener}",
            mechanism=mechanism,
        )

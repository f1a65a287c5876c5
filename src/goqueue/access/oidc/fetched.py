"""What an OIDC provider says: fetched when it is needed, kept for a while, and fetched again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.access.oidc.threads import OidcThreads
    from goqueue.runtime.clock import Clock

_log = logging.getLogger(__name__)

T = TypeVar("T")

FRESH_S: Final = 600.0
"""What is older is fetched again, so that a key that was withdrawn stops to count."""
_RETRY_S: Final = 5.0
"""Between the end of one fetch and the beginning of the next."""


class Fetched(Generic[T]):
    """One thing that the provider says; it is fetched once at a time, for all who wait."""

    def __init__(
        self, what: str, fetch: Callable[[], T], threads: OidcThreads, clock: Clock
    ) -> None:
        self._what = what
        self._fetch = fetch
        self._threads = threads
        self._clock = clock
        self._fetching: asyncio.Task[None] | None = None
        self._fetched_s: float | None = None
        self._tried_s: float | None = None
        self.value: T | None = None
        """As it was last fetched; it goes on to count while the provider cannot be asked."""
        self.error: Exception | None = None
        """Why the last fetch failed; None: it did not."""

    @property
    def is_old(self) -> bool:
        """Whether it should be fetched, first or again."""
        fetched_s = self._fetched_s
        return fetched_s is None or self._clock.monotonic_s() - fetched_s > FRESH_S

    def refresh(self) -> asyncio.Task[None] | None:
        """Begin to fetch it, unless that is under way or was tried a moment ago."""
        if self._fetching is None:
            tried_s = self._tried_s
            if tried_s is not None and self._clock.monotonic_s() - tried_s < _RETRY_S:
                return None
            self._fetching = asyncio.create_task(self._refresh(), name=f"OIDC {self._what}")
        return self._fetching

    async def wait(self) -> None:
        """The same; returns when it has been tried."""
        fetching = self.refresh()
        if fetching is not None:
            await asyncio.shield(fetching)  # others wait for it, too

    async def _refresh(self) -> None:
        try:
            self.value = await self._threads.ask(self._fetch)
            self._fetched_s = self._clock.monotonic_s()
            self.error = None
        except Exception as error:  # noqa: BLE001 - what is known goes on to count
            self.error = error
            _log.warning(
                "%s of the OIDC provider could not be fetched: %s: %s",
                self._what,
                type(error).__name__,
                error,
            )
        finally:
            self._tried_s = self._clock.monotonic_s()
            self._fetching = None

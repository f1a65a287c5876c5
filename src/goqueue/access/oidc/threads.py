"""The threads that ask an OIDC provider, and the one that checks signatures.

They are nobody else's: a provider that does not answer keeps only those waiting who need it, and a
check of a signature does not wait behind a question to the provider.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model.errors import ProviderBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_THREADS: Final = 2
_MAX_WAITING: Final = 32
"""Questions to the provider that wait for a thread; one more is refused with
`ProviderBusyError`."""


class OidcThreads:
    """The threads of one node."""

    def __init__(self) -> None:
        self._asking = ThreadPoolExecutor(_THREADS, thread_name_prefix="oidc")
        self._checking = ThreadPoolExecutor(1, thread_name_prefix="oidc-checks")
        self._places = BoundedSemaphore(_THREADS + _MAX_WAITING)

    async def ask(self, work: Callable[[], T]) -> T:
        """Ask the provider something.

        Raises:
            ProviderBusyError: too much waits for its answers already.
        """
        if not self._places.acquire(blocking=False):
            raise ProviderBusyError(
                f"{_MAX_WAITING} requests wait for the OIDC provider, which is the limit: retry "
                "later"
            )
        try:
            asked = self._asking.submit(work)
        except RuntimeError:  # the threads are closed
            self._places.release()
            raise
        asked.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(asked)

    async def check(self, work: Callable[[], T]) -> T:
        """Check a signature, after those that came before.

        As much waits as listeners have connections whose clients log in, which they bound.
        """
        return await asyncio.get_running_loop().run_in_executor(self._checking, work)

    def close(self) -> None:
        """Let go of the threads; one that waits for the provider ends with its time limit."""
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._checking.shutdown(wait=False, cancel_futures=True)

"""Giving freed memory back to the system.

The C library keeps what is freed in the middle of its heap. After many large or half-sent requests
that is most of what the process holds, and it stays for as long as the process runs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.runtime.process import read_resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_S: Final = 10.0
"""Between two looks."""
WORTH_BYTES: Final = 32 << 20
"""Growth since the last time that is worth a pause of allocation, of about 0.2 ms a megabyte."""


class FreeMemory:
    """Has free memory given back when the process has grown."""

    def __init__(
        self,
        read: Callable[[], int | None] = read_resident_bytes,
        release: Callable[[], None] | None = None,
    ) -> None:
        """`read` tells how large the process is, `release` gives back what it can."""
        self._read = read
        self._release = release or release_free_memory
        self._floor_bytes: int | None = None

    async def look(self) -> None:
        """Give memory back if there may be much of it."""
        size_bytes = self._read()
        if size_bytes is None:
            return
        if self._floor_bytes is None or size_bytes < self._floor_bytes:
            self._floor_bytes = size_bytes
        if size_bytes >= self._floor_bytes + WORTH_BYTES:
            await asyncio.to_thread(self._release)
            self._floor_bytes = self._read()


def release_free_memory() -> None:
    """Give back what the C library can; nothing, where it is not glibc."""
    import ctypes  # noqa: PLC0415 - a start needs it not

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

"""Giving freed memory back to the system.

The C library keeps what is freed in the middle of its heap. After many large or half-sent requests
that is most of what the process holds, and it stays for as long as the process runs.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from typing import TYPE_CHECKING, Any, Final

from goqueue.runtime.process import read_resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_S: Final = 10.0
"""Between two looks."""
WORTH_BYTES: Final = 16 << 20
"""Unused memory, beyond what could not be given back the last time, that is worth a pause of
allocation of about 0.2 ms a megabyte."""
_ARENAS_VARIABLE: Final = "MALLOC_ARENA_MAX"
_M_ARENA_MAX: Final = -8


class FreeMemory:
    """Has free memory given back when there is much of it."""

    def __init__(
        self,
        read: Callable[[], int | None] | None = None,
        release: Callable[[], None] | None = None,
    ) -> None:
        """`read` tells how much is held and not in use, `release` gives back what it can."""
        self._read = read or read_unused_bytes
        self._release = release or release_free_memory
        self._floor_bytes: int | None = None
        """The least that was unused since the last time: what cannot be given back."""

    async def look(self) -> None:
        """Give memory back if there may be much of it."""
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        unused_bytes = self._read()
        if unused_bytes is None:
            return
        if self._floor_bytes is None or unused_bytes < self._floor_bytes:
            self._floor_bytes = unused_bytes
        if unused_bytes >= self._floor_bytes + WORTH_BYTES:
            self._release()
            self._floor_bytes = self._read()


class _AllocatorState(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


def read_unused_bytes() -> int | None:
    """Memory that the process holds and the C library has not handed out.

    What others map, such as code and the interpreter's small objects, counts as unused. Where the C
    library does not tell, all that the process holds does. None where the system does not tell.
    """
    resident_bytes = read_resident_bytes()
    state_of = _function("mallinfo2")
    if resident_bytes is None or state_of is None:
        return resident_bytes
    state_of.restype = _AllocatorState
    state = state_of()
    return max(resident_bytes - int(state.uordblks) - int(state.hblkhd), 0)


def release_free_memory() -> None:
    """Give back what the C library can; nothing, where it is not glibc."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def use_one_heap() -> None:
    """Let all threads allocate from one heap, unless the environment says how many there are.

    glibc makes up to eight for each core, and what is free in one is of no use to the others: the
    threads of gRPC held three times what their requests needed. To be called before they start.
    """
    set_option = _function("mallopt")
    if set_option is not None and _ARENAS_VARIABLE not in os.environ:
        set_option(_M_ARENA_MAX, 1)


def _function(name: str) -> Any:
    """A function of the C library, or None where it has none of that name."""
    return getattr(ctypes.CDLL(None), name, None)

"""What the operating system says about this process."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

_LOW_PRIORITY: Final = 10
"""How far a thread of low priority stands back, as `nice` counts."""
_PROC: Final = Path("/proc/self")
_STARTED: Final = 19
_THREADS: Final = 17
_RESIDENT: Final = 21
"""Places in `/proc/self/stat`, counted behind the process's name."""


class ProcessUse(msgspec.Struct, frozen=True):
    """What this process takes of its machine; None is what nobody could tell."""

    cpu_s: float
    """Of all its threads, since it started."""
    threads: int
    """Those of libraries included, where the system says so."""
    resident_bytes: int | None
    open_files: int | None
    max_open_files: int | None
    age_s: float | None


def read_process() -> ProcessUse:
    """Ask the system; a fraction of a millisecond, more with thousands of open files."""
    fields = _stat()
    return ProcessUse(
        cpu_s=time.process_time(),
        threads=_threads(fields),
        resident_bytes=_resident_bytes(fields),
        open_files=_open_files(),
        max_open_files=max_open_files(),
        age_s=_age_s(fields),
    )


def read_resident_bytes() -> int | None:
    """How much memory the process holds; None where nobody can tell."""
    return _resident_bytes(_stat())


def _resident_bytes(fields: list[str]) -> int | None:
    return int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE") if fields else None


def count_threads() -> int:
    """How many threads there are, those of libraries included where the system says so."""
    return _threads(_stat())


def _threads(fields: list[str]) -> int:
    return int(fields[_THREADS]) if fields else threading.active_count()


def _stat() -> list[str]:
    """The fields of `/proc/self/stat`, or none where there is no such file."""
    try:
        return (_PROC / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _open_files() -> int | None:
    try:
        return sum(1 for _ in os.scandir(_PROC / "fd")) - 1  # the listing itself has one open
    except OSError:
        return None


def max_open_files() -> int | None:
    """How many files this process may have open; None where there is no limit."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - absent on Windows

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _age_s(fields: list[str]) -> float | None:
    if not fields:
        return None
    started_s = int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")
    return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started_s, 0.0)


def lower_thread_priority() -> None:
    """Let other threads and processes go before the calling thread, where the system can."""
    if sys.platform == "linux":  # elsewhere it would be that of the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)

"""The processes below this one, and what they have used: a broker, a JVM, its Python workers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14


def below() -> list[Path]:
    """The folders in /proc of every process that this one has started, and of theirs."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _stat(folder)
        if fields:
            parents[int(folder.name)] = int(fields[_PARENT])
    return [Path(f"/proc/{number}") for number in parents if _is_below(number, parents)]


def _is_below(number: int, parents: dict[int, int]) -> bool:
    above = parents[number]
    while above in parents and above != os.getpid():
        above = parents[above]
    return above == os.getpid()


def spark_workers() -> list[Path]:
    """Those of them that are Spark's Python."""
    return [folder for folder in below() if b"pyspark.daemon" in _read(folder / "cmdline")]


def cpu_s(folders: Iterable[Path]) -> float:
    """The processor time that they have had, with their children that have ended, to 10 ms."""
    used = (_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM)
    found = [fields for fields in map(_stat, folders) if fields]
    return sum(int(fields[which]) for fields in found for which in used) / _TICKS_A_SECOND


def peak_bytes(folder: Path) -> int:
    """The most memory that a process has held."""
    for line in _read(folder / "status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _stat(folder: Path) -> list[bytes]:
    return _read(folder / "stat").rpartition(b")")[2].split()


def _read(path: Path) -> bytes:
    """What a file says; nothing when its process has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""

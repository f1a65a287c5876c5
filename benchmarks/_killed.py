"""A process that fills a log until it is killed.

Run as a module (`python -m benchmarks._killed FOLDER BYTES`) it appends for ever, and tells on
standard output, one JSON line a segment, how far it is and what it holds.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._logs import KB, batch_of, open_files, own_memory_bytes, run_loop
from benchmarks.harness import ROOT
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.flushing.flusher import Flusher
from goqueue.storage.log import Log
from goqueue.storage.naming import CHECKPOINT

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE_S: Final = 0.001


@dataclass(frozen=True)
class Told:
    """What the appending process says about itself."""

    end_offset: int
    """Every append below this was acknowledged."""
    size_bytes: int
    memory_bytes: int
    open_files: int
    ready: bool
    """The log is as large as was asked for, and its last segment is half full: kill me."""


@dataclass(frozen=True)
class KilledLog:
    """A log whose process was killed, and what that had said: after a segment, and last."""

    name: str
    folder: Path
    first: Told
    last: Told

    def keep_tail(self) -> None:
        """Remember the folder as it is now, as far as opening the log may change it."""
        last = max(self.folder.glob("*.log")).stem
        shutil.rmtree(self._kept, ignore_errors=True)
        self._kept.mkdir()
        for path in (self.folder / CHECKPOINT, *self.folder.glob(f"{last}.*")):
            shutil.copy(path, self._kept)

    def restore_tail(self) -> None:
        """Put back what `keep_tail` remembered."""
        for path in self._kept.iterdir():
            shutil.copy(path, self.folder)

    @property
    def _kept(self) -> Path:
        return self.folder.with_suffix(".kept")


def append_and_kill(
    name: str, parent: Path, size_bytes: int, on_segment: Callable[[], object]
) -> KilledLog:
    """Let a child fill a log up to `size_bytes` and half a segment, and kill it as it goes on."""
    folder = parent / name.replace(" ", "-")
    command = [sys.executable, "-m", "benchmarks._killed", str(folder), str(size_bytes)]
    told: list[Told] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            for line in child.stdout:
                told.append(Told(**json.loads(line)))
                on_segment()
                if told[-1].ready:
                    break
        finally:
            child.kill()
    if not told or not told[-1].ready:
        raise RuntimeError(f"the appending process ended by itself, with code {child.returncode}")
    killed = KilledLog(name, folder, told[0], told[-1])
    killed.keep_tail()
    return killed


async def _append_for_ever(folder: Path, size_bytes: int) -> None:
    """Append at the speed of the disk until the log is large enough, and then go on at a walk.

    Each sealed segment is awaited, as a log has it whose producers do not outrun the disk for long:
    otherwise the tail that recovery must scan is whatever the kernel was still to write.
    """
    log = Log(folder, LogConfig(fsync=Fsync.NEVER))
    flusher = Flusher(log)
    batch = batch_of(64 * KB)
    while not _ready(log, size_bytes):
        appended = log.append(batch)
        await flusher.durable(appended.end_offset)
        if log.checkpoint_due:
            await flusher.flush()
            _tell(log, ready=False)
    _tell(log, ready=True)
    while True:
        log.append(batch)
        await asyncio.sleep(_PAUSE_S)


def _ready(log: Log, size_bytes: int) -> bool:
    active = log.segments.active
    half_full = active is not None and 2 * active.size_bytes >= log.config.segment_bytes
    return half_full and log.stats.bytes_written >= size_bytes


def _tell(log: Log, *, ready: bool) -> None:
    told = Told(log.end_offset, log.size_bytes, own_memory_bytes(), open_files(), ready)
    print(json.dumps(asdict(told)), flush=True)


if __name__ == "__main__":
    run_loop(_append_for_ever(Path(sys.argv[1]), int(sys.argv[2])))

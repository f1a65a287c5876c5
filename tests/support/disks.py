"""A disk that forgets: what a power cut, a dying drive or a full volume can do to a log.

Files live in a real folder, so the code under test reads, maps and sends real bytes. Beside it the
disk keeps, for each file and each name, what has been synced. `crash` turns the folder into one of
the many states that a power cut could have left: unsynced sectors are there or not, in any mix,
unsynced names likewise. `kill` loses nothing (the page cache outlives a process) and only makes the
old handles useless.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from goqueue.runtime.disk import Bytes, DiskUsage, SystemDisk, SystemFile, translate

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.runtime.disk import DiskUsage

SECTOR: Final = 512


class SimulatedCrash(BaseException):
    """The machine is off. Not an `Exception`: nothing in the product may catch it and go on."""


@dataclass
class Fault:
    """The next `times` operations of a kind, on files whose names end so, fail."""

    operation: str
    code: int = errno.EIO
    ending: str = ""
    skip: int = 0
    times: int = 1
    short: int | None = None
    """For writes: how many bytes still reach the file."""
    drop: bool = False
    """For syncs: the cache forgets the pages at once, instead of calling them clean."""

    def strikes(self, operation: str, path: Path) -> bool:
        if self.operation != operation or not path.name.endswith(self.ending) or not self.times:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True


@dataclass(eq=False)
class _Inode:
    """The content of a file: what is on the disk, and what was done to it since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes as (position, data), cuts as (size, None)."""

    def sync(self) -> None:
        for position, data in self.pending:
            _apply(self.durable, position, data)
        self.pending.clear()

    def after_crash(self, rng: random.Random) -> bytes:
        """The content as a power cut might leave it."""
        content = bytearray(self.durable)
        fate = rng.choice(("nothing", "prefix", "sectors", "sectors", "everything"))
        if fate == "nothing":
            return bytes(content)
        budget = rng.randint(0, sum(len(data or b"") for _, data in self.pending))
        grown = False
        for position, data in self.pending:
            if data is None:
                if fate == "everything" or rng.random() < 0.5:
                    _apply(content, position, None)
            elif fate == "everything":
                _apply(content, position, data)
            elif fate == "prefix":
                _apply(content, position, data[:budget])
                budget -= min(budget, len(data))
            else:
                grown = _apply_sectors(content, position, data, rng) or grown
        if grown and rng.random() < 0.3:  # the new length arrived, the data did not
            longest = max(position + len(data or b"") for position, data in self.pending)
            content.extend(bytes(max(0, longest - len(content))))
        return bytes(content)


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
        content.extend(bytes(position - len(content)))
    elif data:
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(data)] = data


def _apply_sectors(content: bytearray, position: int, data: bytes, rng: random.Random) -> bool:
    """Some of the sectors of a write; true when some were left out."""
    start, lost = position, False
    while start < position + len(data):
        end = min((start // SECTOR + 1) * SECTOR, position + len(data))
        if rng.random() < 0.6:
            _apply(content, start, data[start - position : end - position])
        else:
            lost = True
        start = end
    return lost


class HastyFile(SystemFile):
    """A file of a `HastyDisk`."""

    def sync(self) -> None:
        """Pretend."""


class HastyDisk(SystemDisk):
    """The machine's disk, for tests of what is stored where waiting for it would only cost time."""

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> HastyFile:
        file = super().open(path, create=create, write=write)
        return HastyFile(path, os.dup(file.fileno()))

    def sync_folder(self, folder: Path) -> None:
        """Pretend."""

    def sync_all(self, folder: Path) -> bool:
        """Pretend."""
        return folder.exists()


class FaultyFile:
    """A file of a `FaultyDisk`."""

    def __init__(self, disk: FaultyDisk, real: SystemFile, inode: _Inode) -> None:
        self._disk = disk
        self._real = real
        self._inode = inode
        self._boot = disk.boots

    @property
    def path(self) -> Path:
        return self._real.path

    def fileno(self) -> int:
        return self._real.fileno()

    def size(self) -> int:
        return self._real.size()

    def read(self, position: int, length: int) -> bytes:
        self._ensure_powered()
        with self._disk.lock:
            self._disk.count_and_fail("read", self.path)
            return self._real.read(position, length)

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        return self.read(position, length)

    def write(self, position: int, data: Bytes) -> None:
        self._ensure_powered()
        with self._disk.lock:
            fault = self._disk.strike("write", self.path)
            written = bytes(data)
            if self._disk.crashing or fault is not None:
                short = self._disk.rng.randint(0, len(written)) if fault is None else fault.short
                written = written[: short or 0]
            self._real.write(position, written)
            self._inode.pending.append((position, written))
            self._disk.fail(fault, "writing", self.path)

    def sync(self) -> None:
        self._ensure_powered()
        with self._disk.lock:
            self._disk.sync_threads.add(threading.current_thread().name)
            fault = self._disk.strike("sync", self.path)
            if fault is not None:
                self._inode.pending.clear()
                if fault.drop:
                    self._real.truncate(0)
                    self._real.write(0, self._inode.durable)
            self._disk.fail(fault, "syncing", self.path)
            if not self._disk.pretend_to_sync:
                self._inode.sync()

    def truncate(self, size: int) -> None:
        self._ensure_powered()
        with self._disk.lock:
            self._disk.count_and_fail("truncate", self.path)
            self._real.truncate(size)
            self._inode.pending.append((size, None))

    def close(self) -> None:
        self._real.close()

    def _ensure_powered(self) -> None:
        if self._boot != self._disk.boots:
            raise SimulatedCrash("a handle from before the crash")


class FaultyDisk:
    """A `Disk` over a real folder, with faults on demand and a memory of what was synced."""

    def __init__(self, root: Path, *, seed: int = 0) -> None:
        self.root = root
        self.rng = random.Random(seed)
        self.lock = threading.RLock()
        self.boots = 0
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        """Every operation that changes or syncs something, with the file's name."""
        self.faults: list[Fault] = []
        self.pretend_to_sync = False
        self.crashing = False
        self._crash_in: int | None = None
        self._real = SystemDisk()
        self._names: dict[Path, _Inode] = {}
        self._durable_names: dict[Path, _Inode] = {}
        self._past_names: dict[Path, list[_Inode | None]] = {}
        """What each name has meant since its folder was last synced."""
        self._renames: list[tuple[Path, Path, _Inode]] = []
        self._unsynced_folders: set[Path] = set()
        """Folders whose names are not on the disk; a power cut may take each with all in it."""
        self.sync_threads: set[str] = set()
        """The names of the threads that have waited for the disk."""
        self.settle()

    # --- What a test asks for --------------------------------------------------------------------

    def fail_next(self, operation: str, code: int = errno.EIO, **rest: object) -> Fault:
        """Let the next operation of a kind fail; see `Fault`."""
        fault = Fault(operation, code, **rest)  # type: ignore[arg-type]  # the rest of a Fault
        self.faults.append(fault)
        return fault

    def crash_after(self, operations: int) -> None:
        """Pull the plug at the operation after so many that change or sync something."""
        self._crash_in = operations

    def kill(self) -> None:
        """The process is gone; everything that it wrote is still in the page cache."""
        self._reset()

    def crash(self) -> None:
        """The power is gone: leave the folder in one of the states that are possible now."""
        chosen: dict[Path, _Inode | None] = {}
        for path in sorted({*self._durable_names, *self._names}):
            meanings = self._past_names.get(path, [self._durable_names.get(path)])
            chosen[path] = self.rng.choice(meanings)
        for source, target, inode in self._renames:
            # A rename is lost as a whole: the file is still there under its old name.
            if self._names.get(target) is inode and chosen[target] is not inode:
                chosen[source] = inode
        survivors: dict[Path, bytes] = {}
        contents: dict[_Inode, bytes] = {}
        for path, survivor in chosen.items():
            if survivor is not None:
                if survivor not in contents:
                    contents[survivor] = survivor.after_crash(self.rng)
                survivors[path] = contents[survivor]
        self._leave(survivors)
        self._reset()
        self.settle()

    def _leave(self, survivors: dict[Path, bytes]) -> None:
        """Have these files, as far as their folders are left, and no others."""
        for path in self._files():
            path.unlink()
        for folder in sorted(self._unsynced_folders):
            if self.rng.random() < 0.5:
                shutil.rmtree(folder, ignore_errors=True)
        for path, data in survivors.items():
            if path.parent.exists():
                path.write_bytes(data)

    def settle(self) -> None:
        """Take the folder as it is, with every byte and every name on the disk."""
        self._names = {path: _Inode(bytearray(path.read_bytes())) for path in self._files()}
        self._durable_names = dict(self._names)
        self._past_names.clear()
        self._renames.clear()
        self._unsynced_folders.clear()

    def _reset(self) -> None:
        self.boots += 1
        self.crashing = False
        self._crash_in = None
        self.faults.clear()

    def _files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file()]

    # --- Bookkeeping -----------------------------------------------------------------------------

    def strike(self, operation: str, path: Path) -> Fault | None:
        """Count an operation, and say which fault hits it."""
        if self.crashing:
            raise SimulatedCrash("the machine is off")
        self.counts[operation] += 1
        self.counts[f"{operation} {path.suffix}"] += 1
        if operation not in {"read", "open", "names"}:
            self.trace.append(f"{operation} {path.name}")
            if self._crash_in is not None:
                self.crashing = self._crash_in == 0
                self._crash_in -= 1
        return next((fault for fault in self.faults if fault.strikes(operation, path)), None)

    def fail(self, fault: Fault | None, doing: str, path: Path) -> None:
        """Raise what the fault asks for, or the crash that is due."""
        if self.crashing:
            raise SimulatedCrash(f"power cut while {doing} {path.name}")
        if fault is not None:
            self._refuse(fault, doing, path)

    def _refuse(self, fault: Fault, doing: str, path: Path) -> NoReturn:
        raise translate(OSError(fault.code, os.strerror(fault.code)), doing, path)

    def count_and_fail(self, operation: str, path: Path) -> None:
        """Count an operation that either happens as a whole or not at all."""
        self.fail(self.strike(operation, path), operation, path)

    def _rename_to(self, path: Path, inode: _Inode | None) -> None:
        past = self._past_names.setdefault(path, [self._durable_names.get(path)])
        past.append(inode)
        if inode is None:
            self._names.pop(path, None)
        else:
            self._names[path] = inode

    # --- The disk --------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> FaultyFile:
        with self.lock:
            self.count_and_fail("open", path)
            if create and path not in self._names:
                self.count_and_fail("create", path)
            real = self._real.open(path, create=create, write=write)
            if path not in self._names:
                self._rename_to(path, _Inode())
            return FaultyFile(self, real, self._names[path])

    def names(self, folder: Path) -> list[str]:
        with self.lock:
            self.count_and_fail("names", folder)
            return self._real.names(folder)

    def exists(self, path: Path) -> bool:
        return self._real.exists(path)

    def size(self, path: Path) -> int:
        return self._real.size(path)

    def modified_ms(self, path: Path) -> int:
        return self._real.modified_ms(path)

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        self._real.set_modified_ms(path, modified_ms)

    def make_folder(self, folder: Path) -> None:
        with self.lock:
            if not folder.exists():
                self.count_and_fail("make_folder", folder)
            self._real.make_folder(folder)

    def create_folder(self, folder: Path) -> list[Path]:
        with self.lock:
            if not folder.exists():
                self.count_and_fail("make_folder", folder)
            made = self._real.create_folder(folder)
            self._unsynced_folders.update(made)
            return made

    def rename(self, source: Path, target: Path) -> None:
        with self.lock:
            self.count_and_fail("rename", target)
            self._real.rename(source, target)
            inode = self._names[source]
            self._renames.append((source, target, inode))
            self._rename_to(source, None)
            self._rename_to(target, inode)

    def remove(self, path: Path) -> None:
        with self.lock:
            if path not in self._names:
                return
            self.count_and_fail("remove", path)
            self._real.remove(path)
            self._rename_to(path, None)

    def remove_folder(self, folder: Path) -> None:
        with self.lock:
            self.count_and_fail("remove_folder", folder)
            self._real.remove_folder(folder)
            for path in [path for path in self._names if path.is_relative_to(folder)]:
                self._rename_to(path, None)

    def sync_all(self, folder: Path) -> bool:
        with self.lock:
            self.sync_threads.add(threading.current_thread().name)
            self.count_and_fail("sync_all", folder)
            for inode in self._names.values():
                inode.sync()
            self._keep_names(list(self._past_names))
            self._renames.clear()
            self._unsynced_folders.clear()
            return True

    def sync_folder(self, folder: Path) -> None:
        with self.lock:
            self.sync_threads.add(threading.current_thread().name)
            self.count_and_fail("sync_folder", folder)
            self._unsynced_folders = {
                each for each in self._unsynced_folders if each.parent != folder
            }
            self._renames = [rename for rename in self._renames if rename[1].parent != folder]
            self._keep_names([path for path in self._past_names if path.parent == folder])

    def _keep_names(self, paths: list[Path]) -> None:
        """Let names mean on the disk what they mean now."""
        for path in paths:
            inode = self._past_names.pop(path)[-1]
            if inode is None:
                self._durable_names.pop(path, None)
            else:
                self._durable_names[path] = inode

    def usage(self, folder: Path) -> DiskUsage:
        return self._real.usage(folder)

"""What happens to the disk and to the clock of a node; see `support.faults`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.partitions.partitions import BOOK_FILE
from goqueue.partitions.replication.watermark_file import FILE as WATERMARKS
from goqueue.records import walk
from goqueue.runtime.disk import SystemDisk
from goqueue.storage.checkpoints.checkpoint import load_checkpoint
from goqueue.storage.naming import CHECKPOINT, SNAPSHOT_PREFIX
from support.cluster_nodes import BROKER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.cluster_nodes import ClusterNode, ClusterNodes
    from support.trouble import Trouble

_STOPPING_S: Final = 10.0
"""So long after there is room again, a node that was to stop for lack of it has stopped."""
TORN: Final = (
    "topics/[!_]*/*/*/*.log",
    "topics/__*/*/*/*.log",
    f"topics/*/*/*/{CHECKPOINT}",
    f"topics/*/*/*/{SNAPSHOT_PREFIX}*",
    "topics/*/*/*/*index",
    WATERMARKS,
    BOOK_FILE,
)
"""Sorts of files: segments, leader epochs, snapshots, indexes, watermarks, log summaries."""
_SYNCS: Final = "fsync,fdatasync,syncfs"
_CLOCK: Final = Path(__file__).with_name("stepped_clock.c")


def fail_syncs(trouble: Trouble) -> None:
    """The disk of one broker fails to sync for a while."""
    _inject(trouble, _SYNCS, "error=EIO:when=1+3")


def fail_writes(trouble: Trouble) -> None:
    """Some writes to files of one broker fail for a while."""
    _inject(trouble, "pwrite64", "error=EIO:when=1+7")


def slow_syncs(trouble: Trouble) -> None:
    _inject(trouble, _SYNCS, f"delay_enter={trouble.luck.choice([50, 300, 1500])}000")


def _inject(trouble: Trouble, calls: str, what: str) -> None:
    node = trouble.luck.choice([trouble.leader(), trouble.any()])
    pids = node.pids(BROKER)
    trouble.say(f"{calls} of broker {node.number}: {what}")
    command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}"]
    command += ["-e", f"inject={calls}:{what}", *(f"-p{pid}" for pid in pids)]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        trouble.rest(1, 4)
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()


def tear_files(trouble: Trouble) -> None:
    """A node is killed, and the ends of some of its files are not what was written.

    One of each sort: internal topics have logs and epochs as well.
    """
    node = trouble.any()
    trouble.say(f"tear files of {node.number}")
    node.kill()
    for sort in TORN:
        found = sorted(each for each in node.data_dir.glob(sort) if each.stat().st_size)
        if found:
            _tear(trouble, trouble.luck.choice(found))
    trouble.cluster.restart(node)


def _tear(trouble: Trouble, path: Path) -> None:
    size = path.stat().st_size
    count = trouble.luck.randint(1, min(size, 200))
    how = trouble.luck.choice(["cut", "zero", "flip"])
    trouble.say(f"{how} the last {count} bytes of {path}")
    with path.open("r+b") as file:
        if how == "cut":
            file.truncate(size - count)
            return
        file.seek(size - count)
        data = bytearray(file.read(count)) if how == "flip" else bytearray(count)
        if how == "flip":
            data[trouble.luck.randrange(count)] ^= 1 << trouble.luck.randrange(8)
        file.seek(size - count)
        file.write(data)


def cut_power(trouble: Trouble) -> None:
    """A machine goes off: what was not synced is lost, and the next boot is another one."""
    node = trouble.luck.choice([trouble.leader(), trouble.any()])
    trouble.say(f"cut the power of {node.number}")
    node.kill()
    for folder in {each.parent for each in node.data_dir.glob("topics/*/*/*/*.log")}:
        _lose_unsynced(trouble, folder)
    identity = node.data_dir / "node.json"
    if identity.exists():
        identity.write_text(
            re.sub('"boot_id":"[^"]*"', '"boot_id":"another"', identity.read_text())
        )
    trouble.rest(0.2, 3)
    trouble.cluster.restart(node)


def _lose_unsynced(trouble: Trouble, folder: Path) -> None:
    """Cut a log somewhere between what is known to be synced and its end."""
    checkpoint = load_checkpoint(SystemDisk(), folder)
    synced = checkpoint.recovery_point if checkpoint is not None else 0
    newest = max(folder.glob("*.log"))
    data = newest.read_bytes()
    safe = 0
    with suppress(GoQueueError):
        for at, info in walk(data):
            if info.next_offset <= synced:
                safe = at + info.size_bytes
    os.truncate(newest, trouble.luck.randint(safe, len(data)))


def fill_disk(trouble: Trouble) -> None:
    """The disk of one node is full for a while."""
    node = trouble.luck.choice([trouble.leader(), trouble.any()])
    trouble.say(f"fill the disk of {node.number}")
    filling = node.data_dir / "filling"
    try:
        with suppress(OSError), filling.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        trouble.rest(2, 6)
    finally:
        filling.unlink()
    _start_again(trouble, node)


def _start_again(trouble: Trouble, node: ClusterNode) -> None:
    """A node whose etcd cannot write stops and says so: its operator makes room and starts it."""
    until_s = time.monotonic() + _STOPPING_S
    while node.is_running and time.monotonic() < until_s:
        time.sleep(0.1)
    if not node.is_running:
        node.wait()
        trouble.cluster.launch(node)
    trouble.cluster.wait_ready(node)


@contextmanager
def small_disks(cluster: ClusterNodes, size_mb: int) -> Iterator[None]:
    """Each node has a disk of its own, so that it can be full."""
    mounted: list[Path] = []
    try:
        for node in cluster.nodes.values():
            node.data_dir.mkdir(parents=True, exist_ok=True)
            size = f"size={size_mb}m"
            command = ["mount", "-t", "tmpfs", "-o", size, "goqueue-chaos", str(node.data_dir)]
            if os.geteuid() or subprocess.run(command, check=False).returncode:
                break
            mounted.append(node.data_dir)
        yield
    finally:
        for path in mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=False)


def lose_folder(trouble: Trouble) -> None:
    """A node comes back with nothing but its etcd."""
    node = trouble.any()
    trouble.say(f"lose the folder of {node.number}")
    node.kill()
    for each in node.data_dir.iterdir():
        if each.name != "etcd":
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    trouble.cluster.restart(node)


def lose_etcd_folder(trouble: Trouble) -> None:
    """A node comes back without its etcd, or with nothing at all; the others take it in again."""
    node = trouble.any()
    lost = trouble.luck.choice([["etcd"], [each.name for each in node.data_dir.iterdir()]])
    trouble.say(f"lose {', '.join(sorted(lost))} of {node.number}")
    node.kill()
    for name in lost:
        path = node.data_dir / name
        if path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    trouble.cluster.restart(node)


def step_clock(trouble: Trouble) -> None:
    """The wall clock of one node jumps, and comes back."""
    node = trouble.any()
    step_s = trouble.luck.choice([-600, -60, 60, 600])
    trouble.say(f"clock of {node.number} by {step_s:+d} s")
    file = _clock_file(trouble.cluster.folder, node.number)
    with ExitStack() as back:
        back.callback(_set_clock, file, 0)
        _set_clock(file, step_s)
        trouble.rest(2, 8)


def _clock_file(folder: Path, number: int) -> Path:
    """What says how far a node's wall clock is ahead."""
    return folder / f"clock-{number}"


def _set_clock(file: Path, ahead_s: int) -> None:
    """In place: the node has it mapped."""
    file.touch()
    with file.open("r+b") as opened:
        opened.write(ahead_s.to_bytes(8, sys.byteorder, signed=True))


def set_clock(folder: Path, number: int, ahead_s: int) -> None:
    """Let the wall clock of a node be ahead by so much."""
    _set_clock(_clock_file(folder, number), ahead_s)


def has_clocks(trouble: Trouble) -> bool:
    """Whether the clocks of the nodes can be stepped."""
    return _clock_file(trouble.cluster.folder, 1).exists()


def clock_environment(folder: Path, number: int) -> dict[str, str]:
    """Lets the clock of a node be stepped, where there is a C compiler."""
    library, compiler = folder / "stepped_clock.so", shutil.which("cc")
    if compiler is None:
        return {}
    if not library.exists():
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(_CLOCK), "-ldl"]
        subprocess.run(command, check=True)
    file = _clock_file(folder, number)
    _set_clock(file, 0)
    return {"LD_PRELOAD": str(library.absolute()), "STEPPED_CLOCK": str(file.absolute())}

"""What the nodes of a cluster have on their disks, and whether it is the same, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.records import walk
from goqueue.storage.naming import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Batches = dict[int, bytes]
"""By the offset after it: a batch."""


def stored(data_dir: Path, topic: str) -> dict[int, Batches]:
    """The batches of a topic that a node has, by partition. The node does not have to be stopped:
    what it is writing at the moment may be missing.
    """
    found: dict[int, Batches] = {}
    for segment in sorted((data_dir / "topics" / topic).glob(f"*/*/*{LOG}")):
        part = found.setdefault(int(segment.parent.name), {})
        data = segment.read_bytes()
        for at, info in walk(data):
            part[info.next_offset] = data[at : at + info.size_bytes]
    return found


def differences(folders: dict[int, Path], topic: str, watermarks: dict[int, int]) -> Iterator[str]:
    """Where replicas of a topic differ below the high watermark; each node has every partition."""
    replicas = {node: stored(folder, topic) for node, folder in folders.items()}
    for partition, end in watermarks.items():
        logs = {
            node: {to: each for to, each in found.get(partition, {}).items() if to <= end}
            for node, found in replicas.items()
        }
        everything = sorted({to for log in logs.values() for to in log})
        if everything and everything[-1] != end:
            yield f"{topic}-{partition} ends at {everything[-1]}, its watermark is {end}"
        for to in everything:
            missing = [node for node, log in logs.items() if to not in log]
            if missing:
                yield f"{topic}-{partition}: nodes {missing} lack the batch before {to}"
            elif len({log[to] for log in logs.values()}) > 1:
                yield f"{topic}-{partition}: the batch before {to} is not the same everywhere"

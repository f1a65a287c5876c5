"""What of a partition an earlier backup has copied, and is still true.

A log that only grows is the same up to where it was copied, as long as it has the last batch of
that; it does not matter which node leads it by now. Of a log that is compacted that is so for each
segment: compaction replaces segments, and the last batch is not where it was then.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from goqueue.model.errors import BatchError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.backup.manifest import Manifest, Part
    from goqueue.backup.repository import JournalEntry
    from goqueue.storage.lookup import LogView

PartitionKey: TypeAlias = tuple[str, int, bool]
"""A topic's id, the number of a partition, and whether the log is compacted."""


class KnownParts:
    """The parts that are in a repository already."""

    def __init__(self) -> None:
        self._parts: dict[PartitionKey, dict[int, Part]] = defaultdict(dict)

    def add_manifest(self, manifest: Manifest) -> None:
        """Those of a backup."""
        for topic in manifest.topics:
            for partition in topic.partitions:
                key = topic.topic_id, partition.number, topic.is_compacted
                for part in partition.parts:
                    self._parts[key][part.first_offset] = part

    def add_journal(self, entries: Iterable[JournalEntry]) -> None:
        """Those that an unfinished backup has copied."""
        for each in entries:
            key = each.topic_id, each.partition, each.is_compacted
            self._parts[key].setdefault(each.part.first_offset, each.part)

    def of(self, key: PartitionKey) -> dict[int, Part]:
        """Those of a partition, by where they begin."""
        return self._parts.get(key, {})


def reusable(view: LogView, known: dict[int, Part], *, is_compacted: bool) -> list[Part]:
    """The parts that need not be copied again, in order; reads the disk."""
    found = sorted(known.values(), key=lambda part: part.first_offset)
    if is_compacted:
        return _of_segments(view, found)
    chain: list[Part] = []
    for part in found:
        if part.end_offset <= view.start_offset or part.end_offset > view.end_offset:
            continue
        if part.first_offset > (chain[-1].end_offset if chain else view.start_offset):
            break
        if chain and part.first_offset < chain[-1].end_offset:
            continue
        chain.append(part)
    return chain if chain and _is_there(view, chain[-1]) else []


def _of_segments(view: LogView, found: Sequence[Part]) -> list[Part]:
    by_segment: dict[int, list[Part]] = defaultdict(list)
    for part in found:
        by_segment[part.segment].append(part)
    kept: list[Part] = []
    for segment in view.segments:
        begin = max(segment.base_offset, view.start_offset)
        chain: list[Part] = []
        for part in by_segment.get(segment.base_offset, ()):
            if part.first_offset != begin or part.end_offset > view.end_offset:
                break
            chain.append(part)
            begin = part.end_offset
        if chain and _is_there(view, chain[-1], in_place=True):
            kept += chain
    return kept


def _is_there(view: LogView, part: Part, *, in_place: bool = False) -> bool:
    """Whether the log has the last batch of a part, and `in_place` where it was in its file."""
    try:
        found = view.place_of(part.last_base_offset)
    except (BatchError, StorageError):
        return False
    if found is None:
        return False
    position, info = found
    is_same = (info.base_offset, info.crc) == (part.last_base_offset, part.last_crc)
    return is_same and (position == part.last_position or not in_place)

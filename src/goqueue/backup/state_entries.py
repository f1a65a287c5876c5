"""The state of coordinators in a backup: keys and values, as their shards store them again.

A shard of the restored broker appends them to its own log: what it may have stored before stays
where the keys differ, and the offsets of such a log mean nothing to anybody. What only the old
broker could know is left out: the epochs of its leaders and coordinators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import mmh3
import msgspec

from goqueue.delays.book import without_slot_files
from goqueue.delays.deltas import Confirmed, encode_delta
from goqueue.delays.entries import CLASSES
from goqueue.groups import encoding as groups
from goqueue.groups.effects import Entry as GroupEntry
from goqueue.model.errors import CorruptGroupStateError, UnsupportedFormatError
from goqueue.model.ids import NO_EPOCH
from goqueue.model.internal_topics import (
    CONSUMER_OFFSETS,
    DELAY_STATE,
    QUEUE_STATE,
    TRANSACTION_STATE,
)
from goqueue.records import decode_rows
from goqueue.records.batch import walk
from goqueue.state.log import BEGIN, END, StateEntry
from goqueue.transactions.series import series_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from goqueue.backup.manifest import PartitionCopy
    from goqueue.backup.repository import Repository

_PLACE_BYTES: Final = 20
_LENGTH_BYTES: Final = 2

Routed: TypeAlias = "tuple[str | None, StateEntry] | None"
"""What an entry belongs to, and the entry; without a name it stays in the partition that it was in.
None: it means nothing to another broker."""


def entries_in(repository: Repository, topic: str, copy: PartitionCopy) -> list[StateEntry]:
    """Everything that counts in the copy of one partition; reads the repository.

    A log of changes has snapshots in itself: what lies before the last whole one is not needed, and
    its beginning may have been trimmed. Changes may lie among the entries of a snapshot. Where a
    log is restored as one, its markers stay and tell them apart; all others are put together from
    several, and each of their entries stands for itself.
    """
    found: list[StateEntry] = []
    begins_at = whole_at = 0
    for part in copy.parts:
        data = repository.read(part.file)
        for position, info in walk(data):
            if info.is_control:
                continue
            for record in decode_rows(data, position):
                if record.key is None or record.offset < copy.log_start:
                    continue
                if record.key == BEGIN:
                    begins_at = len(found)
                elif record.key == END:
                    whole_at = begins_at
                found.append((record.key, record.value))
    if topic == DELAY_STATE:
        return found[whole_at:]
    return [each for each in found[whole_at:] if each[0] not in {BEGIN, END}]


def routed(topic: str) -> Callable[[StateEntry], Routed]:
    """How the entries of an internal topic find their partition."""
    return _ROUTES.get(topic, _stays)


def partition_of(name: str, count: int) -> int:
    """The partition that a group or a transactional id belongs to, of so many."""
    number: int = mmh3.hash(name, signed=False)
    return number % count


def _stays(entry: StateEntry) -> Routed:
    return None, entry


def _of_group(entry: StateEntry) -> Routed:
    """An offset keeps no leader epoch: the leaders of the restored topic begin anew.

    A client that was told an epoch which its leader does not know would take what it has read for
    lost.
    """
    try:
        key, value = groups.decode(GroupEntry(*entry))
    except (CorruptGroupStateError, UnsupportedFormatError):
        return None
    if isinstance(key, groups.FenceKey):
        return None
    if isinstance(value, groups.CommittedOffset):
        value = msgspec.structs.replace(value, leader_epoch=NO_EPOCH)
        stored = groups.put(key, value)
        return key.group_id, (stored.key, stored.value)
    return key.group_id, entry


def _of_queue(entry: StateEntry) -> Routed:
    key = entry[0]
    kind, rest = key[:1], key[1:]
    if kind == b"q":
        rest = rest[_PLACE_BYTES:]
    elif kind == b"m":
        length = int.from_bytes(rest[:_LENGTH_BYTES], "big")
        rest = rest[_LENGTH_BYTES : _LENGTH_BYTES + length]
    return rest.decode(errors="replace"), entry


def _of_delays(entry: StateEntry) -> Routed:
    """When messages are due is read from their log: the files that told are on another disk."""
    kept = without_slot_files(*entry)
    return None if kept is None else (None, kept)


def all_confirmed(copies: Iterable[PartitionCopy]) -> StateEntry:
    """Says that every delayed message counts of the partitions of one unit.

    Otherwise the leaders of their partitions would be asked for the rest of each batch in the epoch
    of a leader that is gone, and would not find it: better half of a batch whose producer was never
    answered than not all of one that was acknowledged.
    """
    ends = [0] * CLASSES
    for each in copies:
        ends[each.number % CLASSES] = each.end_offset
    return encode_delta(Confirmed(tuple(ends)))


def _of_transaction(entry: StateEntry) -> Routed:
    return series_of(entry[0][1:].decode(errors="replace")), entry


_ROUTES: Final[dict[str, Callable[[StateEntry], Routed]]] = {
    CONSUMER_OFFSETS: _of_group,
    DELAY_STATE: _of_delays,
    QUEUE_STATE: _of_queue,
    TRANSACTION_STATE: _of_transaction,
}


def in_portions(entries: list[StateEntry], max_bytes: int) -> Iterator[list[StateEntry]]:
    """The entries in order, so many bytes at a time."""
    some: list[StateEntry] = []
    size = 0
    for key, value in entries:
        some.append((key, value))
        size += len(key) + len(value or b"")
        if size >= max_bytes:
            yield some
            some, size = [], 0
    if some:
        yield some

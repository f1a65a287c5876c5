"""What is stored of queue groups, as keys and values, and how it is read again.

A group is its settings under one key; each partition that it reads is a series of operations under
another, or the whole queue in a snapshot. Where entries are damaged, later ones may speak of groups
and queues that nothing says the beginning of. Those begin as carefully as possible: messages may
then be redelivered, and none is skipped.
"""

from __future__ import annotations

import struct
from array import array
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from goqueue.model.errors import CorruptQueueStateError, InvariantError
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.group import QueueGroup
from goqueue.queues.delivery.members import SharedMember
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.state.log import BEGIN, END, StateEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.queues.delivery.operations import Operation

_GROUP: Final = b"g"
_QUEUE: Final = b"q"
_MEMBER: Final = b"m"
_LENGTH: Final = struct.Struct(">H")
_PLACE: Final = struct.Struct(">16sI")
_CHANGES: Final = 0
_WHOLE: Final = 1
_DEAD: Final = 2
"""Behind a whole queue: its dead messages."""
_LEASES: Final = 3
"""Before a whole queue: leases of it."""
_AT_ONCE: Final = 1000
"""Dead messages, or leases, in one entry of a snapshot."""
_UNREADABLE: Final = (
    CorruptQueueStateError,
    InvariantError,
    KeyError,
    msgspec.MsgspecError,
    struct.error,
)


def settings_entry(group_id: str, settings: QueueSettings) -> tuple[bytes, bytes]:
    """A group's settings."""
    return group_key(group_id), msgspec.json.encode(settings)


def group_key(group_id: str) -> bytes:
    """Where a group's settings are stored."""
    return _GROUP + group_id.encode()


def queue_key(group: QueueGroup, place: TopicIdPartition) -> bytes:
    """Where it is stored what happens to the messages of a partition in a group."""
    return _QUEUE + _PLACE.pack(place[0].bytes, place[1]) + group.group_id.encode()


def member_key(group: QueueGroup, member_id: str) -> bytes:
    """Where it is stored that a member is there."""
    name = group.group_id.encode()
    return _MEMBER + _LENGTH.pack(len(name)) + name + member_id.encode()


def member_entry(group: QueueGroup, member: SharedMember) -> tuple[bytes, bytes]:
    """A member that takes from every partition of its topics."""
    said = (sorted(member.topics), member.client_id, member.client_host, member.session_ms)
    return member_key(group, member.member_id), msgspec.msgpack.encode(said)


def changes_entry(
    group: QueueGroup, place: TopicIdPartition, operations: list[Operation]
) -> tuple[bytes, bytes]:
    """What has happened to messages of a partition."""
    return queue_key(group, place), bytes((_CHANGES,)) + ops.encode(operations)


def dump(groups: dict[str, QueueGroup]) -> Iterator[tuple[bytes, bytes]]:
    """Everything that is there, for a snapshot; each entry is true when it is drawn.

    What is gone when it has its turn is left out: the log says so behind the marker of the
    beginning. Leases are drawn over several turns before their queue, those that are new by then
    with it; whoever replays leaves out those that have nothing left. Dead messages are drawn behind
    it; whoever replays leaves out those that are dead no more.
    """
    for group in list(groups.values()):
        if groups.get(group.group_id) is not group:
            continue
        yield settings_entry(group.group_id, group.settings)
        for member in [each for each in group.members if each.is_stored]:
            if member.member_id in group.members:
                yield member_entry(group, member)
        for place, queue in list(group.queues.items()):
            key = queue_key(group, place)
            leases = array("I", queue.window.leases)
            yield from _dump_leases(key, queue, leases)
            if groups.get(group.group_id) is group and group.queues.get(place) is queue:
                yield from _dump_queue(key, queue, frozenset(leases))


def _dump_leases(
    key: bytes, queue: PartitionQueue, leases: array[int]
) -> Iterator[tuple[bytes, bytes]]:
    for at in range(0, len(leases), _AT_ONCE):
        some = queue.window.dump_leases(leases[at : at + _AT_ONCE])
        yield key, bytes((_LEASES,)) + msgspec.msgpack.encode(some)


def _dump_queue(
    key: bytes, queue: PartitionQueue, drawn: frozenset[int]
) -> Iterator[tuple[bytes, bytes]]:
    new = list(takewhile(lambda number: number not in drawn, reversed(queue.window.leases)))
    dead = tuple(queue.dooms)  # of plain numbers: the garbage collector does not look at it again
    # Those that are about to be moved stay with what says so.
    moving = {offset for each in queue.moving for offset in each.offsets}
    yield key, bytes((_WHOLE,)) + msgspec.msgpack.encode(queue.dump(moving, new))
    for at in range(0, len(dead), _AT_ONCE):
        offsets = dead[at : at + _AT_ONCE]
        dooms = [(each, queue.dooms[each]) for each in offsets if each in queue.dooms]
        yield key, bytes((_DEAD,)) + msgspec.msgpack.encode(dooms)


class QueueReplay:
    """Builds the groups of one shard from what is stored.

    It asks for no partition: another node may have them all, and what is stored of messages counts.
    """

    def __init__(self, on_lost: Callable[[str], None]) -> None:
        """Tell `on_lost` what cannot be known any more."""
        self.groups: dict[str, QueueGroup] = {}
        self._on_lost = on_lost
        self._ended: set[bytes] = set()
        """Keys of groups and queues that were given up. What is said of them later, by requests
        that were under way, has no meaning."""
        self._leases: dict[bytes, dict[int, Any]] = {}
        """By the key of a queue that a snapshot has not come to yet."""
        self._is_partial = False
        """The log begins with a snapshot whose end is not reached: what is said of queues that it
        has not come to yet is in what it will say."""
        self._is_first = True

    def take(self, entries: Iterable[StateEntry], *, is_damaged: bool) -> Iterator[None]:
        """Take in entries in the order of the log; some before them may be lost.

        That is done as the steps are drawn, each of which is short.
        """
        for key, value in entries:
            if key in (BEGIN, END):
                self._leases.clear()
                self._is_partial = key == BEGIN and (self._is_partial or self._is_first)
                self._is_first = False
                continue
            self._is_first = False
            try:
                yield from self._apply(key, value, is_damaged=is_damaged)
            except _UNREADABLE as error:
                self._on_lost(f"an entry of {_name(key)} is lost: {error}")
            yield

    def _apply(self, key: bytes, value: bytes | None, *, is_damaged: bool) -> Iterator[None]:
        if key[:1] == _MEMBER:
            self._apply_member(key, value)
            return
        self._note_end(key, value)
        if key[:1] == _GROUP:
            self._apply_group(key[1:].decode(), value)
            return
        topic_id, number = _PLACE.unpack_from(key, 1)
        place = (UUID(bytes=topic_id), number)
        group_id = key[1 + _PLACE.size :].decode()
        group = self.groups.get(group_id)
        if group is None and is_damaged and _GROUP + group_id.encode() not in self._ended:
            group = self._begin_group(group_id)
        if group is None:
            return
        if value is not None and value[0] == _WHOLE:
            group.close(place)
            dumped = self._with_leases(key, msgspec.msgpack.decode(value[1:]))
            queue = PartitionQueue(0, group.unacked)
            yield from queue.restore(dumped)
            group.queues[place] = queue
        else:
            self._apply_queue(group, place, key, value, is_damaged=is_damaged)

    def _apply_queue(
        self,
        group: QueueGroup,
        place: TopicIdPartition,
        key: bytes,
        value: bytes | None,
        *,
        is_damaged: bool,
    ) -> None:
        if value is None:
            group.close(place)
        elif value[0] == _LEASES:
            leases = msgspec.msgpack.decode(value[1:])
            self._leases.setdefault(key, {}).update((lease[0], lease) for lease in leases)
        elif value[0] == _DEAD:
            if place in group.queues:
                group.queues[place].add_dead(msgspec.msgpack.decode(value[1:]))
        elif key not in self._ended:
            operations = ops.decode(value[1:])
            is_known = place in group.queues or _is_beginning(operations)
            if self._is_partial and not is_known:
                return
            if is_damaged and not is_known:
                self._begin_queue(group, place)
            for operation in operations:
                group.apply(place, operation)

    def _with_leases(self, key: bytes, dumped: dict[str, Any]) -> dict[str, Any]:
        """A whole queue, with the leases that were drawn before it."""
        leases = self._leases.pop(key, {})
        leases.update((lease[0], lease) for lease in dumped["window"]["leases"])
        dumped["window"]["leases"] = leases.values()
        return dumped

    def _note_end(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._ended.add(key)
        elif key in self._ended and (key[:1] == _GROUP or _begins(value)):
            self._ended.discard(key)

    def _apply_group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.groups.pop(group_id, None)
            return
        settings = msgspec.json.decode(value, type=QueueSettings)
        if group_id in self.groups:
            self.groups[group_id].configure(settings)
            self.groups[group_id].settings_are_lost = False
        else:
            self.groups[group_id] = QueueGroup(group_id, settings)

    def _apply_member(self, key: bytes, value: bytes | None) -> None:
        (size,) = _LENGTH.unpack_from(key, 1)
        at = 1 + _LENGTH.size + size
        group = self.groups.get(key[1 + _LENGTH.size : at].decode())
        member_id = key[at:].decode()
        if group is None:
            return
        if value is not None:
            topics, client_id, host, session_ms = msgspec.msgpack.decode(value)
            member = SharedMember(member_id, frozenset(topics), client_id, host, session_ms)
            member.is_stored = True
            group.members.join(member, 0)
        elif member_id in group.members:
            group.members.leave(member_id)

    def _begin_group(self, group_id: str) -> QueueGroup:
        """Go on with a group whose settings are lost."""
        self._on_lost(
            f"the settings of queue group {group_id!r} are lost: it has the defaults until a "
            "member joins"
        )
        group = self.groups[group_id] = QueueGroup(group_id, QueueSettings())
        group.settings_are_lost = True
        return group

    def _begin_queue(self, group: QueueGroup, place: TopicIdPartition) -> None:
        """Go on with a queue of which it is lost where it began: nothing may be skipped."""
        self._on_lost(
            f"where queue group {group.group_id!r} began to read partition {place[1]} of topic "
            f"{place[0]} is lost: it begins at the log start"
        )
        group.apply(place, ops.Opened(0))


def _begins(value: bytes) -> bool:
    """Whether an entry of a queue needs nothing that was said before."""
    if value[0] == _CHANGES:
        return _is_beginning(ops.decode(value[1:]))
    return value[0] == _WHOLE


def _is_beginning(operations: list[Operation]) -> bool:
    return bool(operations) and isinstance(operations[0], ops.Opened)


def _name(key: bytes) -> str:
    """What an entry is about, for a person."""
    if key[:1] == _MEMBER:
        name = key[1 + _LENGTH.size :]
    else:
        name = key[1:] if key[:1] == _GROUP else key[1 + _PLACE.size :]
    return f"queue group {name[:80].decode(errors='replace')!r}"

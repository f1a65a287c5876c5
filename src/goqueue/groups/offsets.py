"""How far one group has read: committed offsets, and those of transactions still open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.effects import Effects, Entry, OffsetMove
from goqueue.groups.encoding import CommittedOffset, OffsetKey, PendingOffsetKey, put, remove
from goqueue.model.errors import InvariantError, OffsetMetadataTooLargeError
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from goqueue.groups.messages import OffsetToCommit
    from goqueue.groups.settings import GroupSettings


class OffsetStore:
    """The offsets of one group."""

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self._settings = settings
        self._pending: dict[int, dict[TopicPartition, CommittedOffset]] = {}
        """Producer id to what its open transaction will commit."""

    def __bool__(self) -> bool:
        return bool(self.committed or self._pending)

    # --- Commits -------------------------------------------------------------------------------

    def commit(
        self,
        item: OffsetToCommit,
        now_ms: int,
        out: Effects,
        *,
        retention_ms: int | None = None,
        is_reset: bool = False,
    ) -> None:
        """Note how far a partition is read.

        Raises:
            OffsetMetadataTooLargeError: the note that comes with it is too long.
        """
        part, offset = self._checked(item, now_ms, retention_ms)
        self._set(part, offset, out, is_reset=is_reset)

    def _checked(
        self, item: OffsetToCommit, now_ms: int, retention_ms: int | None
    ) -> tuple[TopicPartition, CommittedOffset]:
        limit = self._settings.offset_metadata_max_chars
        if len(item.metadata) > limit:
            raise OffsetMetadataTooLargeError(
                f"the metadata of the offset has {len(item.metadata)} characters, {limit} are "
                "allowed (offset.metadata.max.bytes)"
            )
        expire_at_ms = None if retention_ms is None else now_ms + retention_ms
        return TopicPartition(item.topic, item.partition), CommittedOffset(
            item.offset, item.leader_epoch, item.metadata, now_ms, expire_at_ms
        )

    def _set(
        self, part: TopicPartition, offset: CommittedOffset, out: Effects, *, is_reset: bool = False
    ) -> None:
        known = self.committed.get(part)
        before = None if known is None else known.offset
        out.moves.append(OffsetMove(self.group_id, part, before, offset.offset, is_reset))
        self.committed[part] = offset
        out.persist.append(put(OffsetKey(self.group_id, *part), offset))

    def _drop(self, part: TopicPartition, out: Effects) -> None:
        del self.committed[part]
        out.persist.append(remove(OffsetKey(self.group_id, *part)))

    # --- Transactions --------------------------------------------------------------------------

    def stage(self, producer_id: int, item: OffsetToCommit, now_ms: int, out: Effects) -> None:
        """Note what a transaction will commit; nobody reads it until `complete`.

        Raises:
            OffsetMetadataTooLargeError: the note that comes with it is too long.
        """
        part, offset = self._checked(item, now_ms, None)
        self._pending.setdefault(producer_id, {})[part] = offset
        key = PendingOffsetKey(self.group_id, producer_id, *part)
        out.persist.append(put(key, offset))

    def complete(self, producer_id: int, out: Effects, *, commit: bool) -> int:
        """End a producer's transaction: what it staged counts, or never was.

        Returns how many offsets it has committed.
        """
        staged = self._pending.pop(producer_id, {})
        for part, offset in staged.items():
            if commit:
                self._set(part, offset, out)
            out.persist.append(remove(PendingOffsetKey(self.group_id, producer_id, *part)))
        return len(staged) if commit else 0

    def staged(self, producer_id: int) -> tuple[tuple[TopicPartition, int, int], ...]:
        """What a producer has staged, and when."""
        staged = self._pending.get(producer_id, {})
        return tuple((part, each.offset, each.committed_at_ms) for part, each in staged.items())

    def is_pending(self, part: TopicPartition) -> bool:
        """Whether an open transaction is about to change the offset of a partition."""
        return any(part in staged for staged in self._pending.values())

    @property
    def pending_producers(self) -> Iterable[int]:
        """The producers with an open transaction here."""
        return self._pending.keys()

    # --- Removal -------------------------------------------------------------------------------

    def delete(self, part: TopicPartition, out: Effects) -> None:
        """Forget a partition, if it is known."""
        if part in self.committed:
            self._drop(part, out)

    def delete_topic(self, topic: str, out: Effects) -> None:
        """Forget a topic that is gone, also what transactions were about to say of it."""
        for part in [part for part in self.committed if part[0] == topic]:
            self._drop(part, out)
        for producer_id, staged in list(self._pending.items()):
            for part in [part for part in staged if part[0] == topic]:
                del staged[part]
                out.persist.append(remove(PendingOffsetKey(self.group_id, producer_id, *part)))
            if not staged:
                del self._pending[producer_id]

    def expire(self, now_ms: int, expires_from: Callable[[str], int | None], out: Effects) -> int:
        """Forget what is too old; how many offsets that were."""
        retention_ms = self._settings.offsets_retention_ms
        since = {topic: expires_from(topic) for topic in {part[0] for part in self.committed}}
        expired = [
            part
            for part, offset in self.committed.items()
            if offset.is_expired(now_ms, retention_ms, since[part[0]]) and not self.is_pending(part)
        ]
        for part in expired:
            self._drop(part, out)
        return len(expired)

    def clear(self, out: Effects) -> None:
        """Forget everything: the group is deleted."""
        for part in list(self.committed):
            self._drop(part, out)
        for producer_id in list(self._pending):
            self.complete(producer_id, out, commit=False)

    # --- Loading and dumping -------------------------------------------------------------------

    def load(self, part: TopicPartition, value: CommittedOffset | None) -> None:
        """Take over a stored offset, or that there is none."""
        if value is None:
            self.committed.pop(part, None)
        else:
            self.committed[part] = value

    def load_pending(
        self, producer_id: int, part: TopicPartition, value: CommittedOffset | None
    ) -> None:
        """Take over a stored offset of an open transaction, or that there is none."""
        staged = self._pending.setdefault(producer_id, {})
        if value is None:
            staged.pop(part, None)
        else:
            staged[part] = value
        if not staged:
            del self._pending[producer_id]

    def dump(self) -> Iterator[Entry]:
        """Everything, as the entries that would load it."""
        for part, offset in list(self.committed.items()):
            yield put(OffsetKey(self.group_id, *part), offset)
        for producer_id, staged in list(self._pending.items()):
            for part, offset in list(staged.items()):
                key = PendingOffsetKey(self.group_id, producer_id, *part)
                yield put(key, offset)

    def check_invariants(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""
        if not all(self._pending.values()):
            raise InvariantError(f"an open transaction of group {self.group_id!r} says nothing")

"""Topics that a backup is restored into: made under the ids that they had, closed to writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import replace

from goqueue.topics.replica_assignments import ANYWHERE, Replication

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    import msgspec

_T = TypeVar("_T", bound="msgspec.Struct")


class RestoredTopics(Generic[_T]):
    """The part of a catalogue that restoring changes."""

    catalogue: Any

    def plan(
        self,
        name: str,
        partition_count: int,
        overrides: Mapping[str, str],
        *,
        internal: bool = False,
        replication: Replication = ANYWHERE,
    ) -> _T:
        """The topic that would be made."""
        raise NotImplementedError

    async def _make(self, topic: _T, replication: Replication) -> _T:
        raise NotImplementedError

    async def _store_topic(self, topic: _T) -> _T:
        raise NotImplementedError

    async def restore(
        self,
        name: str,
        partition_count: int,
        overrides: Mapping[str, str],
        topic_id: UUID,
        *,
        replication: Replication = ANYWHERE,
    ) -> _T:
        """Make a topic that a backup is to be restored into; `restored` ends that.

        Raises like `plan`.
        """
        planned = self.plan(name, partition_count, overrides, replication=replication)
        topic = replace(planned, topic_id=topic_id, is_restoring=True)
        return await self._make(topic, replication)

    async def restored(self, name: str) -> _T:
        """Let a topic take messages from now on."""
        return await self._store_topic(replace(self.catalogue.topic(name), is_restoring=False))

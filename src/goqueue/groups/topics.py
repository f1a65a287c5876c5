"""What groups know of topics: a name, an id, a partition count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

TopicsSeen: TypeAlias = "tuple[tuple[str, UUID, int], ...]"
"""Name, id and partition count of each topic that a target was computed from."""


class TopicInfo(msgspec.Struct, frozen=True):
    """One topic, as far as an assignment needs it."""

    topic_id: UUID
    partition_count: int
    is_internal: bool = False


class TopicCatalogue(msgspec.Struct, frozen=True):
    """Every topic at one moment. The caller raises `version` whenever `topics` differs."""

    version: int = 0
    topics: Mapping[str, TopicInfo] = msgspec.field(default_factory=dict)

    def seen(self, names: Iterable[str]) -> TopicsSeen:
        """Everything about topics that a target depends on; missing ones are left out."""
        return tuple(
            (name, self.topics[name].topic_id, self.topics[name].partition_count)
            for name in sorted(names)
            if name in self.topics
        )

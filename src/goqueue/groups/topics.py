"""What groups know of topics: a name, an id, a partition count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

TopicsSeen: TypeAlias = "tuple[tuple[str, UUID, int], ...]"
"""Name, id and partition count of each topic that a target was computed from."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic, as far as an assignment needs it."""

    topic_id: UUID
    partition_count: int
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class TopicCatalogue:
    """Every topic at one moment. The caller raises `version` whenever `topics` differs."""

    version: int = 0
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)

    def seen(self, names: Iterable[str]) -> TopicsSeen:
        """Everything about topics that a target depends on; missing ones are left out."""
        return tuple(
            (name, self.topics[name].topic_id, self.topics[name].partition_count)
            for name in sorted(names)
            if name in self.topics
        )

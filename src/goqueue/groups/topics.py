"""What groups know of topics: a name, an id, a partition count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

TopicPartition: TypeAlias = "tuple[str, int]"
"""A topic's name and the number of one of its partitions; offsets are kept under it."""

TopicIdPartition: TypeAlias = "tuple[UUID, int]"
"""The same by topic id, so that a topic made again under its old name is another topic."""


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

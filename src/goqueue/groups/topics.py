"""What groups know of topics: a name, an id, a partition count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


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

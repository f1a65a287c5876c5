"""A topic as it is kept in the metadata store, and under which keys."""

from __future__ import annotations

from typing import Final

import msgspec

TOPICS: Final = "topics/"
DELETED: Final = "deleted-topics/"
"""One key for each topic whose files are to be removed; it goes when they are gone."""


class StoredTopic(msgspec.Struct, frozen=True, omit_defaults=True):
    """A topic in the metadata store."""

    topic_id: str
    partition_count: int
    overrides: dict[str, str]
    replication_factor: int = 1
    """How many replicas its partitions were made with."""
    is_restoring: bool = False
    """A backup is being restored into it."""
    token: str = ""
    """Of whoever wrote it last; empty on one node, whose answers are never lost."""

"""Which topics there are, whatever this node has heard."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from goqueue.topics.stored_topic import TOPICS, StoredTopic

if TYPE_CHECKING:
    from goqueue.cluster.metadata import MetadataStore


async def stored_ids(store: MetadataStore) -> frozenset[UUID]:
    """The ids of all topics that are in the store. Raises `MetadataError`."""
    snapshot = await store.range(TOPICS)
    stored = (msgspec.msgpack.decode(each.value, type=StoredTopic) for each in snapshot.entries)
    return frozenset(UUID(each.topic_id) for each in stored)

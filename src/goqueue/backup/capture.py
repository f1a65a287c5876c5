"""The partitions of a node at one moment: where each ends, without stopping who writes.

On one node all of it is one step of the event loop, so it is one moment. In a cluster the state of
coordinators is captured on every node before any data is: what they say of data, such as a
committed offset, then never lies past its end.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BackupError
from goqueue.model.internal_topics import (
    AUDIT,
    PIPELINES,
    SCHEMAS,
    WEBHOOKS,
    WEBHOOKS_DEAD,
    is_internal_topic,
)
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from goqueue.partitions.partitions import Partitions
    from goqueue.storage.lookup import LogView
    from goqueue.topics.catalogue import Topic, Topics

_MAX_HELD_FILES: Final = 4096
"""Files of compacted topics that are open for the time of a backup; more are refused."""


class Stage(StrEnum):
    """What is captured, in this order."""

    STATE = "state"
    """Offsets, queues, delays, transactions: what speaks of data."""
    DATA = "data"
    """The topics of users."""
    REGISTRY = "registry"
    """What data speaks of: schemas."""


LEFT_OUT: Final = frozenset({WEBHOOKS, WEBHOOKS_DEAD})
"""Events that wait for their targets: what happened to this cluster, not to a restored one."""
_LAST: Final = frozenset({SCHEMAS, PIPELINES})


def stage_of(topic: str) -> Stage:
    """When a topic has its turn."""
    if not is_internal_topic(topic) or topic == AUDIT:
        return Stage.DATA
    return Stage.REGISTRY if topic in _LAST else Stage.STATE


class CapturedPartition(NamedTuple):
    """One partition that this node leads, up to where it was committed."""

    topic: Topic
    number: int
    view: LogView


class Capture:
    """What a node contributes to a backup."""

    def __init__(self, topics: Topics, partitions: Partitions) -> None:
        self._topics = topics
        self._partitions = partitions
        self.taken: list[CapturedPartition] = []
        self._held = 0

    def take(self, stages: Collection[Stage], names: Collection[str] | None) -> int:
        """Capture what is led here, in one step; returns how many bytes that is about.

        `names` are the topics, without those of the broker; None is all, with them.

        Raises:
            BackupError: more files would have to be held open than may be.
        """
        size = 0
        for topic in self._topics.catalogue.by_name.values():
            if stage_of(topic.name) not in stages or topic.is_restoring:
                continue
            if topic.name in LEFT_OUT:
                continue
            if names is not None and topic.name not in names:
                continue
            for partition in self._partitions.local_of(topic):
                if not partition.is_leading:
                    continue
                view = partition.view(partition.high_watermark, holds_files=topic.settings.compacts)
                self._held += view.file_count
                if self._held > _MAX_HELD_FILES:
                    raise BackupError(
                        f"compacted topics have more than {_MAX_HELD_FILES} segment files, which "
                        "cannot all be held open: raise segment.bytes, or back up fewer topics"
                    )
                self.taken.append(CapturedPartition(topic, partition.id.partition, view))
                size += view.size_bytes
        return size

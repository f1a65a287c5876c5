"""The internal topics of Streams applications: repartition and changelog topics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.groups.streams.configured import Status, StatusCode
from goqueue.model.errors import GoQueueError, InvalidReplicationError, TopicExistsError
from goqueue.topics.replica_assignments import Replication

if TYPE_CHECKING:
    from goqueue.groups.messages import StreamsHeartbeatResult
    from goqueue.groups.streams.topology import InternalTopic
    from goqueue.partitions.topic_changes import TopicChanges

_log = logging.getLogger(__name__)


async def with_internal_topics(
    changes: TopicChanges, result: StreamsHeartbeatResult
) -> StreamsHeartbeatResult:
    """Create the topics that a heartbeat found missing; the answer names what could not be.

    The next heartbeat of any member finds them. What failed is tried again with each heartbeat.
    """
    failures = []
    for topic in result.missing_topics:
        try:
            await _create(changes, topic)
        except TopicExistsError:
            continue  # by the heartbeat of another member
        except GoQueueError as error:
            _log.warning("internal topic %s could not be created: %s", topic.name, error)
            failures.append(f"{topic.name}: {error}")
    if not failures:
        return result
    detail = "internal topics could not be created: " + "; ".join(failures)
    statuses = tuple(
        Status(each.code, detail) if each.code is StatusCode.MISSING_INTERNAL_TOPICS else each
        for each in result.statuses
    )
    return replace(result, statuses=statuses)


async def _create(changes: TopicChanges, topic: InternalTopic) -> None:
    factor = topic.replication_factor if topic.replication_factor > 0 else None
    if factor not in {None, 1} and not changes.is_cluster:
        raise InvalidReplicationError(
            f"replication factor {topic.replication_factor}, and there is 1 broker: set "
            "replication.factor=1 or -1"
        )
    await changes.create(
        topic.name, topic.partition_count, dict(topic.configs), Replication(factor)
    )

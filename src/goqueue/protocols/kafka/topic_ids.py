"""Topics that requests name by their ids, which tell nobody that there is such a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.rights import TOPIC_DESCRIBE
from goqueue.topics.names import unknown_topic_id

if TYPE_CHECKING:
    from uuid import UUID

    from goqueue.protocols.permissions import Permissions
    from goqueue.topics.catalogue import Topic, Topics


def topic_with_id(topics: Topics, may: Permissions, topic_id: UUID) -> Topic:
    """The topic with that id, of those that the client may see.

    Raises:
        UnknownTopicIdError: there is none, or the client may not see it.
    """
    found = topics.catalogue.topic_with_id(topic_id)
    if not may.permits(TOPIC_DESCRIBE, found.name):
        raise unknown_topic_id(topic_id)
    return found

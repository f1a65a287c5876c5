"""Resources that paths of several families name."""

from __future__ import annotations

import msgspec

from goqueue.model.errors import InvalidTopicNameError
from goqueue.protocols.http.api.errors import AtFieldError
from goqueue.protocols.http.api.shapes import GroupName, PartitionNumber, TopicName
from goqueue.topics.names import check_name


class TopicPath(msgspec.Struct, frozen=True):
    """A topic in the path."""

    topic: TopicName

    def __post_init__(self) -> None:
        checked_name(self.topic, "topic", "path")


class PartitionPath(TopicPath, frozen=True):
    """A partition in the path."""

    partition: PartitionNumber


class GroupPath(msgspec.Struct, frozen=True):
    """A group in the path."""

    group: GroupName


def checked_name(name: str, field: str, location: str = "body") -> str:
    """A topic's name that follows the rule.

    Raises:
        AtFieldError: it does not.
    """
    try:
        check_name(name)
    except InvalidTopicNameError as error:
        raise AtFieldError(error, field, location) from error
    return name

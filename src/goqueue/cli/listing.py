"""The names of what a server has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.http.groups.group_shapes import GroupList
from goqueue.protocols.http.topics.topic_shapes import TopicList

if TYPE_CHECKING:
    from goqueue.cli.api import Api


def topics(api: Api) -> list[str]:
    """Topics, without those that the broker keeps for itself."""
    return api.get(TopicList, "/topics").topics


def groups(api: Api) -> list[str]:
    """Groups of any kind."""
    return [each.group for each in api.get(GroupList, "/groups").groups]


def subjects(api: Api) -> list[str]:
    """Subjects of the schema registry."""
    return api.get(list[str], "/subjects")

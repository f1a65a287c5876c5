"""Deleting groups, of either kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.insight.group_views import view_group
from goqueue.model.errors import GroupNotFoundError, NonEmptyGroupError
from goqueue.queues.delivery.settings import Mode

if TYPE_CHECKING:
    from goqueue.groups.service import Groups
    from goqueue.partitions.measures import Measures
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics


class RemovalServices(Protocol):
    """Where groups are kept."""

    topics: Topics
    groups: Groups
    queues: Queues
    measures: Measures


async def delete_group(services: RemovalServices, group_id: str) -> None:
    """Forget a group without members, and how far it has read.

    Raises:
        GroupNotFoundError: there is none of that name.
        NonEmptyGroupError: it has members.
    """
    view = view_group(services, group_id)
    if view.listing.member_count:
        raise NonEmptyGroupError(f"group {group_id!r} still has members: stop them first")
    mode = view.listing.mode
    if mode is not Mode.SHARED:
        outcomes = await services.groups.delete(group_id)
        for _, error in outcomes.groups:
            # The consumer group behind a queue group is only there once somebody has joined.
            if error is not None and not (mode and isinstance(error, GroupNotFoundError)):
                raise error
    if mode is not None:
        await services.queues.delete(group_id)
        services.measures.forget_group(group_id)

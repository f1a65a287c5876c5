"""Deleting groups, of either kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.delivery.settings import Mode
from goqueue.insight.group_views import view_group
from goqueue.model.errors import GroupNotFoundError, NonEmptyGroupError

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker


async def delete_group(broker: Broker, group_id: str) -> None:
    """Forget a group without members, and how far it has read.

    Raises:
        GroupNotFoundError: there is none of that name.
        NonEmptyGroupError: it has members.
    """
    view = view_group(broker, group_id)
    if view.listing.member_count:
        raise NonEmptyGroupError(f"group {group_id!r} still has members: stop them first")
    mode = view.listing.mode
    if mode is not Mode.SHARED:
        outcomes = await broker.groups.delete(group_id)
        for _, error in outcomes.groups:
            # The consumer group behind a queue group is only there once somebody has joined.
            if error is not None and not (mode and isinstance(error, GroupNotFoundError)):
                raise error
    if mode is not None:
        await broker.queues.delete(group_id)
        broker.measures.forget_group(group_id)

"""What the Describe calls of the newer group protocols have in common."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicIdPartition, numbers_by_topic
from goqueue.protocols.kafka.access.operations import NO_OPERATIONS, group_operations
from goqueue.protocols.kafka.errors import ErrorCode, code_for
from goqueue.protocols.kafka.rights import (
    DESCRIBE,
    READ,
    TOPIC_DESCRIBE,
    Needs,
    all_of,
    each_group,
    group,
    within,
)
from goqueue.protocols.kafka.turns import Each, encode_settled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.topics.catalogue import Topic


def undescribed(group_id: Any, code: ErrorCode) -> dict[str, Any]:
    """What is said of a group that the client may not describe."""
    return {"error_code": code, "group_id": group_id, "authorized_operations": NO_OPERATIONS}


DESCRIBED: Final = all_of(
    each_group(DESCRIBE, undescribed, array="group_ids"),
    within(TOPIC_DESCRIBE, note="each that a member of the group reads"),
)
"""What it takes to describe a group of the newer protocols, as in Kafka: nobody learns of topics
that way."""


class _Subscribed(Needs):
    """A right on each topic that a heartbeat subscribes to; one that lacks it refuses it all."""

    def admit(self, ctx: RequestContext, request: Any) -> Any:
        for name in request.subscribed_topic_names or ():
            ctx.may.require(TOPIC_DESCRIBE, name)
        return request


SUBSCRIBED: Final = all_of(group(READ), _Subscribed(TOPIC_DESCRIBE, note="each subscribed one"))
"""What it takes to be a member of a group of the newer protocols."""


def _with_visible_topics(ctx: RequestContext, group: dict[str, Any]) -> dict[str, Any]:
    """Raise unless the client may know the topics of a group."""
    if not ctx.may.is_open:
        for name in _topic_names(group):
            ctx.may.require(TOPIC_DESCRIBE, name)
    return group


def _topic_names(group: dict[str, Any]) -> set[str]:
    """The topics that the description of a group names."""
    found: set[str] = set()
    for member in group["members"]:
        found.update(member.get("subscribed_topic_names") or ())
        for name in ("assignment", "target_assignment"):
            partitions = (member.get(name) or {}).get("topic_partitions", ())
            found.update(each["topic_name"] for each in partitions)
    for part in (group.get("topology") or {}).get("subtopologies") or ():
        found.update(part["source_topics"], part["repartition_sink_topics"])
        for name in ("state_changelog_topics", "repartition_source_topics"):
            found.update(each["name"] for each in part[name])
    return found


async def describe_groups(
    ctx: RequestContext,
    request: Struct,
    describe: Callable[[str], dict[str, Any]],
    settled: Callable[[Sequence[str]], Awaitable[bool]],
    **absent: Any,
) -> Response:
    """Each group asked for, once; one that cannot be described has the `absent` fields instead.

    `settled` waits for what was described to be committed: see `Groups.settled`.
    """
    asked = request.include_authorized_operations

    def described(group_id: str) -> dict[str, Any]:
        answer = {
            "error_code": ErrorCode.none,
            "error_message": None,
            "group_id": group_id,
            "authorized_operations": group_operations(ctx.may, group_id, asked=asked),
        }
        try:
            return {**answer, **_with_visible_topics(ctx, describe(group_id))}
        except GoQueueError as error:
            return {
                **answer,
                "error_code": code_for(error),
                "error_message": str(error),
                "group_epoch": 0,
                "assignment_epoch": 0,
                "members": [],
                "authorized_operations": NO_OPERATIONS,
                **absent,
            }

    group_ids = list(dict.fromkeys(request.group_ids))
    return await encode_settled(
        ctx, lambda: {"groups": Each(group_ids, described)}, partial(settled, group_ids)
    )


def by_topic_id(partitions: Iterable[TopicIdPartition]) -> list[dict[str, Any]]:
    """Partitions as heartbeats assign them: the numbers of each topic."""
    found = numbers_by_topic(partitions)
    return [{"topic_id": topic_id, "partitions": each} for topic_id, each in found.items()]


def with_names(
    partitions: Iterable[TopicIdPartition], topics: Mapping[UUID, Topic]
) -> dict[str, Any]:
    """An assignment as Describe calls show it: with the topics' names, where they exist."""
    return {
        "topic_partitions": [
            {**each, "topic_name": topics[each["topic_id"]].name}
            for each in by_topic_id(partitions)
            if each["topic_id"] in topics
        ]
    }

"""What the Describe calls of the newer group protocols have in common."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicIdPartition, numbers_by_topic
from goqueue.protocols.kafka.access.operations import NO_OPERATIONS, group_operations
from goqueue.protocols.kafka.errors import ErrorCode, code_for
from goqueue.protocols.kafka.turns import Each, encode_settled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.topics.catalogue import Topic


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
    operations = group_operations(asked=request.include_authorized_operations)

    def described(group_id: str) -> dict[str, Any]:
        answer = {
            "error_code": ErrorCode.none,
            "error_message": None,
            "group_id": group_id,
            "authorized_operations": operations,
        }
        try:
            return {**answer, **describe(group_id)}
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

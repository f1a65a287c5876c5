"""Which partitions the members of groups read, asked over Kafka's protocol."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.client.link.link import GROUP_KEY
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.kafka.groups import AT_ONCE, GroupLine
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.primitives import Cursor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.client.link.link import Link
    from goqueue.spark.kafka.cluster import Cluster

_DESCRIBE_GROUPS_VERSION: Final = 5
_CONSUMER_GROUP_DESCRIBE_VERSION: Final = 0
_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"


class Reading(NamedTuple):
    """What the members of one group read."""

    assigned: frozenset[TopicPartition] = frozenset()
    is_subscriber: bool = False
    """Its members subscribe to topics, or did; False: offsets were committed from outside."""


def readings(cluster: Cluster, groups: Sequence[GroupLine]) -> dict[str, Reading]:
    """What the members of each group read; share groups, which assign no offsets, are left out.

    Raises:
        SparkSourceError: a broker is unavailable, or refuses.
    """
    wanted = [each for each in groups if each.kind in {_CLASSIC, _CONSUMER}]
    found: dict[str, Reading] = {}
    for at in range(0, len(wanted), AT_ONCE):
        asking = partial(_some, cluster.link, wanted[at : at + AT_ONCE])
        found |= cluster.retry("looking up members", asking)
    return found


async def _some(link: Link, groups: Sequence[GroupLine]) -> dict[str, Reading]:
    kinds = {each.name: each.kind for each in groups}
    found: dict[str, Reading] = {}
    for node, names in (await link.coordinators(GROUP_KEY, kinds)).items():
        found |= await _classic(link, node, [name for name in names if kinds[name] == _CLASSIC])
        found |= await _consumer(link, node, [name for name in names if kinds[name] == _CONSUMER])
    return found


async def _classic(link: Link, node: int, names: list[str]) -> dict[str, Reading]:
    if not names:
        return {}
    answer = await link.ask(
        ApiKey.DESCRIBE_GROUPS,
        _DESCRIBE_GROUPS_VERSION,
        node=node,
        groups=names,
        include_authorized_operations=False,
    )
    return {
        group.group_id: Reading(
            frozenset(
                place for member in group.members for place in _places(member.member_assignment)
            ),
            is_subscriber=True,
        )
        for group in answer.groups
        if not group.error_code and group.protocol_type == _CONSUMER
    }


async def _consumer(link: Link, node: int, names: list[str]) -> dict[str, Reading]:
    if not names:
        return {}
    answer = await link.ask(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        _CONSUMER_GROUP_DESCRIBE_VERSION,
        node=node,
        group_ids=names,
        include_authorized_operations=False,
    )
    return {
        group.group_id: Reading(
            frozenset(
                TopicPartition(topic.topic_name, number)
                for member in group.members
                for assignment in (member.assignment, member.target_assignment)
                for topic in assignment.topic_partitions
                for number in topic.partitions
            ),
            is_subscriber=True,
        )
        for group in answer.groups
        if not group.error_code
    }


def _places(assignment: Any) -> list[TopicPartition]:
    """The partitions in what a member of a classic group was told; none where it is opaque."""
    if not assignment:
        return []
    cursor = Cursor(memoryview(assignment))
    places: list[TopicPartition] = []
    try:
        cursor.int16()  # the version; later ones only add to the end
        for _ in range(cursor.required_array_length(compact=False)):
            topic = cursor.required_string(compact=False)
            count = cursor.required_array_length(compact=False)
            places += [TopicPartition(topic, cursor.int32()) for _ in range(count)]
    except MalformedRequestError:
        return []
    return places

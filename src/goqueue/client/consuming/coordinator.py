"""What a member asks its group's coordinator: heartbeats, and offsets to keep or to look up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.link.codes import RetriableBrokerError, check_code
from goqueue.client.link.link import GROUP_KEY
from goqueue.model.errors import CoordinatorUnavailableError, StaleMemberEpochError
from goqueue.model.topic_partition import TopicPartition, numbers_by_topic
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goqueue.client.consuming.membership import Membership
    from goqueue.client.link.link import Link
    from goqueue.wire.kafka.reading import Struct

_HEARTBEAT: Final = 1
_OFFSET_COMMIT: Final = 9
_OFFSET_FETCH: Final = 9
_NO_EPOCH: Final = -1


class Coordinator:
    """The coordinator of one member's group, wherever it is.

    One request at a time: an epoch that a heartbeat brings is known before the next one is sent.
    """

    def __init__(self, link: Link, member: Membership, lane: str) -> None:
        self._link = link
        self._member = member
        self._lane = lane
        self._turn = asyncio.Lock()

    async def heartbeat(self) -> None:
        """Tell the coordinator where the member stands, and the member what is assigned, once.

        Raises:
            GoQueueError: the group refuses, or the coordinator does not answer.
        """
        async with self._turn:
            answer = await self._ask(
                ApiKey.CONSUMER_GROUP_HEARTBEAT, _HEARTBEAT, self._member.heartbeat()
            )
            self._check(answer.error_code, answer.error_message)
            self._member.answered(answer)

    async def leave(self) -> None:
        """Leave the group, once. Raises like `heartbeat`."""
        async with self._turn:
            await self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, _HEARTBEAT, self._member.leaving())

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store how far partitions are read.

        Raises:
            GoQueueError: the group refuses, or the coordinator does not answer.
        """
        await self._link.retry(
            f"committing offsets of group {self._member.group!r}", lambda: self._commit(offsets)
        )

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        member = self._member
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": number,
                        "committed_offset": offsets[TopicPartition(topic, number)],
                        "committed_leader_epoch": _NO_EPOCH,
                        "committed_metadata": "",
                    }
                    for number in numbers
                ],
            }
            for topic, numbers in numbers_by_topic(offsets).items()
        ]
        async with self._turn:
            fields = {
                "group_id": member.group,
                "generation_id_or_member_epoch": member.epoch,
                "member_id": member.member_id,
                "group_instance_id": None,
                "topics": topics,
            }
            answer = await self._ask(ApiKey.OFFSET_COMMIT, _OFFSET_COMMIT, fields)
        for topic in answer.topics:
            for each in topic.partitions:
                self._check(each.error_code)

    async def committed(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How far the group has read partitions; those without a committed offset are left out.

        Raises:
            GoQueueError: the group refuses, or the coordinator does not answer.
        """
        topics = [
            {"name": topic, "partition_indexes": numbers}
            for topic, numbers in numbers_by_topic(places).items()
        ]
        return await self._link.retry(
            f"looking up offsets of group {self._member.group!r}", lambda: self._committed(topics)
        )

    async def _committed(self, topics: list[dict[str, Any]]) -> dict[TopicPartition, int]:
        member = self._member
        async with self._turn:
            group = {
                "group_id": member.group,
                "member_id": member.member_id,
                "member_epoch": member.epoch,
                "topics": topics,
            }
            fields = {"groups": [group], "require_stable": True}
            answer = await self._ask(ApiKey.OFFSET_FETCH, _OFFSET_FETCH, fields)
        found: dict[TopicPartition, int] = {}
        for group in answer.groups:
            self._check(group.error_code)
            for topic in group.topics:
                for each in topic.partitions:
                    self._check(each.error_code)
                    if each.committed_offset >= 0:
                        place = TopicPartition(topic.name, each.partition_index)
                        found[place] = each.committed_offset
        return found

    async def _ask(self, api: ApiKey, version: int, fields: dict[str, Any]) -> Struct:
        return await self._link.ask_coordinator(
            GROUP_KEY, self._member.group, api, version, lane=self._lane, **fields
        )

    def _check(self, code: int, told: str | None = None) -> None:
        """Raise what a code says; a coordinator that is none any more is forgotten."""
        try:
            check_code(code, f"group {self._member.group!r}", told)
        except CoordinatorUnavailableError:
            self._link.forget_coordinator(GROUP_KEY, self._member.group)
            raise
        except StaleMemberEpochError as error:
            raise RetriableBrokerError(str(error)) from None  # a heartbeat brings the newest one

"""A member of a queue group, as its coordinator knows it: joining, staying, going."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.client.link.codes import error_named
from goqueue.client.link.link import GROUP_KEY
from goqueue.model.topic_partition import TopicPartition
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.client.link.link import Link
    from goqueue.wire.kafka.reading import Struct

_HEARTBEAT: Final = 1
_JOINING, _LEAVING = 0, -1


class Join(NamedTuple):
    """What a member says when it joins; see `AsyncClient.queue`."""

    group: str
    topics: tuple[str, ...]
    member_id: str
    mode: int
    visibility_ms: int
    prefetch: int
    max_deliveries: int
    max_unacked: int
    start_at_latest: bool

    def fields(self, *, is_draining: bool = False) -> dict[str, Any]:
        """What a heartbeat says of it."""
        return {
            "mode": self.mode,
            "visibility_ms": self.visibility_ms,
            "max_deliveries": self.max_deliveries,
            "max_unacked": self.max_unacked,
            "start_at_latest": self.start_at_latest,
            "is_draining": is_draining,
        }


class Member:
    """One member; it names itself, and keeps its name when it joins again."""

    def __init__(self, link: Link, join: Join, on_assigned: Callable[[], None]) -> None:
        """`on_assigned` is told when the assignment has changed."""
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.heartbeat_s = 5.0
        self.visibility_s = 0.0
        """How long a message is the member's."""
        self._link = link
        self._join = join
        self._on_assigned = on_assigned
        self._epoch = _JOINING

    async def join(self) -> None:
        """Join, or join again as the same member.

        Raises:
            GoQueueError: the group refuses, or no broker answers.
        """
        await self._heartbeat(_JOINING)

    async def stay(self, *, is_draining: bool = False) -> None:
        """Say that it is still there; a member that drains is handed nothing more."""
        await self._heartbeat(self._epoch, is_draining=is_draining)

    async def leave(self) -> None:
        """Go; what it has is handed to others at once."""
        await self._heartbeat(_LEAVING)

    async def _heartbeat(self, epoch: int, *, is_draining: bool = False) -> None:
        join = self._join
        answer = await self._link.ask_coordinator(
            GROUP_KEY,
            join.group,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            _HEARTBEAT,
            group_id=join.group,
            member_id=join.member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=list(join.topics) if epoch == _JOINING else None,
            queue=join.fields(is_draining=is_draining),
        )
        if answer.error_code:
            raise error_named(answer.error_name, answer.error_message, answer.error_code)
        if epoch == _LEAVING:
            return
        self._epoch = answer.member_epoch
        self.heartbeat_s = answer.heartbeat_interval_ms / 1000
        self.visibility_s = answer.visibility_ms / 1000
        if answer.assignment is not None:
            await self._assigned(answer.assignment)

    async def _assigned(self, assignment: Struct) -> None:
        """Take over which partitions are the member's."""
        names = self._link.metadata.names
        if any(each.topic_id not in names for each in assignment.topic_partitions):
            await self._link.topics(self._join.topics)
        self.assignment = frozenset(
            TopicPartition(names[topic.topic_id], number)
            for topic in assignment.topic_partitions
            if topic.topic_id in names
            for number in topic.partitions
        )
        self._on_assigned()

"""A member of a KIP-848 group without the wire: what it says, what it is told, what it owns.

The coordinator assigns. A member that is told of another assignment first gives up what is not in
it, says so, and then takes over what is new, and says so. Fields that have not changed are left out
of a heartbeat, unless an answer was lost: then everything is said again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.topic_partition import TopicIdPartition, numbers_by_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.wire.kafka.reading import Struct

REBALANCE_TIMEOUT_MS: Final = 60_000
"""How long the coordinator waits for a member that is to give partitions up."""
_JOINING: Final = 0
_LEAVING: Final = -1
_UNCHANGED_MS: Final = -1
_FIRST_INTERVAL_S: Final = 1.0


class Membership:
    """Where one member stands. It has joined when its epoch is above 0."""

    def __init__(self, group: str, topics: Iterable[str], member_id: str) -> None:
        self.group: Final = group
        self.topics: Final = sorted(set(topics))
        self.member_id: Final = member_id
        self.epoch = _JOINING
        self.has_spoken = False
        """Whether the coordinator may have heard of the member."""
        self.interval_s = _FIRST_INTERVAL_S
        """How long to wait before the next heartbeat, as the coordinator says."""
        self.owned: frozenset[TopicIdPartition] = frozenset()
        """What the member reads, or is still giving up."""
        self.target: frozenset[TopicIdPartition] | None = None
        """What the coordinator has assigned; None before it has."""
        self._told: frozenset[TopicIdPartition] | None = None
        """What the coordinator knows as owned; None when that is not certain."""
        self._telling: frozenset[TopicIdPartition] = frozenset()

    @property
    def is_settled(self) -> bool:
        """Whether the member owns what it was assigned."""
        return self.target is not None and self.owned == self.target

    def heartbeat(self) -> dict[str, Any]:
        """The fields of the next heartbeat."""
        says_all = self._told is None
        owns_news = says_all or self._told != self.owned
        self.has_spoken = True
        self._telling = self.owned
        self._told = None  # until it is answered
        return self._fields(
            self.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if says_all else _UNCHANGED_MS,
            subscribed_topic_names=self.topics if says_all else None,
            topic_partitions=_by_topic(self.owned) if owns_news else None,
        )

    def leaving(self) -> dict[str, Any]:
        """The fields of the last heartbeat."""
        return self._fields(
            _LEAVING,
            rebalance_timeout_ms=_UNCHANGED_MS,
            subscribed_topic_names=None,
            topic_partitions=None,
        )

    def _fields(self, epoch: int, **fields: Any) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            **fields,
        }

    def answered(self, answer: Struct) -> None:
        """Take over what the coordinator answers to the last heartbeat."""
        self.epoch = answer.member_epoch
        self.interval_s = answer.heartbeat_interval_ms / 1000
        self._told = self._telling
        if answer.assignment is not None:
            self.target = frozenset(
                (topic.topic_id, number)
                for topic in answer.assignment.topic_partitions
                for number in topic.partitions
            )

    def own(self, partitions: frozenset[TopicIdPartition]) -> None:
        """From now on the member owns these."""
        self.owned = partitions

    def rejoin(self) -> None:
        """The coordinator has removed the member: it owns nothing, and joins as a new one."""
        self.epoch = _JOINING
        self.owned = frozenset()
        self.target = self._told = None


def _by_topic(partitions: Iterable[TopicIdPartition]) -> list[dict[str, Any]]:
    return [
        {"topic_id": topic_id, "partitions": numbers}
        for topic_id, numbers in numbers_by_topic(partitions).items()
    ]

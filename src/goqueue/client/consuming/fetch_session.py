"""Fetch sessions (KIP-227): name the partitions once, then only what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias
    from uuid import UUID

    PartitionKey: TypeAlias = tuple[UUID, int]

_NONE: Final = 0
_FIRST_EPOCH: Final = 0
_LAST_EPOCH: Final = (1 << 31) - 1


class Wanted(Protocol):
    """What is read of one partition."""

    @property
    def offset(self) -> int:
        """Where to read on."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that is asked."""


class FetchSession:
    """What one broker remembers of the partitions that one consumer reads.

    A broker that keeps no session answers with id 0; then every request names everything.
    """

    def __init__(self, max_partition_bytes: int) -> None:
        self._max_partition_bytes = max_partition_bytes
        self._id = _NONE
        self._epoch = _FIRST_EPOCH
        self._known: dict[PartitionKey, tuple[int, int]] = {}
        """Offset and leader epoch of each partition, as the broker knows them."""

    def reset(self) -> None:
        """An answer was lost, or the broker has forgotten the session: begin another one."""
        self._id, self._epoch = _NONE, _FIRST_EPOCH
        self._known.clear()

    def answered(self, session_id: int) -> None:
        """The broker has taken the last request in."""
        if session_id == _NONE:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def fields(self, wanted: Mapping[PartitionKey, Wanted]) -> dict[str, Any]:
        """The fields of the next request, which reads these partitions."""
        now = {key: (each.offset, each.leader_epoch) for key, each in wanted.items()}
        known = self._known
        changed = [key for key in now if known.get(key) != now[key]]
        forgotten = [key for key in known if key not in now]
        self._known = now
        return {
            "session_id": self._id,
            "session_epoch": self._epoch,
            "topics": [
                {
                    "topic_id": topic_id,
                    "partitions": [
                        self._partition(number, *now[topic_id, number]) for number in numbers
                    ],
                }
                for topic_id, numbers in _by_topic(changed)
            ],
            "forgotten_topics_data": [
                {"topic_id": topic_id, "partitions": numbers}
                for topic_id, numbers in _by_topic(forgotten)
            ],
        }

    def _partition(self, number: int, offset: int, leader_epoch: int) -> dict[str, int]:
        return {
            "partition": number,
            "current_leader_epoch": leader_epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": self._max_partition_bytes,
        }


def _by_topic(keys: Iterable[PartitionKey]) -> Iterable[tuple[UUID, list[int]]]:
    found: dict[UUID, list[int]] = {}
    for topic_id, number in keys:
        found.setdefault(topic_id, []).append(number)
    return found.items()

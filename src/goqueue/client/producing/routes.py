"""Which partition a message goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import UnknownPartitionError
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import key_hash

if TYPE_CHECKING:
    from goqueue.client.producing.lanes import Lane


class Route:
    """The lanes of one topic; those of keys, and the one that messages without a key fill now.

    Messages without a key go to one partition until its batch is full, then to the next: that
    makes few large batches of them in place of many small ones.
    """

    __slots__ = ("count", "lanes", "topic", "turn", "until_s")

    def __init__(self, topic: str, count: int, until_s: float) -> None:
        self.topic = topic
        self.count = count
        """How many partitions the topic has."""
        self.until_s = until_s
        """When that is to be looked up again."""
        self.lanes: dict[int, Lane] = {}
        self.turn = count - 1  # the first batch goes to partition 0
        """The partition of messages without a key."""

    def next_turn(self) -> int:
        """The partition of messages without a key from now on: a batch of them is full, or sent.

        One whose batch is being filled by messages with keys is as good as an empty one.
        """
        self.turn = (self.turn + 1) % self.count
        return self.turn

    def number(self, key: bytes | str | None, partition: int | None) -> int:
        """The partition of a message: the one named, the key's, or the one whose turn it is.

        Raises:
            UnknownPartitionError: there is no such partition.
            TypeError: that is no number.
        """
        if partition is not None:
            if not isinstance(partition, int):
                raise TypeError(f"a partition must be an int, not {type(partition).__name__}")
            if not 0 <= partition < self.count:
                raise UnknownPartitionError(
                    f"topic {self.topic!r} has partitions 0 to {self.count - 1}, not {partition}"
                )
            return partition
        return self.turn if key is None else key_hash(key) % self.count

    def place(self, number: int) -> TopicPartition:
        """The name of a partition."""
        return TopicPartition(self.topic, number)

"""Topics and partitions, and settings of the broker."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError


class TopicError(GoQueueError):
    """A request about a topic cannot be served."""


class UnknownTopicError(TopicError):
    """There is no topic of that name."""

    retriable = True


class UnknownTopicIdError(TopicError):
    """There is no topic with that id; it may have been deleted and made again."""

    retriable = True


class InvalidAssignmentError(TopicError):
    """An assignment of replicas names unknown nodes, one node twice, or too many or too few."""


class UnknownPartitionError(TopicError):
    """The topic has no partition of that number."""

    retriable = True


class TopicExistsError(TopicError):
    """There is already a topic of that name."""


class InvalidTopicNameError(TopicError):
    """A topic's name breaks the rule: 1 to 249 letters, digits, `.`, `_` and `-`."""


class InvalidPartitionCountError(TopicError):
    """A number of partitions that a topic cannot have."""


class InvalidReplicationError(TopicError):
    """More replicas, or other ones, than there are brokers."""


class InvalidTopicConfigError(TopicError):
    """A setting of a topic has no such name or cannot have that value."""


class InvalidBrokerConfigError(GoQueueError):
    """A setting of the broker cannot have that value."""


class ReadOnlyConfigError(InvalidBrokerConfigError):
    """A setting of the broker cannot be changed while it runs."""


class TopicRestoringError(TopicError):
    """The topic is being restored from a backup and takes no messages until that is done."""

    retriable = True


class CompactedTopicError(TopicError):
    """Records of a topic that is only compacted are not removed by offset."""


class InternalTopicError(TopicError):
    """Only the broker itself may change an internal topic."""


class FencedLeaderEpochError(TopicError):
    """The client's view of the leader is older than the broker's."""

    retriable = True


class UnknownLeaderEpochError(TopicError):
    """The client's view of the leader is newer than the broker's."""

    retriable = True


class NotLeaderError(TopicError):
    """The partition is not led by this node: refresh the metadata and ask its leader."""

    retriable = True

    def __init__(self, partition: str, leader: int | None = None, epoch: int = -1) -> None:
        """Name the leader and its epoch, if they are known here; -1 is no epoch."""
        where = "has no leader" if leader is None else f"is led by node {leader} in epoch {epoch}"
        super().__init__(
            f"{partition} is not led by this node and {where}: refresh the metadata and try again"
        )
        self.partition = partition
        self.leader = leader
        self.epoch = epoch

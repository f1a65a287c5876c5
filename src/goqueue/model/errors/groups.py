"""Consumer groups."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError
from goqueue.model.errors.storage import StorageError


class GroupError(GoQueueError):
    """A group refuses a request. Data that must reach the client with it sits on the error."""


class InvalidGroupIdError(GroupError):
    """A group needs a name that is not empty."""


class InvalidGroupRequestError(GroupError):
    """A request to a group contradicts itself or lacks a field."""


class GroupNotFoundError(GroupError):
    """There is no such group, or it speaks the other membership protocol."""


class NonEmptyGroupError(GroupError):
    """The group still has members; stop them, then try again."""


class GroupSubscribedError(GroupError):
    """Members of the group still read the topic whose offsets were to be deleted."""


class GroupMaxSizeError(GroupError):
    """The group has as many members as the settings allow."""


class TooManyGroupsError(GroupError):
    """The coordinator holds as many groups as the settings allow."""


class InvalidSessionTimeoutError(GroupError):
    """A session timeout lies outside what the settings allow."""


class InconsistentGroupProtocolError(GroupError):
    """A member's protocols share nothing with those of the group."""


class MemberIdRequiredError(GroupError):
    """A new member must join again, with the id that was made for it."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again with the member id {member_id!r}")
        self.member_id = member_id


class UnknownMemberError(GroupError):
    """The group does not know the member: it left, was removed, or never joined."""


class FencedInstanceError(GroupError):
    """Another process has taken over the static member's instance id."""


class UnreleasedInstanceError(GroupError):
    """A live member still holds the instance id."""


class IllegalGenerationError(GroupError):
    """The member speaks for another generation of the group; it must join again."""


class RebalanceInProgressError(GroupError):
    """The group is rebalancing; the member must join again before it goes on."""


class FencedMemberEpochError(GroupError):
    """The member's epoch is not the group's view of it; it gives up its partitions and rejoins."""


class StaleMemberEpochError(GroupError):
    """A commit or fetch names an epoch the member has left; ask again with the newest one."""


class PartitionNotAssignedError(GroupError):
    """A member commits a partition that belongs to another member."""


class InvalidTopologyError(GroupError):
    """A Streams topology contradicts itself, or uses what is not supported."""


class UnsupportedAssignorError(GroupError):
    """The member asks for a server-side assignor that does not exist."""


class InvalidRegularExpressionError(GroupError):
    """A subscription pattern does not compile."""


class OffsetMetadataTooLargeError(GroupError):
    """The text committed with an offset is longer than the settings allow."""


class UnstableOffsetCommitError(GroupError):
    """An open transaction is about to change the offset; ask again when it has ended."""

    retriable = True


class CoordinatorUnavailableError(GroupError):
    """The group's coordinator is starting, stopping or has moved; find it and try again."""

    retriable = True


class CorruptGroupStateError(StorageError):
    """A stored entry of a group does not decode."""


class GroupModeError(GroupError):
    """The group exists, and its messages are handed out in another way than was asked for."""

"""What a core asks of its shell: bytes to store and replies to send, in that order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType, ParamSpec

import msgspec

from goqueue.model.errors import GroupError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.groups.messages import Result
    from goqueue.model.errors import GoQueueError
    from goqueue.model.topic_partition import TopicPartition

P = ParamSpec("P")

Token = NewType("Token", int)
"""Names one request that waits for its reply; the shell gives it, the core never looks inside."""


class Entry(NamedTuple):
    """One record for the compacted topic of the groups; a null value removes the key."""

    key: bytes
    value: bytes | None


class Reply(NamedTuple):
    """The one answer to one request: a result, or the error that the protocol translates."""

    token: Token
    result: Result | GoQueueError


class OffsetMove(NamedTuple):
    """A group's committed offset of one partition has another value."""

    group_id: str
    part: TopicPartition
    before: int | None
    after: int
    is_reset: bool
    """Set by an administrator: nobody has read what lies between."""


class Effects(msgspec.Struct):
    """Everything that one event causes.

    Persist, then tell: the replies may go out only when `persist` is durable, and so is what every
    earlier event of the same group asked to persist. When an append fails, the core knows more
    than the log does: the shell abandons the coordinator (`GroupCoordinator.abandon`) and loads it
    again from the log.
    """

    persist: list[Entry] = msgspec.field(default_factory=list)
    replies: list[Reply] = msgspec.field(default_factory=list)
    gone: list[str] = msgspec.field(default_factory=list)
    """Groups that there are no more."""
    moves: list[OffsetMove] = msgspec.field(default_factory=list)
    """Offsets that were committed, for whoever counts them."""

    def reply(self, token: Token, result: Result | GroupError) -> None:
        """Answer one request."""
        self.replies.append(Reply(token, result))

    def add(self, other: Effects) -> None:
        """Take over what a part of the event stores and answers."""
        self.persist += other.persist
        self.replies += other.replies
        self.moves += other.moves


def answered(token: Token, result: Result | GoQueueError) -> Effects:
    """An event that causes nothing but an answer."""
    return Effects(replies=[Reply(token, result)])


def refusal(act: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> GroupError | None:
    """Do one of several things that each have an outcome; returns why it was refused, if it was."""
    try:
        act(*args, **kwargs)
    except GroupError as error:
        return error
    return None

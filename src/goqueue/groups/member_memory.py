"""The bytes that members make a coordinator hold: what they say of themselves, their assignments.

Each group counts its members (`HeldBytes`), all groups of a broker share one bound
(`MemberMemory`). A member that is in the group may always say again what it has said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GroupMaxSizeError, InvalidGroupRequestError
from goqueue.model.limits import MAX_ID_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.groups.messages import Protocol
    from goqueue.groups.settings import GroupSettings

_MEMBER_BYTES: Final = 256
"""What a member costs that says nothing."""


def held_by(
    texts: Iterable[str | None],
    protocols: Iterable[Protocol] = (),
    names: Iterable[str] | None = (),
    assignment: bytes = b"",
) -> int:
    """The bytes of a member; a character counts as one."""
    said = sum(len(text) for text in texts if text) + sum(map(len, names or ()))
    offered = sum(len(name) + len(metadata) for name, metadata in protocols)
    return _MEMBER_BYTES + said + offered + len(assignment)


def check_ids(**ids: str | None) -> None:
    """Refuse ids that nobody has by accident.

    Raises:
        InvalidGroupRequestError: one is too long.
    """
    for name, text in ids.items():
        if text is not None and len(text) > MAX_ID_CHARS:
            raise InvalidGroupRequestError(
                f"the {name.replace('_', ' ')} has {len(text)} characters; {MAX_ID_CHARS} are "
                "allowed"
            )


class HeldBytes:
    """The bytes of each member of one group, and of those who are on the way in."""

    __slots__ = ("_by_member", "total")

    def __init__(self) -> None:
        self._by_member: dict[str, int] = {}
        self.total = 0
        """The sum over all members."""

    def put(self, member_id: str, size_bytes: int) -> None:
        """A member holds so much now."""
        self.total += size_bytes - self._by_member.get(member_id, 0)
        self._by_member[member_id] = size_bytes

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        self.total -= self._by_member.pop(member_id, 0)

    def of(self, member_id: str) -> int:
        """What a member holds; nothing, if there is no such member."""
        return self._by_member.get(member_id, 0)

    def as_dict(self) -> dict[str, int]:
        """For checks."""
        return dict(self._by_member)


class MemberMemory:
    """The bytes of all members of all groups, of every coordinator that shares it."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._by_group: dict[str, int] = {}
        self.used_bytes = 0
        self.admit_group: Callable[[str], None] | None = None
        """Refuses a new group of a tenant that has too many; set by the broker."""

    def note(self, group_id: str, size_bytes: int) -> None:
        """The members of a group hold so much now."""
        before = self._by_group.get(group_id, 0)
        if size_bytes == before:
            return
        self.used_bytes += size_bytes - before
        if size_bytes:
            self._by_group[group_id] = size_bytes
        else:
            del self._by_group[group_id]

    def of(self, group_id: str) -> int:
        """What the members of a group hold."""
        return self._by_group.get(group_id, 0)

    def check_member(self, group_id: str, size_bytes: int, before_bytes: int) -> None:
        """Refuse a member that says too much, or one for which there is no room.

        Raises:
            InvalidGroupRequestError: it says more than any member may.
            GroupMaxSizeError: the group, or all groups together, hold too much already.
        """
        limit = self._settings.max_member_bytes
        if size_bytes > limit:
            raise InvalidGroupRequestError(
                f"the member describes itself in {size_bytes} bytes; {limit} are allowed: "
                "subscribe to fewer topics or offer less metadata"
            )
        self.check_growth(group_id, size_bytes - before_bytes)

    def check_growth(self, group_id: str, grown_bytes: int) -> None:
        """Refuse that a group grows by so much.

        Raises:
            GroupMaxSizeError: the group, or all groups together, would hold too much.
        """
        if grown_bytes <= 0:
            return
        group_limit, limit = self._settings.max_group_bytes, self._settings.member_memory_bytes
        if self._by_group.get(group_id, 0) + grown_bytes > group_limit:
            raise GroupMaxSizeError(
                f"group {group_id!r} is full: its members may hold {group_limit} bytes of metadata "
                "and assignments"
            )
        if self.used_bytes + grown_bytes > limit:
            raise GroupMaxSizeError(
                f"the members of all groups may hold {limit} bytes of metadata and assignments "
                "(groups.member_memory), and hold nearly all of it"
            )

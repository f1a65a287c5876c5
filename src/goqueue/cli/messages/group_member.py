"""Messages for one member of a group, committed once they have been printed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Self

import goqueue
from goqueue.cli.errors import CliError, RefusedError
from goqueue.cli.output import note
from goqueue.protocols.http.groups.group_shapes import Committed
from goqueue.protocols.http.groups.member_shapes import JoinAnswer, Left, PollAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cli.api import Api
    from goqueue.protocols.http.messages.message_shapes import PolledMessage

_PAGE: Final = 100
_IDLE_MS: Final = 2000
"""Without --follow, a member that gets nothing for so long has read everything."""
_PATIENCE: Final = 5
"""After so many polls without a partition, there will be none without --follow."""
_FOLLOW_MS: Final = 10_000
_LOST: Final = frozenset({"unknown_member", "fenced_member"})


def read_as_member(
    member: Member,
    show: Callable[[PolledMessage], bool],
    *,
    limit: int | None,
    follow: bool,
    commit: bool,
) -> None:
    """Show messages as the group hands them out; those of a poll are committed when all are shown.

    So one that could not be shown is read again by the next member. `show` says whether a message
    was shown: one that a filter leaves out is committed, and does not count.
    """
    given = idle = 0
    while limit is None or given < limit:
        room = _PAGE if limit is None else min(_PAGE, limit - given)
        polled = member.poll(room, _FOLLOW_MS if follow else _IDLE_MS)
        given += sum([show(message) for message in polled.messages])
        if polled.messages:
            if commit:
                member.commit(polled.next_offsets)
        elif not follow and polled.partitions:
            return
        idle = 0 if polled.partitions else idle + 1
        if not follow and idle == _PATIENCE:
            note("all partitions are assigned to other members of the group")
            return


class Member:
    """This process in a group, for the length of a `with`; joins again when it was forgotten."""

    def __init__(self, api: Api, group: str, topic: str, start: str, decode: str) -> None:
        self._api = api
        self._group = group
        self._decode = decode
        self._body = {
            "topics": [topic],
            "client_id": f"goqueue-cli-{goqueue.__version__}",
            "start": start,
            "assignment": "log",
        }
        self._id = ""

    def __enter__(self) -> Self:
        self._join()
        return self

    def __exit__(self, *_error: object) -> None:
        # A member that cannot say goodbye is dropped when its session ends.
        with contextlib.suppress(CliError):
            self._api.post(Left, "/groups/{}/leave", self._group, body={"member_id": self._id})

    def _join(self) -> None:
        answer = self._api.post(JoinAnswer, "/groups/{}/join", self._group, body=self._body)
        self._id = answer.member_id

    def poll(self, limit: int, wait_ms: int) -> PollAnswer:
        """Messages of this member's partitions, waiting for the first."""
        wait_ms = min(wait_ms, round(self._api.target.timeout_s * 500))
        try:
            return self._poll(limit, wait_ms)
        except RefusedError as error:
            if error.code not in _LOST:
                raise
            self._join()
            return self._poll(limit, wait_ms)

    def _poll(self, limit: int, wait_ms: int) -> PollAnswer:
        query = {
            "member_id": self._id,
            "limit": limit,
            "timeout": wait_ms,
            "decode": self._decode,
        }
        return self._api.get(PollAnswer, "/groups/{}/poll", self._group, **query)

    def commit(self, offsets: dict[str, dict[int, int]]) -> None:
        """Note what was read."""
        body = {"member_id": self._id, "offsets": offsets}
        self._api.post(Committed, "/groups/{}/offsets", self._group, body=body)

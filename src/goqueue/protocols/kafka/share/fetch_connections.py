"""Which connection a member of a queue group takes its messages by; once lost, the member is too.

Others are handed at once what a client had that has crashed. A broker that stops takes nothing from
anybody: its members come back, and go on with what they have.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import Session
    from goqueue.queues.members import QueueMembers

    MemberKey: TypeAlias = tuple[str, str]
    """A group and a member of it."""


class FetchConnections:
    """The connection of each member that fetches with receipts."""

    def __init__(self, members: QueueMembers) -> None:
        self._members = members
        self._sessions: dict[MemberKey, Session] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def used_by(self, session: Session, key: MemberKey) -> None:
        """A member takes messages by this connection from now on."""
        if self._sessions.get(key) is not session:
            self.forget(key)
            self._sessions[key] = session
            session.on_lost[key] = partial(self._lost, key)

    def forget(self, key: MemberKey) -> None:
        """The member has joined anew, or has left: the connection it had may go."""
        session = self._sessions.pop(key, None)
        if session is not None:
            session.on_lost.pop(key, None)

    def _lost(self, key: MemberKey) -> None:
        del self._sessions[key]
        task = asyncio.get_running_loop().create_task(self._leave(*key))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _leave(self, group_id: str, member_id: str) -> None:
        with suppress(GoQueueError):  # it is gone already
            member = self._members.find(group_id, member_id)
            if member is not None:
                await self._members.leave(member)

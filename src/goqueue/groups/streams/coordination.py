"""Members of Streams groups, as the coordinator sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.administration import GroupAdministration
from goqueue.groups.effects import Effects
from goqueue.groups.messages import JOINING_EPOCH
from goqueue.groups.migration import hand_over
from goqueue.groups.streams.checks import check_streams_heartbeat
from goqueue.groups.streams.group import StreamsGroup
from goqueue.model.errors import GroupNotFoundError

if TYPE_CHECKING:
    from goqueue.groups.effects import Token
    from goqueue.groups.messages import StreamsHeartbeat
    from goqueue.groups.topics import TopicCatalogue


class StreamsCoordination(GroupAdministration):
    """The one request of the Streams protocol."""

    def streams_heartbeat(
        self, request: StreamsHeartbeat, catalogue: TopicCatalogue, token: Token, now_ms: int
    ) -> Effects:
        """StreamsGroupHeartbeat: answered at once."""

        def event(out: Effects) -> None:
            check_streams_heartbeat(request)
            self._registry.check_streams_heartbeat(request)
            # A group that cannot take the member in stays as it was.
            effects = Effects()
            core = self._streams(request, effects)
            core.heartbeat(request, catalogue, token, now_ms, effects)
            self._registry.install(core)
            out.persist += effects.persist
            out.replies += effects.replies

        return self._answer(token, event, request.group_id)

    def _streams(self, request: StreamsHeartbeat, out: Effects) -> StreamsGroup:
        """The group, or one that comes to be if its first member gets in."""
        slot = self._slots.get(request.group_id)
        if slot is not None and isinstance(slot.core, StreamsGroup):
            return slot.core
        if request.epoch == JOINING_EPOCH:
            if slot is None:
                self._registry.check_room(request.group_id)
                return self._registry.fresh_streams(request.group_id)
            if not slot.core.roster.members:
                epoch = hand_over(slot.core, out)
                settings, stats = slot.core.settings, slot.core.stats
                return StreamsGroup(request.group_id, settings, stats, epoch=epoch)
        reason = "" if slot is None else ", but a group of another kind with members"
        raise GroupNotFoundError(f"there is no Streams group {request.group_id!r}{reason}")

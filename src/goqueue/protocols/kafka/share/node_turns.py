"""Turns of share consumers, asked for by the leaders of the partitions that they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import GoQueueError, InvariantError
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.protocols.kafka.share.turn_wire import answer_of, refused, turn_of
from goqueue.queues.share.members import ShareMembers
from goqueue.queues.share.turns import ShareTurns

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct


class ShareTurnsApi:
    """Takes turns for the groups that this node coordinates. No messages travel here."""

    def __init__(self, broker: Broker) -> None:
        self._turns = ShareTurns(broker)
        self._members = ShareMembers(broker)

    @api(ApiKey.SHARE_TURN, 0, 0, right=NODES, long_poll=True)
    async def take(self, _ctx: RequestContext, request: Struct) -> Response:
        """Acknowledge, release, then acquire, waiting for the first message."""
        asked = turn_of(request, self._members.partition)
        try:
            # What is read here is read to look at it; it is counted where it is sent.
            turned = await self._turns.take(asked.turn, _all_of_it)
        except InvariantError:
            raise
        except GoQueueError as error:
            return refused(error)
        return answer_of(asked, turned)


def _all_of_it(wanted_bytes: int) -> int:
    return wanted_bytes

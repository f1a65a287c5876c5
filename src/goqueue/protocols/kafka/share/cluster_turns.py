"""Turns of share consumers in a cluster: asked of the coordinator, answered with our own bytes.

This node leads the partitions. Where it coordinates the group as well, everything is as on one
node. Otherwise the coordinator says which ranges of offsets are the consumer's, and this node reads
them from its log. What it cannot send it returns, as if it had not been handed out.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    ClusterError,
    CoordinatorUnavailableError,
    GoQueueError,
    InvariantError,
    StorageError,
    TopicError,
)
from goqueue.model.ranges import around
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Isolation
from goqueue.protocols.kafka.share.turn_wire import request_of, spans, turned_of
from goqueue.protocols.kafka.share.turns import LocalTurns, Taken
from goqueue.queues.delivery.decisions import Verdict
from goqueue.queues.delivery.settings import NEW_SHARE_GROUP
from goqueue.queues.share.acknowledging import AcknowledgedOffsets
from goqueue.queues.share.turns import Closing, ShareTurn
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.share_fetch import SharedPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.broker.broker import Broker
    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.protocols.kafka.share.turn_wire import AcquiredRange, RemoteTurned
    from goqueue.queues.share.turns import Grant

_log = logging.getLogger(__name__)

_SETTLE_S: Final = 5.0
"""How long acknowledgements wait for a coordinator; then the consumer hears that there is none."""
_FIRST_PAUSE_S: Final = 0.02
_LAST_PAUSE_S: Final = 0.25
_LOOK_S: Final = 0.25
"""How often a call looks whether the coordinator that it waits for still is one."""


class ClusterTurns:
    """See `Turns`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._routes = broker.routes
        self._local = LocalTurns(broker)
        self._returning: set[asyncio.Task[Taken]] = set()
        """As many as there are fetches that found less than they were promised."""

    def check_led(self, partition: TopicPartition) -> None:
        """Raise `NotLeaderError`, with the leader, unless this node leads the partition."""
        self._broker.partitions.partition(partition)

    def closing(self, places: Iterable[TopicIdPartition]) -> Closing:
        """The member may have sessions with other leaders, and keeps what it has of theirs."""
        return Closing(tuple(place for place in places if self._is_led(place)))

    def _is_led(self, place: TopicIdPartition) -> bool:
        partition = self._broker.queues.sources.find(place)
        return partition is not None and partition.is_leading

    async def take(self, turn: ShareTurn, grant: Grant) -> Taken:
        """Take a turn; while the coordinator moves, try again for as long as the consumer waits."""
        loop = asyncio.get_running_loop()
        turn = turn._replace(asked_s=loop.time())
        wanted = turn.acquiring
        wait_s = 0.0 if wanted is None else wanted.max_wait_ms / 1000
        has_said = bool(turn.said) or turn.closing is not None
        polls_until_s = loop.time() + wait_s
        until_s = loop.time() + (max(wait_s, _SETTLE_S) if has_said else wait_s)
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self._take(turn, grant)
            except GoQueueError as error:
                if not error.retriable or isinstance(error, InvariantError):
                    raise
                if loop.time() + pause_s > until_s:
                    return _nothing(turn, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)
            turn = turn._replace(in_doubt=True)
            if wanted is not None:
                left_ms = max(round((polls_until_s - loop.time()) * 1000), 0)
                turn = turn._replace(acquiring=wanted._replace(max_wait_ms=left_ms))

    async def _take(self, turn: ShareTurn, grant: Grant) -> Taken:
        node_id = self._coordinator(turn.group_id)
        if node_id == self._routes.node_id:
            return await self._local.take(turn, grant)
        turned = await self._ask(node_id, turn)
        topics = self._broker.topics.catalogue.by_id
        outcomes = {
            TopicPartition(topics[key[0]].name, key[1]): error
            for key, error in turned.outcomes.items()
            if key[0] in topics
        }
        return Taken(turned.lock_ms, outcomes, await self._load(turn, turned, grant))

    # --- Asking the coordinator ------------------------------------------------------------------

    def _coordinator(self, group_id: str) -> int:
        """The node that coordinates a group. Raises `CoordinatorUnavailableError` where none."""
        return self._broker.groups.coordinator_of(group_id)

    async def _ask(self, node_id: int, turn: ShareTurn) -> RemoteTurned:
        wait_s = 0.0 if turn.acquiring is None else turn.acquiring.max_wait_ms / 1000
        fields = request_of(turn, self._broker.queues.key)
        call = asyncio.ensure_future(
            self._routes.peers.ask(node_id, ApiKey.SHARE_TURN, 0, wait_s=wait_s, **fields)
        )
        try:
            while not (await asyncio.wait((call,), timeout=_LOOK_S))[0]:
                if self._coordinator(turn.group_id) != node_id:
                    raise CoordinatorUnavailableError(
                        f"group {turn.group_id!r} is coordinated by another node than {node_id} now"
                    )
            return turned_of(call.result())
        finally:
            call.cancel()

    # --- Sending ---------------------------------------------------------------------------------

    async def _load(
        self, turn: ShareTurn, turned: RemoteTurned, grant: Grant
    ) -> dict[TopicIdPartition, SharedPartition]:
        """Read what is the consumer's, as much as there is memory for; the rest is returned."""
        found: dict[TopicIdPartition, SharedPartition] = {}
        if not turned.acquired or turn.acquiring is None:
            return found
        left_bytes = max(grant(turn.acquiring.max_bytes), 1)
        unsent = {key: spans(ranges) for key, ranges in turned.acquired.items()}
        try:
            for key, ranges in turned.acquired.items():
                if left_bytes <= 0:
                    break
                try:
                    shared, missing, size_bytes = await self._load_one(key, ranges, left_bytes)
                except (TopicError, ClusterError, StorageError) as error:
                    # It was deleted, is led by another node now, or cannot be read yet.
                    _log.info("%s-%d: messages of %s are returned: %s", *key, turn.group_id, error)
                    continue
                left_bytes -= size_bytes
                unsent[key] = missing
                if shared.acquired:
                    found[key] = shared
        finally:
            self._return(turn, {key: missing for key, missing in unsent.items() if missing})
        if not found:  # the consumer asks again at once
            await asyncio.sleep(_FIRST_PAUSE_S)
        return found

    async def _load_one(
        self, key: TopicIdPartition, ranges: list[AcquiredRange], max_bytes: int
    ) -> tuple[SharedPartition, list[Range], int]:
        """The batches of one partition; what of its ranges is not sent; how much memory it takes.

        What was aborted, or is no message, the coordinator has left out already.
        """
        broker = self._broker
        topic = broker.topics.catalogue.topic_with_id(key[0])
        partition = broker.partitions.partition(TopicPartition(topic.name, key[1]))
        loaded = await broker.record_reader.load(
            partition,
            spans(ranges),
            opened=False,
            max_bytes=max_bytes,
            isolation=Isolation.READ_UNCOMMITTED,
        )
        parts = sorted((first, end) for _, first, end in loaded.parts)
        missing = [gap for span in spans(ranges) for gap in around(*span, parts)]
        sent = [
            (from_, to - 1, count)
            for first, last, count in ranges
            for from_, to in around(first, last + 1, missing)
        ]
        stored = {batch.info.base_offset: batch.sound_data for batch, _, _ in loaded.parts}
        shared = SharedPartition(
            key[1],
            leader=(self._routes.node_id, partition.leader_epoch),
            records=[stored[base] for base in sorted(stored)],
            acquired=sent,
        )
        return shared, missing, loaded.size_bytes

    def _return(self, turn: ShareTurn, unsent: dict[TopicIdPartition, list[Range]]) -> None:
        """Let messages be as if they had never been handed out; nobody waits for it."""
        topics = self._broker.topics.catalogue.by_id
        said = {
            TopicPartition(topics[key[0]].name, key[1]): [
                AcknowledgedOffsets(first, end - 1, Verdict.RETURN) for first, end in ranges
            ]
            for key, ranges in unsent.items()
            if key[0] in topics
        }
        if said:
            returned = self.take(ShareTurn(turn.group_id, turn.member_id, said), _none)
            task = asyncio.get_running_loop().create_task(returned)
            self._returning.add(task)
            task.add_done_callback(self._returned)

    def _returned(self, task: asyncio.Task[Taken]) -> None:
        self._returning.discard(task)
        if not task.cancelled():
            task.exception()  # then they come back with their visibility timeout


def _none(_wanted_bytes: int) -> int:
    return 0


def _nothing(turn: ShareTurn, error: GoQueueError) -> Taken:
    """No coordinator has answered: nothing is known to count, and there is nothing to send."""
    return Taken(NEW_SHARE_GROUP.visibility_ms, dict.fromkeys(turn.said, error), {})

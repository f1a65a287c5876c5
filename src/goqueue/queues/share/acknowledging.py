"""What share consumers say became of messages: of ranges of offsets, as they have no receipts.

The cost is by range, not by message: a consumer that accepts what it was handed names it in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from goqueue.model.errors import ForeignReceiptError, GoQueueError
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict, decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.partitions.measures import Measures
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.operations import Operation
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.service import Queues
    from goqueue.queues.traces import QueueTraces, TracedVerdict
    from goqueue.runtime.clock import Clock


class ShareAckServices(Protocol):
    """What acknowledging in share groups needs."""

    queues: Queues
    clock: Clock
    queue_traces: QueueTraces
    measures: Measures


class AcknowledgedOffsets(NamedTuple):
    """Messages that a member says something of by their offsets: first and last."""

    first: int
    last: int
    verdict: Verdict


class ShareAcks:
    """Takes verdicts on ranges of offsets, and makes them true."""

    def __init__(self, services: ShareAckServices) -> None:
        self._services = services
        self._queues = services.queues

    async def acknowledge(
        self,
        group_id: str,
        member_id: str,
        said: Mapping[TopicPartition, Sequence[AcknowledgedOffsets]],
    ) -> dict[TopicPartition, GoQueueError | None]:
        """Take verdicts on what one member has; of each partition all count, or none.

        Returns, for each partition, why they do not count. What counts is stored in one go, before
        this returns.

        Raises:
            GroupNotFoundError: there is no such group.
            CoordinatorUnavailableError: nothing could be stored, and nothing counts.
        """
        started_s = self._services.clock.monotonic_s()
        await self._queues.ready()
        group = self._queues.group(group_id)
        now_ms = self._queues.now_ms()
        outcomes: dict[TopicPartition, GoQueueError | None] = {}
        changes: dict[TopicIdPartition, list[Operation]] = {}
        traced: list[TracedVerdict] = []
        for partition, acknowledged in said.items():
            try:
                key = self._queues.key(partition)
                queue = _checked(group, key, member_id, acknowledged, now_ms)
            except GoQueueError as error:
                outcomes[partition] = error
                continue
            outcomes[partition] = None
            traced += self._traced(group, key, queue, acknowledged)
            changes[key] = _decided(group, queue, acknowledged, now_ms)
        await self._store(group, changes, traced)
        took_s = self._services.clock.monotonic_s() - started_s
        for partition, refusal in outcomes.items():
            if refusal is None:
                self._measure(partition.topic, group_id, said[partition], took_s)
        return outcomes

    def _traced(
        self,
        group: QueueGroup,
        key: TopicIdPartition,
        queue: PartitionQueue,
        acknowledged: Sequence[AcknowledgedOffsets],
    ) -> list[TracedVerdict]:
        """What of the messages is traced, as long as the member has them."""
        traces = self._services.queue_traces
        place = traces.traced_place(key) if traces.is_on else None
        if place is None:
            return []
        return [
            traces.acknowledged(
                place, group.group_id, queue, [(first, last + 1)], Acknowledgement(verdict)
            )
            for first, last, verdict in acknowledged
        ]

    async def _store(
        self,
        group: QueueGroup,
        changes: dict[TopicIdPartition, list[Operation]],
        traced: list[TracedVerdict],
    ) -> None:
        if not changes:
            return
        shard = self._queues.shard_of(group)
        await shard.store(group, changes)
        self._services.queue_traces.settled(traced)
        done = {type(each) for operations in changes.values() for each in operations}
        if done - {ops.Settled}:
            shard.changed(group)
        else:  # the member may have more than before
            self._queues.waiters(group.group_id).wake()

    def _measure(
        self, topic: str, group_id: str, acknowledged: Sequence[AcknowledgedOffsets], took_s: float
    ) -> None:
        counts: dict[Verdict, int] = {}
        for first, last, verdict in acknowledged:
            counts[verdict] = counts.get(verdict, 0) + last - first + 1
        for verdict, count in counts.items():
            self._services.measures.settled(topic, group_id, verdict, count, took_s)


def _checked(
    group: QueueGroup,
    key: TopicIdPartition,
    member_id: str,
    acknowledged: Sequence[AcknowledgedOffsets],
    now_ms: int,
) -> PartitionQueue:
    """The queue, if the member has all of these messages.

    Raises:
        ForeignReceiptError: it does not have one of them, or not any more.
    """
    queue = group.queues.get(key)
    held = group.unacked.get(member_id, 0)
    for first, last, verdict in acknowledged:
        # No more than it has in all, before anybody looks at each page of a range that claims so.
        if verdict is Verdict.EXTEND and not group.settings.can_renew:
            raise ForeignReceiptError(
                f"group {group.group_id!r} does not let share consumers extend their locks"
            )
        if queue is None or last - first >= held or not _has(queue, first, last, member_id, now_ms):
            raise ForeignReceiptError(
                f"member {member_id!r} does not have all of the offsets {first} to {last}, or not "
                "any more"
            )
    if queue is None:
        raise ForeignReceiptError(f"group {group.group_id!r} does not read the partition")
    return queue


def _has(queue: PartitionQueue, first: int, last: int, member_id: str, now_ms: int) -> bool:
    expected = first
    for from_, to, number in queue.window.flights(first, last + 1):
        lease = queue.window.leases[number]
        if from_ != expected or lease.member != member_id or lease.deadline_ms <= now_ms:
            return False
        expected = to
    return expected == last + 1


def _decided(
    group: QueueGroup,
    queue: PartitionQueue,
    acknowledged: Sequence[AcknowledgedOffsets],
    now_ms: int,
) -> list[Operation]:
    """What verdicts on messages, none of which is named twice, make of them."""
    by_verdict: dict[Verdict, list[Range]] = {}
    for first, last, verdict in acknowledged:
        by_verdict.setdefault(verdict, []).append((first, last + 1))
    return [
        operation
        for verdict, ranges in by_verdict.items()
        for operation in decide(Acknowledgement(verdict), ranges, queue, group.settings, now_ms)
    ]

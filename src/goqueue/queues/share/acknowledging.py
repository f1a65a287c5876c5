"""What share consumers say became of messages: of ranges of offsets.

Kafka's have no receipts, and name what they have. Ours show the nonces of their deliveries. The
cost is by range, not by message: a consumer that accepts what it was handed names it in one.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.errors import ForeignReceiptError, GoQueueError, GroupNotFoundError
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict, decide
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.share.settlements import held_by_nonces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.partitions.measures import Measures
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.operations import Operation
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.service import Queues
    from goqueue.queues.share.settlements import Settlement, Unsettled
    from goqueue.queues.traces import QueueTraces, TracedVerdict
    from goqueue.runtime.clock import Clock
    from goqueue.state.certainty import Term
    from goqueue.topics.catalogue import Topics


_GIVES_BACK: Final = frozenset({Verdict.RELEASE, Verdict.RETURN, Verdict.NACK})
_DONE: Final = (MessageState.SETTLED, MessageState.DOOMED)


class ShareAckServices(Protocol):
    """What acknowledging in share groups needs."""

    queues: Queues
    topics: Topics
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
        *,
        in_doubt: bool = False,
    ) -> dict[TopicPartition, GoQueueError | None]:
        """Take verdicts on what one member has; of each partition all count, or none.

        Returns, for each partition, why they do not count. What counts is stored in one go, before
        this returns. `in_doubt` says that they were sent before, and that the answer was lost:
        those that were stored then count.

        Raises:
            GroupNotFoundError: there is no such group.
            CoordinatorUnavailableError: nobody knows what counts; all of it may be said again.
        """
        started_s = self._services.clock.monotonic_s()
        await self._queues.ready(group_id)
        term = self._queues.term(group_id)
        group = await self._group(group_id, term)
        now_ms = self._queues.now_ms(group)
        outcomes: dict[TopicPartition, GoQueueError | None] = {}
        decided = _Decided(group, now_ms)
        for partition, acknowledged in said.items():
            try:
                key = self._queues.key(partition)
                if in_doubt and has_happened(group.queues.get(key), member_id, acknowledged):
                    outcomes[partition] = None
                    continue
                _check(group, key, member_id, acknowledged, now_ms)
            except GoQueueError as error:
                outcomes[partition] = error
                continue
            outcomes[partition] = None
            for verdict, ranges in _by_verdict(acknowledged).items():
                self._decide(decided, partition, key, Acknowledgement(verdict), ranges)
        await self._store(decided, self._change(decided))
        self._measure(decided, started_s)
        if any(outcomes.values()):
            await self._queues.be_certain(term)
        return outcomes

    async def _group(self, group_id: str, term: Term | None) -> QueueGroup:
        """A group, which another node may have made of which this one has not heard."""
        try:
            return self._queues.group(group_id)
        except GroupNotFoundError:
            await self._queues.be_certain(term)
            raise

    async def settle(
        self, group_id: str, said: Mapping[TopicIdPartition, Sequence[Settlement]]
    ) -> dict[TopicIdPartition, list[Unsettled] | GoQueueError]:
        """Take acknowledgements with the nonces of deliveries, whoever shows them.

        Returns, for each partition, which messages do not count, or why none does. What counts is
        stored before this returns.

        Raises:
            GroupNotFoundError: there is no such group.
            CoordinatorUnavailableError: nobody knows what counts; all of it may be said again.
        """
        started_s = self._services.clock.monotonic_s()
        await self._queues.ready(group_id)
        term = self._queues.term(group_id)
        group = await self._group(group_id, term)
        now_ms = self._queues.now_ms(group)
        outcomes: dict[TopicIdPartition, list[Unsettled] | GoQueueError] = {}
        done: list[tuple[_Decided, int]] = []
        # What is settled first is so before the next is looked at: nothing counts twice.
        for settlements in zip_longest(*said.values()):
            decided = _Decided(group, now_ms)
            for key, settlement in zip(said, settlements, strict=True):
                if settlement is not None:
                    outcome = self._settle(decided, key, settlement)
                    outcomes[key] = _joined(outcomes.get(key), outcome)
            done.append((decided, self._change(decided)))
        for decided, end_offset in done:
            await self._store(decided, end_offset)
            self._measure(decided, started_s)
        if any(outcomes.values()):
            await self._queues.be_certain(term)
        return outcomes

    def _settle(
        self, decided: _Decided, key: TopicIdPartition, settlement: Settlement
    ) -> list[Unsettled] | GoQueueError:
        try:
            topic = self._services.topics.catalogue.topic_with_id(key[0])
        except GoQueueError as error:
            return error
        partition = TopicPartition(topic.name, key[1])
        queue = decided.group.queues.get(key)
        held, failed = held_by_nonces(queue, partition, settlement, decided.now_ms)
        if held:
            self._decide(decided, partition, key, settlement.acknowledgement, held)
        return failed

    def _decide(
        self,
        decided: _Decided,
        partition: TopicPartition,
        key: TopicIdPartition,
        said: Acknowledgement,
        ranges: list[Range],
    ) -> None:
        """Say what an acknowledgement makes of messages that members have."""
        queue = decided.group.queues[key]
        traces = self._services.queue_traces
        place = traces.traced_place(key) if traces.is_on else None
        if place is not None:
            group_id = decided.group.group_id
            decided.traced.append(traces.acknowledged(place, group_id, queue, ranges, said))
        count = sum(end - first for first, end in ranges)
        decided.verdicts.append((partition.topic, said.verdict, count))
        operations = decide(said, ranges, queue, decided.group.settings, decided.now_ms)
        decided.changes.setdefault(key, []).extend(operations)

    def _change(self, decided: _Decided) -> int:
        """Make it true; returns what must be committed before anybody is told."""
        if not decided.changes:
            return 0
        decided.is_awaited = decided.group.waits_for_acks(decided.changes)
        return self._queues.shard_of(decided.group).change(decided.group, decided.changes)

    async def _store(self, decided: _Decided, end_offset: int) -> None:
        if not decided.changes:
            return
        group = decided.group
        shard = self._queues.shard_of(group)
        await shard.state.committed(end_offset)
        self._services.queue_traces.settled(decided.traced)
        if any(verdict is not Verdict.ACK for _, verdict, _ in decided.verdicts):
            shard.changed(group)
        elif decided.is_awaited:
            self._queues.waiters(group.group_id).wake()

    def _measure(self, decided: _Decided, started_s: float) -> None:
        took_s = self._services.clock.monotonic_s() - started_s
        group_id = decided.group.group_id
        for topic, verdict, count in decided.verdicts:
            self._services.measures.settled(topic, group_id, verdict, count, took_s)


class _Decided:
    """What is to become of messages of one group, and what is told when it has."""

    def __init__(self, group: QueueGroup, now_ms: int) -> None:
        self.group = group
        self.now_ms = now_ms
        self.changes: dict[TopicIdPartition, list[Operation]] = {}
        self.traced: list[TracedVerdict] = []
        self.verdicts: list[tuple[str, Verdict, int]] = []
        """A topic, what was said, and of how many messages."""
        self.is_awaited = False
        """Somebody may be handed more once something is acknowledged."""


def _joined(
    before: list[Unsettled] | GoQueueError | None, outcome: list[Unsettled] | GoQueueError
) -> list[Unsettled] | GoQueueError:
    return before + outcome if isinstance(before, list) and isinstance(outcome, list) else outcome


def _check(
    group: QueueGroup,
    key: TopicIdPartition,
    member_id: str,
    acknowledged: Sequence[AcknowledgedOffsets],
    now_ms: int,
) -> None:
    """Raise `ForeignReceiptError`, unless the member has all of these messages."""
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


def _has(queue: PartitionQueue, first: int, last: int, member_id: str, now_ms: int) -> bool:
    expected = first
    for from_, to, number in queue.window.flights(first, last + 1):
        lease = queue.window.leases[number]
        if from_ != expected or lease.member != member_id or lease.deadline_ms <= now_ms:
            return False
        expected = to
    return expected == last + 1


def has_happened(
    queue: PartitionQueue | None, member_id: str, acknowledged: Sequence[AcknowledgedOffsets]
) -> bool:
    """Whether the messages are as these verdicts leave them, and none is the member's any more."""
    return queue is not None and all(
        _is_left(queue, first, last + 1, member_id, verdict)
        for first, last, verdict in acknowledged
    )


def _is_left(queue: PartitionQueue, first: int, end: int, member_id: str, verdict: Verdict) -> bool:
    window = queue.window
    if verdict is Verdict.EXTEND:
        return False  # to extend it once more does no harm
    if verdict in _GIVES_BACK:
        flights = window.flights(max(first, queue.start), end)
        return all(window.leases[number].member != member_id for _, _, number in flights)
    states = (MessageState.SETTLED,) if verdict is Verdict.ACK else _DONE
    first = max(first, queue.start)  # everything before the start is settled
    done = sum(to - from_ for state in states for from_, to in window.in_state(first, end, state))
    return done == max(end - first, 0)


def _by_verdict(acknowledged: Sequence[AcknowledgedOffsets]) -> dict[Verdict, list[Range]]:
    """The messages, none of which is named twice, by what is said of them."""
    found: dict[Verdict, list[Range]] = {}
    for first, last, verdict in acknowledged:
        found.setdefault(verdict, []).append((first, last + 1))
    return found

"""Acknowledging: what members say became of the messages that they were handed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from goqueue.access.rights import Operation as Does, ResourceType, Right
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GoQueueError,
    GroupAuthorizationFailedError,
    InvalidGroupRequestError,
    PartitionNotAssignedError,
    ReceiptError,
    UnknownReceiptError,
)
from goqueue.model.limits import MAX_REASON_CHARS, MAX_VISIBILITY_MS
from goqueue.model.tuples import NamedTuple
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict, decide
from goqueue.queues.delivery.receipts import MOST_LOOKS, Receipt, owner, refusal

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

    from goqueue.access.authorizer import Authorizer
    from goqueue.access.principals import Principal
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.partitions.measures import Measures
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.operations import Operation
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.members import QueueMember, QueueMembers
    from goqueue.queues.runs import Run
    from goqueue.queues.service import Queues
    from goqueue.queues.shard import QueueShard
    from goqueue.queues.traces import QueueTraces, TracedVerdict
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topics

    _Accepted: TypeAlias = defaultdict[str, defaultdict[TopicIdPartition, list[int]]]


_GROUP_READ: Final = Right(ResourceType.GROUP, Does.READ)


class AckServices(Protocol):
    """What acknowledging needs."""

    authorizer: Authorizer
    clock: Clock
    topics: Topics
    queue_members: QueueMembers
    queue_traces: QueueTraces
    measures: Measures


class Shower(NamedTuple):
    """The client that shows receipts and names no group: it needs READ on those they are of."""

    principal: Principal
    host: str


class _Applied(NamedTuple):
    """What was done in a group, and must be committed before anybody is told."""

    group: QueueGroup
    end_offset: int
    has_news: bool
    """Somebody may be handed more now, as something was acknowledged."""
    traced: list[TracedVerdict]


class _Part(NamedTuple):
    """One verdict, and where it counts."""

    shard: QueueShard | None
    """None: wherever groups are kept here."""
    acknowledgement: Acknowledgement
    group_id: str | None
    shower: Shower | None


class Acknowledger:
    """Takes verdicts, and makes them true."""

    def __init__(self, services: AckServices, queues: Queues) -> None:
        self._services = services
        self._queues = queues

    async def settle(
        self,
        receipts: Sequence[Receipt],
        acknowledgement: Acknowledgement,
        *,
        group_id: str | None = None,
        shower: Shower | None = None,
    ) -> list[GoQueueError | None]:
        """Take one verdict on many messages; for each, None, or why it does not count.

        With a group, receipts of others are refused; with a client, those of groups that it may
        not read.

        Raises:
            InvalidGroupRequestError: the verdict itself cannot be taken.
            CoordinatorUnavailableError: nothing could be stored.
        """
        check(acknowledgement)
        await self._queues.ready()
        return await self.settle_in(None, receipts, acknowledgement, group_id, shower)

    async def settle_here(
        self,
        receipts: Sequence[Receipt],
        acknowledgement: Acknowledgement,
        *,
        group_id: str | None = None,
        shower: Shower | None = None,
    ) -> list[GoQueueError | None]:
        """`settle` of receipts of groups that this node keeps; on one node that is all of them."""
        return await self.settle(receipts, acknowledgement, group_id=group_id, shower=shower)

    async def settle_in(
        self,
        shard: QueueShard | None,
        receipts: Sequence[Receipt],
        acknowledgement: Acknowledgement,
        group_id: str | None,
        shower: Shower | None = None,
    ) -> list[GoQueueError | None]:
        """`settle` of what was checked, in the groups of one shard or of all."""
        started_s = self._services.clock.monotonic_s()
        outcomes: list[GoQueueError | None] = []
        accepted: _Accepted = defaultdict(lambda: defaultdict(list))
        seen: set[Receipt] = set()
        part = _Part(shard, acknowledgement, group_id, shower)
        while len(outcomes) < len(receipts):
            if outcomes:
                await asyncio.sleep(0)
            rest = islice(receipts, len(outcomes), None)
            outcomes += await self._settle_some(part, rest, seen, accepted)
        self._measure(accepted, acknowledgement, started_s)
        return outcomes

    async def _settle_some(
        self,
        part: _Part,
        receipts: Iterator[Receipt],
        seen: set[Receipt],
        accepted: _Accepted,
    ) -> list[GoQueueError | None]:
        """Settle the first of the receipts, as many as can be told apart without a pause."""
        outcomes: list[GoQueueError | None] = []
        shard, acknowledgement, group_id, shower = part
        now_ms = self._queues.now_ms() if shard is None else shard.now_ms()
        mine: _Accepted = defaultdict(lambda: defaultdict(list))
        readers: dict[tuple[str, int], list[tuple[QueueGroup, TopicIdPartition]]] = {}
        looks = 0
        for receipt in receipts:
            place = receipt[:2]
            reading = readers.get(place)
            if reading is None:
                reading = readers[place] = self._readers(shard, *place, group_id)
            if receipt in seen:
                outcomes.append(UnknownReceiptError(f"{receipt} is there twice"))
                continue
            seen.add(receipt)
            found, looked = owner(reading, receipt, now_ms, group_id)
            looks += looked
            if isinstance(found, ReceiptError):
                outcomes.append(found)
            elif shower is not None and not self._may_read(shower, found[0]):
                outcomes.append(_forbidden(shower, receipt))
            else:
                group, key = found
                mine[group.group_id][key].append(receipt.offset)
                outcomes.append(None)
            if looks >= MOST_LOOKS:
                break
        # All of them at once: what was looked at before a pause need not be so after it.
        await self._store_all(mine, acknowledgement, now_ms)
        for name, by_queue in mine.items():
            for key, offsets in by_queue.items():
                accepted[name][key] += offsets
        return outcomes

    def _may_read(self, shower: Shower, group: QueueGroup) -> bool:
        authorizer = self._services.authorizer
        return authorizer.allows(shower.principal, _GROUP_READ, group.group_id, shower.host)

    async def _store_all(
        self, accepted: _Accepted, acknowledgement: Acknowledgement, now_ms: int
    ) -> None:
        """Let everything be stored that can be. Raises like `settle`, when something cannot."""
        applied: list[_Applied] = []
        refusal: GoQueueError | None = None
        for name, by_queue in accepted.items():
            try:
                applied.append(self._apply(name, by_queue, acknowledgement, now_ms))
            except GoQueueError as error:
                refusal = error
        await _all([self._store(each, acknowledgement) for each in applied])
        if refusal is not None:
            raise refusal

    async def settle_runs(
        self,
        group_id: str,
        named: Sequence[tuple[Run, Sequence[int]]],
        acknowledgement: Acknowledgement,
    ) -> list[tuple[Run, int, GoQueueError]]:
        """`settle` of messages by their places in runs; returns those that do not count, and why.

        In a cluster that may be a `CoordinatorUnavailableError`: nobody knows whether they count.
        Raises like `settle`.
        """
        started_s = self._services.clock.monotonic_s()
        check(acknowledgement)
        await self._queues.ready()
        term = self._queues.term(group_id)
        group = self._queues.group(group_id)
        now_ms = self._queues.now_ms(group)
        accepted: defaultdict[TopicIdPartition, list[int]] = defaultdict(list)
        seen: set[Receipt] = set()
        failures: list[tuple[Run, int, GoQueueError]] = []
        for run, places in named:
            offsets = [run.offsets[place] for place in places]
            queue = group.queues.get(run.key)
            if queue is None or run.queue is not queue:
                is_held = False
            else:
                is_held = run.is_held(queue, offsets, now_ms)
            if is_held:
                accepted[run.key] += offsets
                continue
            for place in places:
                receipt = run.receipt(place)
                error = _refusal(queue, receipt, now_ms, seen)
                if error is None:
                    accepted[run.key].append(receipt.offset)
                    seen.add(receipt)
                else:
                    failures.append((run, place, error))
        await self._store(self._apply(group_id, accepted, acknowledgement, now_ms), acknowledgement)
        self._measure({group_id: accepted}, acknowledgement, started_s)
        if failures:
            try:
                await self._queues.be_certain(term)
            except CoordinatorUnavailableError as doubt:
                return [(run, place, doubt) for run, place, _ in failures]
        return failures

    def _readers(
        self, shard: QueueShard | None, topic_name: str, number: int, first: str | None
    ) -> list[tuple[QueueGroup, TopicIdPartition]]:
        """The groups that read a partition, one of them first, and what it is called there."""
        topic = self._services.topics.catalogue.by_name.get(topic_name)
        if topic is None:
            return []
        key = (topic.topic_id, number)
        groups = self._queues.reading(key, shard)
        if first is not None:
            groups.sort(key=lambda group: group.group_id != first)
        return [(group, key) for group in groups]

    async def commit(self, member: QueueMember, offsets: Mapping[TopicPartition, int]) -> None:
        """Be done with everything before these offsets, as a reader of the log would say it.

        Raises:
            PartitionNotAssignedError: a partition is not this member's.
            InvalidGroupRequestError: nothing has been published at that offset.
        """
        await self._queues.ready()
        group = self._queues.group(member.group_id)
        mine = set(self._services.queue_members.partitions_of(member))
        if member.owner is not None:
            mine |= member.owner.revoking  # which it may finish with
        changes: dict[TopicIdPartition, list[Operation]] = {}
        for partition_id, offset in offsets.items():
            key = self._queues.key(partition_id)
            if partition_id not in mine or key not in group.queues:
                raise PartitionNotAssignedError(
                    f"{partition_id} is not assigned to member {member.member_id!r}"
                )
            end = self._queues.sources.of(partition_id).log_end
            if offset > end:
                raise InvalidGroupRequestError(f"{partition_id} ends at {end}, before {offset}")
            start = group.queues[key].start
            if offset > start:
                changes[key] = [ops.Settled([(start, offset)])]
        await self._queues.shard_of(group).store(group, changes)
        if self._services.queue_traces.is_on:
            self._services.queue_traces.committed(member.group_id, member.member_id, changes)
        self._queues.waiters(group.group_id).wake()

    # --- Making it true --------------------------------------------------------------------------

    def _apply(
        self,
        group_id: str,
        by_queue: Mapping[TopicIdPartition, list[int]],
        acknowledgement: Acknowledgement,
        now_ms: int,
    ) -> _Applied:
        group = self._queues.group(group_id)
        has_news = acknowledgement.verdict is Verdict.ACK and group.waits_for_acks(by_queue)
        changes: dict[TopicIdPartition, list[Operation]] = {}
        traces = self._services.queue_traces
        traced = []
        for key, offsets in by_queue.items():
            queue, ranges = group.queues[key], ops.ranges_of(offsets)
            if traces.is_on and (place := traces.traced_place(key)) is not None:
                traced.append(traces.acknowledged(place, group_id, queue, ranges, acknowledgement))
            changes[key] = decide(acknowledgement, ranges, queue, group.settings, now_ms)
        end_offset = self._queues.shard_of(group).change(group, changes)
        return _Applied(group, end_offset, has_news, traced)

    async def _store(self, applied: _Applied, acknowledgement: Acknowledgement) -> None:
        group, end_offset, has_news, traced = applied
        shard = self._queues.shard_of(group)
        await shard.state.committed(end_offset)
        self._services.queue_traces.settled(traced)
        if acknowledgement.verdict is not Verdict.ACK:
            shard.changed(group)
        elif has_news:
            self._queues.waiters(group.group_id).wake()

    def _measure(
        self,
        accepted: Mapping[str, Mapping[TopicIdPartition, list[int]]],
        acknowledgement: Acknowledgement,
        started_s: float,
    ) -> None:
        took_s = self._services.clock.monotonic_s() - started_s
        topics = self._services.topics.catalogue.by_id
        for group_id, by_queue in accepted.items():
            for (topic_id, _), offsets in by_queue.items():
                if topic_id in topics:
                    self._services.measures.settled(
                        topics[topic_id].name,
                        group_id,
                        acknowledgement.verdict,
                        len(offsets),
                        took_s,
                    )


async def _all(stores: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Let everything be stored that was done, also when some of it cannot be."""
    if len(stores) == 1:
        await stores[0]
        return
    told = await asyncio.shield(asyncio.gather(*stores, return_exceptions=True))
    for error in told:
        if error is not None:
            raise error


def check(acknowledgement: Acknowledgement) -> None:
    """Refuse what cannot be said of any message: raises `InvalidGroupRequestError`."""
    if len(acknowledgement.reason) > MAX_REASON_CHARS:
        raise InvalidGroupRequestError(
            f"the reason has {len(acknowledgement.reason)} characters, at most {MAX_REASON_CHARS}"
        )
    delay_ms = acknowledgement.delay_ms
    if delay_ms is not None and not 0 <= delay_ms <= MAX_VISIBILITY_MS:
        raise InvalidGroupRequestError(
            f"{delay_ms} ms: expected 0 to {MAX_VISIBILITY_MS} ({MAX_VISIBILITY_MS // 3600000} h)"
        )


def _forbidden(shower: Shower, receipt: Receipt) -> GroupAuthorizationFailedError:
    """The refusal of a receipt; which group it is of is not told."""
    return GroupAuthorizationFailedError(
        f"{shower.principal.label} lacks the right READ on the group of the receipt {receipt}: "
        "ask an administrator for a role or a rule that allows it"
    )


def _refusal(
    queue: PartitionQueue | None, receipt: Receipt, now_ms: int, seen: set[Receipt]
) -> ReceiptError | None:
    if queue is None:
        return UnknownReceiptError(f"{receipt}: the group reads that partition no more")
    if receipt in seen:
        return UnknownReceiptError(f"{receipt} is there twice")
    return refusal(queue, receipt, now_ms)

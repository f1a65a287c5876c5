"""The partitions that this node leads: their in-sync sets, and how leadership is handed over.

Every change of an in-sync set is a compare-and-set on the record of the partition and on the
registrations of the nodes it names. Whatever the answer is, the core decides what it means; an
answer that was lost is resolved by sending the same proposal again.

Partitions that are settled are not looked at. Those that are not are looked at once a second, and
ten times a second while something is to be proposed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.cluster.elections import handed_over, is_relievable
from goqueue.cluster.metadata import Committed, Conflict
from goqueue.cluster.progress import ALONE_S, REPLICA_LAG_S, LeaderProgress
from goqueue.model.errors import MetadataError, NotEnoughReplicasAfterAppendError
from goqueue.partitions.replication.led import LedPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.proposals import Proposal
    from goqueue.cluster.records import PartitionKey, PartitionRecord
    from goqueue.cluster.view import ClusterView, Stored
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.runtime.clock import Clock

logger = logging.getLogger(__name__)

TICK_S: Final = 0.1
_TICKS_A_PASS: Final = 10
"""How many ticks go by between two looks at partitions that are merely not settled."""
_PROPOSALS_AT_ONCE: Final = 32
"""Transactions of this node that are under way; the others wait."""
_RESIGN_STEP_S: Final = 0.02
"""How often a partition that is handed over is looked at."""
_START_S: Final = 0.02
"""Between looks whether followers have let go of deleted records."""


class LedPartitions:
    """All of them, and the task that keeps their in-sync sets."""

    def __init__(
        self,
        node_id: int,
        store: MetadataStore,
        view: ClusterView,
        clock: Clock,
        *,
        store_heard_s: Callable[[], float],
        lag_s: float = REPLICA_LAG_S,
    ) -> None:
        """Lead as node `node_id`; `store_heard_s` says when the store last answered anything."""
        self._node_id = node_id
        self._store = store
        self._view = view
        self._clock = clock
        self._store_heard_s = store_heard_s
        self._lag_s = lag_s
        self.by_key: dict[PartitionKey, LedPartition] = {}
        self._epochs: dict[PartitionKey, int] = {}
        """The newest epoch that this process led each partition in."""
        self._unsettled: dict[LedPartition, None] = {}
        self._urgent: dict[LedPartition, None] = {}
        self._sending: set[asyncio.Task[None]] = set()
        """At most one for each partition."""
        self._turns = asyncio.Semaphore(_PROPOSALS_AT_ONCE)
        self._are_alone = False
        self._task: asyncio.Task[None] | None = None
        self._ticks = 0
        self.look_count = 0
        """How often a partition was looked at; tests count it."""
        self.on_deposed: Callable[[PartitionKey], None] = lambda _: None
        """Told of a partition that this node finds itself no longer leading."""

    # --- Who leads -------------------------------------------------------------------------------

    def lead(
        self, key: PartitionKey, partition: ReplicatedPartition, stored: Stored[PartitionRecord]
    ) -> LedPartition:
        """Lead a partition in the epoch of its record, which is noted in its log already."""
        progress = LeaderProgress(
            key,
            self._node_id,
            stored,
            end=partition.log_end,
            position=partition.position,
            high_watermark=partition.high_watermark,
            now_s=self._clock.monotonic_s(),
            lag_s=self._lag_s,
        )
        led = LedPartition(key, partition, progress, self._attend)
        self._epochs[key] = progress.epoch
        self.by_key[key] = led
        self._unsettled[led] = self._urgent[led] = None
        return led

    def has_led(self, key: PartitionKey, epoch: int) -> bool:
        """Whether an epoch has begun here before, and is not to be begun once more.

        What was proposed in it, and who may be in sync by that, would be forgotten.
        """
        return self._epochs.get(key, -1) >= epoch

    def forget(self, key: PartitionKey) -> None:
        """The partition is gone for good: its topic was deleted."""
        self._epochs.pop(key, None)

    async def start_followed(self, key: PartitionKey, start: int, wait_s: float) -> None:
        """Return when the log of every follower that is alive starts there, or the role ends.

        Raises:
            NotEnoughReplicasAfterAppendError: one does not, after so long; it will.
        """
        led = self.by_key.get(key)
        deadline_s = self._clock.monotonic_s() + wait_s
        while led is not None and self.by_key.get(key) is led:
            led.start_moved()
            late = [
                node
                for node in led.progress.record.replicas
                if node != self._node_id
                and self._view.is_alive(node)
                and led.log_starts.get(node, -1) < start
            ]
            if not late:
                return
            if self._clock.monotonic_s() >= deadline_s:
                raise NotEnoughReplicasAfterAppendError(
                    f"{led.partition.id} starts at {start} here, and on nodes {late} after "
                    f"{wait_s:.0f} s not yet: they follow as soon as they can"
                )
            await asyncio.sleep(_START_S)

    def end(self, key: PartitionKey) -> None:
        """Another node leads it, or nobody does."""
        led = self.by_key.pop(key, None)
        if led is not None:
            self._unsettled.pop(led, None)
            self._urgent.pop(led, None)
            led.end()

    def observe(self, keys: Iterable[PartitionKey], nodes: Iterable[int]) -> None:
        """Records or nodes are others than they were: whoever is concerned is looked at now."""
        concerned = [led for key in keys if (led := self.by_key.get(key)) is not None]
        changed = set(nodes)
        if changed:
            concerned += [
                led
                for led in self.by_key.values()
                if not changed.isdisjoint(led.progress.record.replicas)
            ]
        for led in dict.fromkeys(concerned):
            led.is_settled = False
            self._unsettled[led] = None
            self._look(led)

    def _attend(self, led: LedPartition) -> None:
        self._unsettled[led] = None
        if len(led.progress.record.isr) < len(led.progress.record.replicas):
            self._urgent[led] = None

    # --- The task --------------------------------------------------------------------------------

    def start(self) -> None:
        """Keep the in-sync sets from now on."""
        self._task = asyncio.create_task(self._run(), name="in-sync sets")

    async def stop(self) -> None:
        """Look no more. What is led stays led, until its role is changed."""
        if self._task is not None:
            self._task.cancel()
        tasks = [each for each in (self._task, *self._sending) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                self.tick()
            except Exception:
                logger.exception("looking at the in-sync sets failed, trying again")

    def tick(self) -> None:
        """Look at what may have something to propose."""
        self._ticks += 1
        if self._ticks % _TICKS_A_PASS == 0:
            self._look_for_isolation()
            looked_at = list(self._unsettled)
        else:
            looked_at = list(self._urgent)
        self._urgent.clear()
        for led in looked_at:
            self._look(led)

    def _look(self, led: LedPartition) -> None:
        self.look_count += 1
        led.refresh()
        proposal = led.progress.tick(self._clock.monotonic_s(), self._view)
        self._follow(led)
        if proposal is not None:
            self._send_soon(led, proposal)
        if led.progress.is_pending:
            self._urgent[led] = None
        elif led.may_settle and all(map(self._view.is_active, led.progress.record.replicas)):
            led.is_settled = True
            self._unsettled.pop(led, None)
        if led.key not in self.by_key:
            self._unsettled.pop(led, None)
            self._urgent.pop(led, None)

    def _look_for_isolation(self) -> None:
        now_s, heard_s = self._clock.monotonic_s(), self._store_heard_s()
        are_alone = now_s - heard_s > ALONE_S
        if are_alone or self._are_alone:
            for led in self.by_key.values():
                led.note_alone(now_s, heard_s)
        self._are_alone = are_alone

    # --- Proposals -------------------------------------------------------------------------------

    def _send_soon(self, led: LedPartition, proposal: Proposal) -> None:
        task = asyncio.create_task(self._send(led, proposal))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, led: LedPartition, proposal: Proposal) -> None:
        progress = led.progress
        try:
            async with self._turns:
                result = await self._store.transact(proposal.conditions, proposal.operations)
        except MetadataError as error:
            logger.info("%s of %s is sent again: %s", proposal.purpose, led.partition.id, error)
            progress.unknown(proposal)
            return
        except BaseException:
            progress.unknown(proposal)
            raise
        before = progress.isr
        if isinstance(result, Committed):
            progress.committed(proposal, result.revision)
        elif isinstance(result, Conflict):
            progress.conflicted(proposal, result.current)
        else:
            progress.unknown(proposal)
        if progress.isr != before:
            logger.info("%s: in sync are %s, were %s", led.partition.id, progress.isr, before)
        self._follow(led)

    def _follow(self, led: LedPartition) -> None:
        if self.by_key.get(led.key) is not led:
            return
        led.follow_record()
        if not led.progress.is_leading:
            self.on_deposed(led.key)

    # --- Resigning -------------------------------------------------------------------------------

    async def resign(self, key: PartitionKey, wait_s: float, *, lost: bool = False) -> bool:
        """Hand a partition over to another replica in sync; whether one leads now.

        Appends stop first; then the followers have `wait_s` to fetch what there is. `lost`: the
        log here has failed, and this replica is not to be counted on.
        """
        led = self.by_key.get(key)
        if led is None:
            return True
        progress, clock = led.progress, self._clock
        led.stop_appends()
        until_s = clock.monotonic_s() + wait_s
        while progress.is_leading and clock.monotonic_s() < until_s:
            is_whole = lost or led.partition.high_watermark >= led.partition.log_end
            if is_whole or until_s - clock.monotonic_s() < wait_s / 2:
                proposal = progress.resign(clock.monotonic_s(), self._view, lost=lost)
                if proposal is not None:
                    await self._send(led, proposal)
                elif progress.is_pending:
                    self._urgent[led] = None
                elif handed_over(progress.record, self._view, lost=lost) is None:
                    break
            if progress.is_leading:
                await asyncio.sleep(_RESIGN_STEP_S)
        if progress.is_leading:
            led.stop_appends(is_resigning=False)
        return not progress.is_leading

    async def resign_all(self, wait_s: float) -> int:
        """Hand over everything that others can lead; returns how many are still led here."""
        outcomes = await asyncio.gather(*(self.resign(key, wait_s) for key in list(self.by_key)))
        return outcomes.count(False)

    async def relieve(self, wait_s: float) -> int:
        """Hand over what nodes with room on their disks can lead; returns what is led here."""
        keys = [
            key
            for key, led in self.by_key.items()
            if is_relievable(led.progress.record, self._view)
        ]
        await asyncio.gather(*(self.resign(key, wait_s) for key in keys))
        return len(self.by_key)

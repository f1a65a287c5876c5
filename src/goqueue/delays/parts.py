"""What keeps delayed messages between start and stop, put together from what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.delays.courier import Courier
from goqueue.delays.due_index import DueIndex
from goqueue.delays.entries import CLASSES
from goqueue.delays.intake import DelayIntake
from goqueue.delays.keeper import DelayKeeper
from goqueue.delays.recovery import Targets, recover, restore_half_done
from goqueue.delays.repeats import RepeatedBatches
from goqueue.delays.slot_files import DelaySlots
from goqueue.delays.slots import SlotFiles
from goqueue.delays.store import DelayLedger, DelayStore
from goqueue.model import internal_topics
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.handover import Handover
from goqueue.runtime.tasks import in_thread
from goqueue.state.log import StateLog
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

    from goqueue.delays.book import DelayBook
    from goqueue.delays.courier import OnFired
    from goqueue.delays.recovery import Recovered
    from goqueue.partitions.damage import DamageReports
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.state.log import StateEntry, StateLog
    from goqueue.state.logs import StateLogs
    from goqueue.topics.catalogue import Topics

DELAYED_TOPIC: Final = internal_topics.DELAYED
STATE_TOPIC: Final = internal_topics.DELAY_STATE
SLOTS_FOLDER: Final = "delay-slots"


class DelayPartServices(Protocol):
    """What is put together for delayed messages."""

    state_logs: StateLogs
    executor: Executor
    clock: Clock
    disk: Disk
    data_dir: Path
    damage: DamageReports
    topics: Topics
    partitions: Partitions

    async def create_internal_topic(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""


@dataclass(frozen=True, slots=True)
class DelayParts:
    """What there is between start and stop."""

    store: DelayStore
    ledger: DelayLedger
    index: DueIndex
    intake: DelayIntake
    courier: Courier
    keeper: DelayKeeper
    repeats: RepeatedBatches

    @property
    def book(self) -> DelayBook:
        """Which messages wait."""
        return self.ledger.book


async def open_parts(
    services: DelayPartServices, on_fired: OnFired, on_saved: Callable[[float], None]
) -> DelayParts:
    """Find out what waits, and what was on its way."""
    store, log = await _open_logs(services, on_saved)
    found = recover(store, await _replayed(log, services.executor))
    ledger, index = DelayLedger(log, found.book), DueIndex(services.clock.now_ms())
    intake = DelayIntake(store, found.book, index, services.clock)
    files = SlotFiles(services.disk, services.data_dir / SLOTS_FOLDER)
    slots = DelaySlots(files, store, found.book, services.damage)
    slots.sizes, slots.saved_ends = found.slot_sizes, found.saved_ends
    keeper = DelayKeeper(
        store, ledger, index, slots, executor=services.executor, clock=services.clock
    )
    courier = Courier(
        store,
        ledger,
        intake,
        index,
        topics=services.topics,
        partitions=services.partitions,
        executor=services.executor,
        clock=services.clock,
        on_fired=on_fired,
    )
    repeats = RepeatedBatches(store, intake, services.executor)
    parts = DelayParts(store, ledger, index, intake, courier, keeper, repeats)
    # In two batches: if the only one were damaged, what was said of messages that are lost would be
    # taken for what became of those that have got their ids.
    for _ in range(2 if found.cuts else 0):
        await ledger.durable(ledger.change(*found.cuts))
    await _fill_index(parts, found, services.clock.now_ms())
    _resume(parts, Targets(services.topics, services.partitions))
    return parts


async def _open_logs(
    services: DelayPartServices, on_saved: Callable[[float], None]
) -> tuple[DelayStore, StateLog]:
    """Make the internal topics if need be."""
    await services.create_internal_topic(DELAYED_TOPIC, CLASSES)
    await services.create_internal_topic(STATE_TOPIC, 1)
    partition = services.partitions.partition
    store = DelayStore([partition(TopicPartition(DELAYED_TOPIC, n)) for n in range(CLASSES)])
    return store, services.state_logs.log(STATE_TOPIC, 0, SnapshotKind.DELAYS, on_saved)


async def _replayed(log: StateLog, executor: Executor) -> list[StateEntry]:
    """Every change that counts, read slice by slice beside other work."""
    found: list[StateEntry] = []
    following = partial(next, log.slices(), None)
    while (entries := await in_thread(executor, following)) is not None:
        found += entries
    return found


async def _fill_index(parts: DelayParts, found: Recovered, now_ms: int) -> None:
    """Know when messages are due: from slots, from logs, and of those that wait once more."""
    await parts.keeper.load_past(now_ms)
    is_pending, unsaved = parts.book.is_pending, found.unsaved
    for at in range(0, len(unsaved), 2):
        if is_pending(unsaved[at + 1]):
            parts.index.add(unsaved[at], unsaved[at + 1])
    for delayed_id in filter(is_pending, found.again):
        parts.index.add(now_ms, delayed_id)


def _resume(parts: DelayParts, targets: Targets) -> None:
    """Take up what was interrupted."""
    restore_half_done(parts.store, parts.book, parts.intake, parts.repeats, targets)
    if parts.book.producer_id is not None:
        parts.courier.handover = Handover(parts.book.producer_id)
    parts.courier.resume(
        (intent, targets.partition(intent.topic_id, intent.partition))
        for intent in parts.book.intents.values()
    )

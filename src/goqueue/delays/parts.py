"""What keeps delayed messages, put together from what is stored."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from goqueue.delays.courier import Courier, OnFired
from goqueue.delays.deltas import encode_delta
from goqueue.delays.due_index import DueIndex
from goqueue.delays.intake import DelayIntake
from goqueue.delays.keeper import DelayKeeper
from goqueue.delays.repeats import RepeatedBatches
from goqueue.delays.replay import DelayReplay, Recovered, Targets, recover, restore_half_done
from goqueue.delays.slot_files import DelaySlots
from goqueue.delays.slots import SlotFiles
from goqueue.delays.store import DelayLedger, DelayStore
from goqueue.delays.wheel import TICK_MS
from goqueue.model.errors import StorageError
from goqueue.publishing.handover import Handover
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from goqueue.delays.book import DelayBook
    from goqueue.partitions.damage import DamageReports
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.state.logs import StateLogs
    from goqueue.state.shard import StateShard
    from goqueue.topics.catalogue import Topics

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
    producer_ids: ProducerIds


class DelayParts(msgspec.Struct, frozen=True):
    """What there is from one replay of the logs to the next."""

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
    services: DelayPartServices,
    store: DelayStore,
    state: StateShard,
    replay: DelayReplay,
    on_fired: OnFired,
) -> DelayParts:
    """Find out what waits, and what was on its way.

    Most of it happens in a thread: nobody else has a part before all are whole.
    """
    executor, clock = services.executor, services.clock
    found = await in_thread(executor, partial(recover, store, replay))
    # From a tick ago on: what is overdue fires at once, not when the next tick comes.
    book, index = found.book, DueIndex(clock.now_ms() - TICK_MS)
    ledger = DelayLedger(state, book)
    intake = DelayIntake(store, book, index, clock)
    files = SlotFiles(services.disk, services.data_dir / SLOTS_FOLDER)
    slots = DelaySlots(files, store, book, services.damage)
    keeper = DelayKeeper(store, ledger, index, slots, executor=executor, clock=clock)
    courier = Courier(
        store,
        ledger,
        intake,
        index,
        topics=services.topics,
        partitions=services.partitions,
        executor=executor,
        clock=clock,
        on_fired=on_fired,
    )
    repeats = RepeatedBatches(store, intake, executor)
    parts = DelayParts(store, ledger, index, intake, courier, keeper, repeats)
    if found.cuts:
        await _store_cuts(state, found)
    targets = Targets(services.topics, services.partitions)
    await in_thread(executor, partial(_resume, parts, found, targets))
    return parts


async def _store_cuts(state: StateShard, found: Recovered) -> None:
    """Say which messages are lost, before others get their ids.

    In two batches: if the only one were damaged, what was said of messages that are lost would be
    taken for what became of those that have got their ids.
    """
    log = state.log
    try:
        for _ in range(2):
            await log.partition.committed(log.append([encode_delta(each) for each in found.cuts]))
    except StorageError:
        pass  # the log refuses: there is another replay before anything can change


def _resume(parts: DelayParts, found: Recovered, targets: Targets) -> None:
    """Know when messages are due, and take up what was interrupted. Reads."""
    now_ms, is_pending, unsaved = parts.index.wheel.now_ms, parts.book.is_pending, found.unsaved
    parts.keeper.load_past()
    for at in range(0, len(unsaved), 2):
        if is_pending(unsaved[at + 1]):
            parts.index.add(unsaved[at], unsaved[at + 1])
    for delayed_id in filter(is_pending, found.again):
        parts.index.add(now_ms, delayed_id)
    restore_half_done(parts.store, parts.book, parts.intake, parts.repeats, targets)
    if parts.book.producer_id is not None:
        parts.courier.handover = Handover(parts.book.producer_id)
    parts.courier.resume(
        (intent, targets.partition(intent.topic_id, intent.partition))
        for intent in parts.book.intents.values()
    )

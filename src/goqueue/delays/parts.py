"""What keeps delayed messages, put together from what is stored."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from goqueue.delays.confirming import UnconfirmedBatch, Verifier
from goqueue.delays.courier import Courier, OnFired
from goqueue.delays.deltas import Confirmed, Ended, encode_delta
from goqueue.delays.due.due_index import DueIndex
from goqueue.delays.due.slot_files import DelaySlots
from goqueue.delays.due.slot_index import SlotIndex
from goqueue.delays.due.wheel import TICK_MS
from goqueue.delays.entries import DelayedState
from goqueue.delays.intake import DelayIntake
from goqueue.delays.keeper import DelayKeeper
from goqueue.delays.repeats import RepeatedBatches
from goqueue.delays.replay import (
    DelayReplay,
    Recovered,
    Targets,
    recover,
    restore_half_done,
    restore_unconfirmed,
)
from goqueue.delays.store import DelayLedger, DelayStore
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
    from goqueue.publishing.targets import Targets as HandoverTargets
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
    targets: HandoverTargets


class DelayParts(msgspec.Struct, frozen=True):
    """What there is from one replay of the logs to the next."""

    unit: int
    store: DelayStore
    ledger: DelayLedger
    index: DueIndex
    intake: DelayIntake
    courier: Courier
    keeper: DelayKeeper
    repeats: RepeatedBatches
    verifier: Verifier

    @property
    def book(self) -> DelayBook:
        """Which messages wait."""
        return self.ledger.book

    def void(self, batch: UnconfirmedBatch) -> None:
        """Let the delayed part of a batch that was not stored whole never go.

        Raises:
            DelaysUnavailableError: that cannot be stored; whoever leads the unit next finds out.
        """
        ids = tuple(filter(self.book.is_pending, batch.ids))
        if ids:
            self.ledger.change(Ended(batch.place[0], DelayedState.EXPIRED, ids))
        for each in ids:
            self.index.cancel(each)
            self.courier.cache.pop(each)
        self.intake.unconfirmed.decided(batch)

    def store_confirmed(self) -> None:
        """Store up to where it is known which messages count."""
        unconfirmed = self.intake.unconfirmed
        if unconfirmed.has_moved:
            unconfirmed.has_moved = False
            ends = unconfirmed.ends(self.store.committed_ends())
            if ends != self.book.confirmed:
                self.ledger.change(Confirmed(ends))


async def open_parts(
    services: DelayPartServices,
    store: DelayStore,
    state: StateShard,
    replay: DelayReplay,
    on_fired: OnFired,
    *,
    unit: int,
) -> DelayParts:
    """Find out what waits, and what was on its way.

    Most of it happens in a thread: nobody else has a part before all are whole.
    """
    executor, clock, is_cluster = services.executor, services.clock, services.targets.is_cluster
    slot_index = SlotIndex(services.disk, slots_folder(services.data_dir, unit))
    files, indexed = slot_index.files, None
    if is_cluster:
        # What another leader has said before may be about topics that this node has not seen yet,
        # and what its disk has of slots is not here.
        await services.topics.refresh()
        with suppress(StorageError):  # another node leads the unit, and this is closed
            await store.committed(store.ends())
        indexed = await in_thread(executor, slot_index.load)
    found = await in_thread(executor, partial(recover, store, replay, indexed))
    # From a tick ago on: what is overdue fires at once, not when the next tick comes.
    book, index = found.book, DueIndex(clock.now_ms() - TICK_MS)
    ledger = DelayLedger(state, book)
    intake = DelayIntake(store, book, index, clock, unit)
    intake.is_one_of_many = is_cluster
    slots = DelaySlots(files, store, book, services.damage)
    keeper = DelayKeeper(store, ledger, index, slots, executor=executor, clock=clock)
    if is_cluster:
        keeper.confirmed_ends = intake.unconfirmed.ends
        keeper.slot_index = slot_index
    courier = Courier(
        store,
        ledger,
        intake,
        index,
        topics=services.topics,
        targets=services.targets,
        executor=executor,
        clock=clock,
        on_fired=on_fired,
    )
    repeats = RepeatedBatches(store, intake, executor)
    verifier = Verifier(intake.unconfirmed, lambda place: courier.destinations.target(place)[1])
    parts = DelayParts(unit, store, ledger, index, intake, courier, keeper, repeats, verifier)
    verifier.void = parts.void
    if found.cuts:
        await _store_cuts(state, found)
    targets = Targets(services.topics, services.partitions)
    await in_thread(executor, partial(_resume, parts, found, targets, unit, is_cluster=is_cluster))
    await courier.destinations.resolve_here()
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


def slots_folder(data_dir: Path, unit: int) -> Path:
    """Where the slot files of a unit are."""
    folder = data_dir / SLOTS_FOLDER
    return folder / f"unit-{unit}" if unit else folder


def _resume(
    parts: DelayParts, found: Recovered, targets: Targets, unit: int, *, is_cluster: bool
) -> None:
    """Know when messages are due, and take up what was interrupted. Reads."""
    now_ms, is_pending, unsaved = parts.index.wheel.now_ms, parts.book.is_pending, found.unsaved
    parts.keeper.load_past()
    for at in range(0, len(unsaved), 2):
        if is_pending(unsaved[at + 1]):
            parts.index.add(unsaved[at], unsaved[at + 1])
    for delayed_id in filter(is_pending, found.again):
        parts.index.add(now_ms, delayed_id)
    if is_cluster:
        restore_unconfirmed(parts.store, parts.book, parts.intake.unconfirmed, unit)
    else:
        restore_half_done(parts.store, parts.book, parts.intake, parts.repeats, targets)
    if parts.book.producer_id is not None:
        parts.courier.outcomes.handover = Handover(
            parts.book.producer_id, parts.book.producer_epoch
        )
    parts.courier.destinations.resume(parts.book.intents.values())

"""The delayed messages of one unit, kept in a state shard, and their timer.

A unit is a partition of the log of changes and the logs of the classes, led by the same node. What
they say is put together anew with every replay, and whoever still works on what was before is
refused by its ledger.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from goqueue.delays.courier import AHEAD_MS, OnFired
from goqueue.delays.deltas import Ended, ProducerGiven
from goqueue.delays.due.wheel import TICK_MS
from goqueue.delays.entries import CLASSES, DelayedState
from goqueue.delays.parts import DelayParts, DelayPartServices, open_parts
from goqueue.delays.replay import DelayReplay
from goqueue.delays.store import DelayStore
from goqueue.delays.views import ids_in
from goqueue.model import internal_topics
from goqueue.model.errors import DelaysUnavailableError, MetadataError, StorageError
from goqueue.publishing.handover import LAST_EPOCH, Handover
from goqueue.runtime.tasks import in_thread
from goqueue.state.certainty import settled
from goqueue.state.shard import StateShard
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from goqueue.delays.confirming import UnconfirmedBatch
    from goqueue.state.log import StateEntry

logger = logging.getLogger(__name__)

DELAYED_TOPIC: Final = internal_topics.DELAYED
STATE_TOPIC: Final = internal_topics.DELAY_STATE
_SETTLE_MS: Final = 100
"""Between looks whether what was handed over is on the disk."""
_READ_AHEAD_MS: Final = 1000
"""Between looks for what falls due soon, while something does."""
_EXPIRED_AT_ONCE: Final = 1000
_CONFIRM_MS: Final = 1000
"""Between entries that say up to where it is known which messages count."""


class DelayShard:
    """One unit's worth of delayed messages."""

    def __init__(
        self,
        services: DelayPartServices,
        unit: int,
        on_fired: OnFired,
        on_expired: Callable[[Iterable[int]], None],
    ) -> None:
        """Tell `on_fired` what was handed over, `on_expired` what went with its topic."""
        logs = services.state_logs
        log = logs.change_log(STATE_TOPIC, unit, SnapshotKind.DELAYS)
        log.others_synced = self._messages_synced
        self._services = services
        self.unit = unit
        first = unit * CLASSES
        self.store = DelayStore(
            [logs.partition(DELAYED_TOPIC, first + each) for each in range(CLASSES)]
        )
        self._clock = services.clock
        self._on_fired = on_fired
        self._on_expired = on_expired
        self.state = StateShard(
            log,
            self,
            services.executor,
            _unavailable,
            complete=self._complete,
            on_active=self._on_active,
        )
        self.before_load: Callable[[], Awaitable[None]] = _at_once
        """Returns when nobody else writes the slot files of the unit."""
        self._replay = DelayReplay()
        self._loaded: DelayParts | None = None
        self.parts: DelayParts | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wake_ms = 0
        self._round: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._aside: set[asyncio.Task[None]] = set()
        """Reading ahead, snapshots, and topics that go; a few at a time."""
        self._reading = self._saving = False
        self._read_at_ms = self._confirmed_at_ms = 0
        self._look_again = False
        """The wall clock was set during a round: the next one follows at once."""
        self._is_stopping = False

    # --- What is stored --------------------------------------------------------------------------

    def begin(self) -> None:
        """A replay begins; until it is over, everybody sees what was before."""
        self._replay = DelayReplay()

    def replay(self, entries: Sequence[StateEntry], lost_count: int) -> None:
        """Take in entries as they were stored."""
        self._replay.take(entries, lost_count)

    async def _complete(self) -> None:
        """Read the messages themselves too, and what became of those that were on their way."""
        await self.before_load()
        self._loaded = await open_parts(
            self._services, self.store, self.state, self._replay, self._on_fired, unit=self.unit
        )
        self._replay = DelayReplay()

    def loaded(self, _lost_count: int) -> None:
        """The replay is over."""
        self._let_go()
        self.parts, self._loaded = self._loaded, None
        self._reading = False

    def _on_active(self) -> None:
        """Wait for what is next, and let what waits for topics that are gone meanwhile go."""
        by_id = self._services.topics.catalogue.by_id
        if self.parts is not None:
            for topic_id in self.parts.book.topics():
                if UUID(bytes=topic_id) not in by_id:
                    self.forget_topic(topic_id)
            self.parts.courier.outcomes.on_change = self.arm
            self.parts.courier.destinations.start()
            self.parts.verifier.look_into(self.parts.intake.unconfirmed.batches())
        self.arm()

    def dump(self) -> Iterator[StateEntry]:
        """Everything, as entries that would build it."""
        return iter(()) if self.parts is None else self.parts.book.dump()

    async def _messages_synced(self) -> None:
        ends = self.store.ends()
        await self.store.durable(ends)
        if self._services.targets.is_cluster:
            await self.store.committed(ends)

    async def settled(self) -> bool:
        """Return when what was just read is committed, and whether it is; see `certainty`."""
        if not await settled(self.state):
            return False
        if self.state.is_led:
            try:
                await self.store.committed(self.store.ends())
            except StorageError:
                return False
        return True

    def active(self) -> DelayParts:
        """What may be changed now. Raises `DelaysUnavailableError` when nothing may."""
        self.state.check()
        if self.parts is None or self._is_stopping:
            raise _unavailable()
        return self.parts

    def built(self) -> DelayParts:
        """What may be read. Raises `DelaysUnavailableError` while it is being built."""
        if self.parts is None or self._is_stopping or not self.state.is_built:
            raise _unavailable()
        return self.parts

    async def close(self) -> None:
        """Finish what is on its way, and keep what the next start needs, if this node leads."""
        await self._idle()
        is_cluster = self._services.targets.is_cluster  # where others have what the next needs
        if self.parts is not None and self.state.is_active and not is_cluster:
            try:
                await self._ensure_handover(self.parts)
            except (StorageError, MetadataError, DelaysUnavailableError) as error:
                logger.warning(
                    "delayed messages: no checkpoint, the next start replays more: %s", error
                )
            await self.parts.keeper.save()
        await self.state.close()
        self.parts = None

    async def halt(self) -> None:
        """Finish what is on its way, and begin nothing more."""
        self._is_stopping = True
        await self._idle()

    def _let_go(self) -> None:
        """End what asks other nodes: whoever leads the unit next asks again."""
        if self.parts is not None:
            self.parts.courier.destinations.stop()
            self.parts.verifier.stop()

    async def _idle(self) -> None:
        self._disarm()
        self._let_go()
        begun = [*self._aside] if self._round is None else [*self._aside, self._round]
        await asyncio.gather(*begun, return_exceptions=True)

    # --- Batches of which a part waits -----------------------------------------------------------

    def confirm(self, batch: UnconfirmedBatch) -> None:
        """The rest of a batch is committed: what waits of it counts."""
        if self.parts is None or not self.parts.intake.unconfirmed.decided(batch):
            return
        if self.state.is_active and not self._is_stopping:
            self.wake_at(self._clock.now_ms() + _CONFIRM_MS)

    def void(self, batch: UnconfirmedBatch) -> None:
        """The rest of a batch was not stored: what waits of it never goes."""
        if self.parts is not None:
            try:
                self.parts.void(batch)
            except DelaysUnavailableError:
                logger.info(
                    "unit %d moved: its new leader finds which delayed messages were not stored",
                    self.unit,
                )

    def doubt(self, batch: UnconfirmedBatch) -> None:
        """Nobody knows what became of the rest of a batch: ask the leader of its partition."""
        if self.parts is not None and self.state.is_active:
            self.parts.verifier.look_into([batch])

    # --- Topics that go --------------------------------------------------------------------------

    def forget_topic(self, topic_id: bytes) -> None:
        """A topic is gone, and with it what waits for it."""
        if self.parts is not None and self.state.is_active and self.parts.book.pending(topic_id):
            self._spawn(partial(self._expire, topic_id))

    async def _expire(self, topic_id: bytes) -> None:
        parts = self.active()
        for found in parts.book.ranges_of(topic_id):
            look = partial(ids_in, parts.store, topic_id, found)
            ids = await in_thread(self._services.executor, look)
            ids = [each for each in ids if parts.book.is_pending(each)]
            for start in range(0, len(ids), _EXPIRED_AT_ONCE):
                some = tuple(ids[start : start + _EXPIRED_AT_ONCE])
                parts.ledger.change(Ended(topic_id, DelayedState.EXPIRED, some))
                for each in some:
                    parts.index.cancel(each)
            self._on_expired(ids)

    # --- Time ------------------------------------------------------------------------------------

    def wake_at(self, due_ms: int) -> None:
        """A message has come that is due then; or so many that a snapshot should not wait."""
        if self._timer is None or due_ms < self._wake_ms or self.active().keeper.is_overdue:
            self.arm()

    def arm(self) -> None:
        """Be woken when there is something to do next."""
        self._disarm()
        if self._is_stopping or self._round is not None or not self.state.is_active:
            return
        parts = self.active()
        now_ms, due_ms = self._clock.now_ms(), parts.index.next_due_hint()
        if due_ms > now_ms + _READ_AHEAD_MS:
            due_ms = max(now_ms + _READ_AHEAD_MS, due_ms - AHEAD_MS)
        if parts.courier.has_due:
            due_ms = now_ms
        elif parts.courier.has_unsettled:
            due_ms = min(due_ms, now_ms + _SETTLE_MS)
        save_in_ms = parts.keeper.due_in_ms()
        if save_in_ms is not None and not self._saving:
            due_ms = min(due_ms, now_ms + save_in_ms)
        if parts.intake.unconfirmed.has_moved:
            due_ms = min(due_ms, now_ms + _CONFIRM_MS)
        if self._look_again:
            self._look_again, due_ms = False, now_ms
        self._wake_ms = due_ms
        wait_s = max(due_ms - now_ms, 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def clock_was_set(self) -> None:
        """Look now at what is due by the new time, and wait anew for the rest.

        The timer counts the time that passes, and was set for a moment of the old time.
        """
        self._look_again = self._round is not None  # which has read the old time
        self._disarm()
        self._on_timer()

    def _on_timer(self) -> None:
        self._timer = None
        if self._round is None and not self._is_stopping:
            self._round = asyncio.get_running_loop().create_task(self._run_round())

    async def _run_round(self) -> None:
        try:
            await self.deliver_due()
        except Exception:
            logger.exception("delayed messages: a round failed, retrying in the next one")
            await asyncio.sleep(_SETTLE_MS / 1000)
        self._round = None
        self.arm()

    async def deliver_due(self) -> int:
        """Do everything that is to be done now; returns how many messages were handed over.

        While nothing can be stored that is none, and they wait.
        """
        async with self._one_at_a_time:
            try:
                await self.state.active()
                return await self._deliver_due(self.active())
            except DelaysUnavailableError as error:
                logger.warning("delayed messages are overdue: %s", error)
                return 0

    async def _deliver_due(self, parts: DelayParts) -> int:
        now_ms = self._clock.now_ms()
        if now_ms < parts.index.wheel.now_ms - TICK_MS:
            logger.warning("the clock was set back: delayed messages wait for the new time")
            for _ in parts.index.turn_back(now_ms):
                await asyncio.sleep(0)
        if parts.index.wanted_slot(now_ms) is not None:
            await parts.keeper.load_slots(now_ms)
        await self._ensure_handover(parts)
        delivered = await parts.courier.deliver(now_ms)
        if not 0 <= now_ms - self._confirmed_at_ms < _CONFIRM_MS:
            self._confirmed_at_ms = now_ms
            parts.store_confirmed()
        self._read_ahead(parts, now_ms)
        save_in_ms = parts.keeper.due_in_ms()
        if save_in_ms is not None and save_in_ms <= 0 and not self._saving:
            self._saving = True
            self._spawn(partial(self._save, parts))
        return delivered

    async def _save(self, parts: DelayParts) -> None:
        try:
            await parts.keeper.save()
        finally:
            self._saving = False
            self.arm()

    async def _ensure_handover(self, parts: DelayParts) -> None:
        """Have a producer id from the first message on, until its epochs are used up."""
        outcomes, book = parts.courier.outcomes, parts.book
        known = outcomes.handover
        is_used_up = known is not None and known.epoch > LAST_EPOCH and not book.intents
        if is_used_up or (known is None and book.pending_count):
            producer_id = await self._services.producer_ids.allocate()
            await parts.ledger.committed(parts.ledger.change(ProducerGiven(producer_id)))
            outcomes.handover = Handover(producer_id)

    def _read_ahead(self, parts: DelayParts, now_ms: int) -> None:
        if self._reading or 0 <= now_ms - self._read_at_ms < _READ_AHEAD_MS // 2:
            return
        self._reading, self._read_at_ms = True, now_ms

        async def read() -> None:
            try:
                await parts.courier.read_ahead(now_ms)
            finally:
                self._reading = False

        self._spawn(read)

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something beside the rounds."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    @staticmethod
    async def _logged(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (StorageError, DelaysUnavailableError) as error:
            logger.warning("delayed messages: %s", error)


async def _at_once() -> None:
    """Nobody else does."""


def _unavailable() -> DelaysUnavailableError:
    return DelaysUnavailableError(
        "delayed messages cannot be stored or are being loaded; try again"
    )

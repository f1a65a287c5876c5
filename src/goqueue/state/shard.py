"""The state of one coordinator: opened with the leadership of its partition, and closed with it.

Every change goes the same way: decide, append, apply, and reply when it is committed. A shard is

- CLOSED: this node does not lead the partition. Everything is refused.
- LOADING: the state is being built from the log. Whoever wants to act waits for that.
- ACTIVE: what happens can be stored, in the epoch that the shard was opened in.

When something that was applied turns out not to be stored, the state is built anew from what the
log holds: what could not be stored has not happened. While the log refuses appends, requests are
refused at once, because to build the state takes far longer than a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError, LeadershipLostError, StorageError
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.state.log import StateEntry, StateLog
    from goqueue.state.machine import StateMachine

_log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Between looks whether a log that has failed takes appends again."""
_SMALL_BYTES: Final = 256 * 1024
"""A log up to this size is read without the detour through a thread: it takes a few ms."""

_AT_ONCE: Final = 50
"""Entries of a replay that are applied without a look at the time."""
_APPLY_S: Final = 0.005
"""So long entries are applied before the event loop turns."""


class ShardStatus(Enum):
    """Whether a shard may act."""

    CLOSED = auto()
    LOADING = auto()
    ACTIVE = auto()


class StateShard:
    """One partition's worth of state."""

    def __init__(
        self,
        log: StateLog,
        machine: StateMachine,
        executor: Executor,
        refusal: Callable[[], GoQueueError],
        *,
        complete: Callable[[], Awaitable[None]] | None = None,
        on_active: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep `machine` in `log`; `refusal` makes the error for whoever cannot be served.

        `complete` does what is left of a replay when every entry was replayed, and the state is not
        loaded before it returns; `on_active` is called each time that the state was built and may
        change again.
        """
        self.log = log
        self.now_ms = log.now_ms
        """The time of this shard; in a cluster it goes on with every leader."""
        self.status = ShardStatus.CLOSED
        self.epoch = -1
        """The leader epoch that the shard was opened in; it takes appends in no other."""
        self.replayed_slices = 0
        """Since the shard was made. The event loop turns after each."""
        self.generation = 0
        """Counts replays: what was decided on the state of an earlier one must not be stored."""
        self._complete = complete
        self._machine = machine
        self._executor = executor
        self.refusal = refusal
        self._on_active = on_active
        self._loading: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._unsent: deque[tuple[int, Callable[[GoQueueError | None], None]]] = deque()
        """Replies that wait for what they stand on to be committed; one for each request."""
        self._sending: asyncio.Task[None] | None = None
        self._refused: list[Callable[[GoQueueError], None]] = []
        """Of those whose changes were applied and not stored; they wait for the replay."""

    # --- Opening and closing ---------------------------------------------------------------------

    async def open(self, epoch: int) -> None:
        """This node leads the partition in this epoch: build the state, and be active.

        If the log refuses appends, the state is there to be read, and active once it has recovered.
        """
        await self.begin(epoch)
        await self.rebuilt()

    async def begin(self, epoch: int) -> None:
        """`open` without waiting for the state, which may need other replicas to be committed."""
        await self._halt()
        self.epoch = epoch
        self._load()

    async def close(self) -> None:
        """This node leads the partition no more: refuse everything from now on."""
        if self.status is ShardStatus.CLOSED:
            return
        self.status = ShardStatus.CLOSED
        await self._halt()

    async def _halt(self) -> None:
        """End what is under way; replies that wait are told what became of theirs."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait((self._loading,))
            self._loading = None
            self._refuse()
        if self._sending is not None:
            await self._sending
        if self._saving is not None:
            await self._saving

    async def save(self) -> None:
        """Keep the state for the next start, if it is what the log says and this node's to keep."""
        if not self.is_led:
            return
        if self._sending is not None:
            await self._sending
        if self._saving is not None:
            await self._saving
        if self.is_active and self.log.records_since_snapshot:
            await self.take_snapshot()

    # --- Loading ---------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether what happens now can be stored."""
        partition = self.log.partition
        takes_appends = partition.failure is None and partition.isolated is None
        return self.status is ShardStatus.ACTIVE and takes_appends and self.is_led

    @property
    def is_open(self) -> bool:
        """Whether this node leads the partition; the state may be being built."""
        return self.status is not ShardStatus.CLOSED

    @property
    def is_built(self) -> bool:
        """Whether the state is whole, to be read at least."""
        return self._loading is None and self.is_open

    @property
    def is_led(self) -> bool:
        """Whether this node still leads the partition in the epoch that the shard was opened in."""
        partition = self.log.partition
        return partition.is_leading and partition.leader_epoch == self.epoch

    async def active(self) -> None:
        """Return when the shard may act; raises the refusal when it may not for a while."""
        if self.is_active:
            return
        self.look()
        if self._loading is not None and self.log.partition.failure is None:
            await self._ended(self._loading)
        self.check()

    def check(self) -> None:
        """Raise the refusal, unless the shard may act."""
        if not self.is_active:
            self.look()
            raise self.refusal()

    def look(self) -> None:
        """Build the state again when the log has failed, and once more when it takes appends."""
        has_failed = self.log.partition.failure is not None
        if has_failed and self.status is ShardStatus.ACTIVE:
            self._load(self.log.partition.high_watermark)
        elif self.status is ShardStatus.LOADING and self._loading is None:
            if not has_failed:
                self._load()
            elif self._retry is None:
                self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self.look()

    def _load(self, end: int | None = None) -> None:
        self.generation += 1
        self.status = ShardStatus.LOADING
        self._loading = asyncio.get_running_loop().create_task(self._replay(end))

    async def _replay(self, end: int | None) -> None:
        """Build the state from the log in slices, between which the event loop turns.

        With an `end` only from what lies before it: of a log that has failed, that is committed.
        """
        try:
            self._machine.begin()
            if not self.log.is_empty:
                await self._replay_slices(end)
            self.log.go_on(self.epoch)
            if self._complete is not None:
                await self._complete()
            if end is None:
                await self._all_committed()
            self._machine.loaded(self.log.lost_count)
        finally:
            self._loading = None
            self._refuse()
        if self.log.partition.failure is not None:
            self.look()  # the state is what the log says; to change it must wait
            return
        self.status = ShardStatus.ACTIVE
        self._on_active()

    async def _all_committed(self) -> None:
        """Wait until other replicas have what was replayed: it may be cut off until then.

        A node that does not lead any more waits for nothing: what is committed is not its own.
        """
        partition = self.log.partition
        if self.is_led and not partition.is_committed(partition.log_end):
            with suppress(StorageError):  # the log has failed, or another node leads: `is_active`
                await partition.committed(partition.log_end)

    def _refuse(self) -> None:
        """Tell those whose changes are not stored that they are not."""
        refused, self._refused = self._refused, []
        for send in refused:
            send(self.refusal())

    async def _replay_slices(self, end: int | None) -> None:
        slices = self.log.slices(end)
        following = partial(next, slices, None)
        is_small = self.log.partition.size_bytes <= _SMALL_BYTES
        while True:
            entries = following() if is_small else await in_thread(self._executor, following)
            if entries is None:
                return
            await self._apply(entries)
            self.replayed_slices += 1
            await asyncio.sleep(0)

    async def _apply(self, entries: Sequence[StateEntry]) -> None:
        """Take in a slice; entries may be large or dear, and others have their turn in between."""
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + _APPLY_S
        for at in range(0, len(entries), _AT_ONCE):
            steps = self._machine.replay(entries[at : at + _AT_ONCE], self.log.lost_count)
            for _ in chain(steps or (), (None,)):
                if now_s() >= until_s:
                    await asyncio.sleep(0)
                    until_s = now_s() + _APPLY_S

    def failed(
        self, error: StorageError, send: Callable[[GoQueueError], None] | None = None
    ) -> GoQueueError:
        """What was applied is not stored: build the state anew. Returns what to tell whoever asked.

        `send` is called with it when the state knows nothing of it any more. Done twice for one
        failure, it is done once.
        """
        if self.status is ShardStatus.ACTIVE:
            _log.error("%s: state could not be stored: %s", self.log.partition.id, error)
            partition = self.log.partition
            self._load(None if partition.failure is None else partition.high_watermark)
        if send is not None:
            self._refused.append(send)
        return self.refusal()

    async def rebuilt(self) -> None:
        """Return when no replay is under way: the state is what the log says."""
        while self._loading is not None:
            await self._ended(self._loading)

    @staticmethod
    async def _ended(task: asyncio.Task[None]) -> None:
        """Wait for a replay that others wait for too; raises what it has raised."""
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()

    # --- Changing --------------------------------------------------------------------------------

    def append(self, entries: Sequence[StateEntry]) -> int:
        """Store entries, all or none; returns the offset that must be committed for a reply.

        Raises:
            StorageError: the log refuses; nothing was stored.
            GoQueueError: the refusal; the shard may not act.
        """
        partition = self.log.partition
        if self.status is not ShardStatus.ACTIVE or not self.is_led:
            raise self.refusal()
        if partition.isolated is not None:
            raise LeadershipLostError(f"another node is about to lead: {partition.isolated}")
        return partition.append(*self.log.encoded(entries)).end_offset

    async def committed(self, end_offset: int) -> None:
        """Return when everything before an offset is committed.

        Raises:
            GoQueueError: the refusal; it is not, and the state is built anew without it.
        """
        partition = self.log.partition
        try:
            self._check_led()
            if partition.is_committed(end_offset):
                return
            await partition.committed(end_offset)
        except StorageError as error:
            refused = self.failed(error)
            await self.rebuilt()
            raise refused from error

    def _check_led(self) -> None:
        """Raise where what lies below the watermark may be what another leader has put there."""
        if not self.is_led:
            raise LeadershipLostError(
                f"{self.log.partition.id}: this node does not lead it in epoch {self.epoch} any "
                "more: what was appended last may not be committed; send it again"
            )

    def reply(self, end_offset: int | None, send: Callable[[GoQueueError | None], None]) -> None:
        """Call `send` once everything before an offset is committed; with the refusal if not.

        Replies go in the order in which they are given here. One without an offset says something
        that stands on what was said before.
        """
        is_committed = end_offset is None or self.log.partition.is_committed(end_offset)
        if is_committed and not self._unsent:
            send(None)
            return
        self._unsent.append((self._unsent[-1][0] if end_offset is None else end_offset, send))
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._unsent:
                await self.committed(self._unsent[0][0])
                self._unsent.popleft()[1](None)
        except GoQueueError as error:
            while self._unsent:
                self._unsent.popleft()[1](error)
        finally:
            self._sending = None

    # --- Snapshots -------------------------------------------------------------------------------

    def save_if_due(self) -> asyncio.Task[None] | None:
        """Begin to keep a snapshot, if enough was applied since the last one."""
        if self._saving is None and self.log.snapshot_is_due:
            self._saving = asyncio.get_running_loop().create_task(self._save())
        return self._saving

    async def _save(self) -> None:
        try:
            await self.take_snapshot()
        finally:
            self._saving = None

    async def take_snapshot(self) -> bool:
        """Keep a snapshot now, if the disk lets us; one at a time. Says whether there is one."""
        try:
            return await self.log.save_snapshot(self._dump(), self._executor)
        except GoQueueError as error:
            if not isinstance(error, LeadershipLostError):  # whoever leads next has the log
                _log.warning("%s: no snapshot: %s", self.log.partition.id, error)
            return False

    def _dump(self) -> Iterator[StateEntry]:
        """Everything; raises the refusal once the state is being built anew."""
        generation = self.generation

        def check() -> None:
            if self.status is not ShardStatus.ACTIVE or self.generation != generation:
                raise self.refusal()

        for entry in self._machine.dump():
            check()
            yield entry
        check()

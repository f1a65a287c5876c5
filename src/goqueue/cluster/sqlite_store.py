# ruff: noqa: D102 - `MetadataStore` says what each call promises
"""The metadata store of a single node.

All work on the file happens in one thread of its own. A commit waits for the disk, 0.25 ms on an
idle one and tens of milliseconds on one that others are flooding; on the event loop every client
would wait with it. Going through the thread costs about 0.05 ms a call, and gives order for free: a
read that was asked for after a write sees it.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from goqueue.cluster.metadata import (
    Changes,
    Condition,
    Entry,
    MetadataStore,
    Operation,
    Put,
    Revision,
    SessionId,
    Snapshot,
    StoreStatus,
    TransactionResult,
    Unknown,
    check_transaction,
)
from goqueue.cluster.sqlite_core import HistoryLimits, SqliteCore
from goqueue.model.errors import (
    GoQueueError,
    InvalidMetadataRequestError,
    MetadataUnavailableError,
    SessionLapsedError,
)
from goqueue.model.limits import MAX_METADATA_SESSIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk


class _Session(msgspec.Struct):
    ttl_s: float
    deadline_s: float


class Sessions:
    """A session is over from its deadline on, also before anybody has tidied up after it."""

    def __init__(self) -> None:
        self._sessions: dict[SessionId, _Session] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, ttl_ms: int, now_s: float) -> SessionId:
        """Start one."""
        if ttl_ms <= 0:
            raise InvalidMetadataRequestError(f"a session of {ttl_ms} ms, expected more than 0")
        if len(self._sessions) >= MAX_METADATA_SESSIONS:
            raise InvalidMetadataRequestError(
                f"{MAX_METADATA_SESSIONS} sessions are open, as many as may be: end some first"
            )
        self._last_id += 1
        session = SessionId(self._last_id)
        self._sessions[session] = _Session(ttl_ms / 1000, now_s + ttl_ms / 1000)
        return session

    def require(self, session: SessionId, now_s: float) -> None:
        """Raise `SessionLapsedError` unless the session is alive."""
        found = self._sessions.get(session)
        if found is None or found.deadline_s <= now_s:
            raise SessionLapsedError(f"session {session} has ended: open another one")

    def keep_alive(self, session: SessionId, now_s: float) -> None:
        """Move the deadline of a session that is alive."""
        self.require(session, now_s)
        found = self._sessions[session]
        found.deadline_s = now_s + found.ttl_s

    def due(self, now_s: float) -> list[SessionId]:
        """The sessions that are over and whose keys are still to be removed, then `forget`."""
        return [name for name, found in self._sessions.items() if found.deadline_s <= now_s]

    def lapse(self, session: SessionId, now_s: float) -> None:
        """Bring the deadline forward to now."""
        found = self._sessions.get(session)
        if found is not None:
            found.deadline_s = min(found.deadline_s, now_s)

    def forget(self, session: SessionId) -> None:
        """The session's keys are gone."""
        self._sessions.pop(session, None)

    def next_deadline_s(self) -> float | None:
        """When the next session is over, if nobody speaks for it."""
        return min((found.deadline_s for found in self._sessions.values()), default=None)


_T = TypeVar("_T")
_LOG: Final = logging.getLogger(__name__)

_LAPSE_RETRY_S: Final = 1.0
"""How long after a failure (a full disk) the keys of lapsed sessions are removed again."""


class SqliteMetadataStore(MetadataStore):
    """Made by `open`; the interface says what each call promises.

    Sessions live as long as this process: whoever held one before a restart is gone, so its keys
    are removed when the file is opened.
    """

    def __init__(self, core: SqliteCore, worker: ThreadPoolExecutor, clock: Clock) -> None:
        self._core = core
        self._worker = worker
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._sessions = Sessions()
        self._closed = False
        self._changed = asyncio.Event()
        """Set, and replaced by another, when something may have changed."""
        self._timer: asyncio.TimerHandle | None = None
        self._lapsing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, path: Path, *, disk: Disk, clock: Clock, history: HistoryLimits | None = None
    ) -> SqliteMetadataStore:
        """Open the file at `path`, or make it.

        Raises:
            MetadataUnavailableError: another process has it.
            CorruptMetadataError: it is damaged.
            ForeignFileError, UnsupportedFormatError: it is not ours, or of a newer version.
        """
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="goqueue-metadata")

        def prepare() -> SqliteCore:
            core = SqliteCore(path, disk, history or HistoryLimits())
            core.end_all_sessions()
            return core

        try:
            core = await asyncio.get_running_loop().run_in_executor(worker, prepare)
        except BaseException:
            worker.shutdown(wait=False)
            raise
        return cls(core, worker, clock)

    async def get(self, key: str) -> Entry | None:
        return await self._run(partial(self._core.get, key))

    async def range(self, prefix: str) -> Snapshot:
        return await self._run(partial(self._core.range, prefix))

    async def transact(
        self, conditions: Sequence[Condition], operations: Sequence[Operation]
    ) -> TransactionResult:
        check_transaction(conditions, operations)
        now_s = self._clock.monotonic_s()
        for operation in operations:
            if isinstance(operation, Put) and operation.session is not None:
                self._sessions.require(operation.session, now_s)
        work = partial(self._core.transact, tuple(conditions), tuple(operations))
        return await self._run(work, changes=True)

    async def watch(self, prefix: str, after: Revision) -> AsyncIterator[Changes]:
        while True:
            # Taken before reading: a change during the read sets it, so none is slept through.
            changed = self._changed
            page = await self._run(partial(self._core.changes, prefix, after))
            for changes in page.changes:
                yield changes
            after = page.revision
            if page.complete:
                await changed.wait()

    async def open_session(self, ttl_ms: int) -> SessionId:
        self._require_open()
        session = self._sessions.open(ttl_ms, self._clock.monotonic_s())
        self._arm()
        return session

    async def keep_alive(self, session: SessionId) -> None:
        self._require_open()
        self._sessions.keep_alive(session, self._clock.monotonic_s())
        self._arm()

    async def end_session(self, session: SessionId) -> None:
        self._sessions.lapse(session, self._clock.monotonic_s())
        await self.end_lapsed_sessions()

    async def end_lapsed_sessions(self) -> None:
        """Remove the keys of every session that is over; a timer calls this at each deadline."""
        for session in self._sessions.due(self._clock.monotonic_s()):
            result = await self._run(partial(self._core.end_session, session), changes=True)
            if isinstance(result, Unknown):
                raise MetadataUnavailableError(
                    f"session {session} may not have ended: {result.reason}"
                )
            self._sessions.forget(session)
        self._arm()

    async def status(self) -> StoreStatus:
        return StoreStatus(*await self._run(self._core.measure))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._lapsing is not None:
            await asyncio.gather(self._lapsing, return_exceptions=True)
        await asyncio.wrap_future(self._worker.submit(self._core.close))
        self._worker.shutdown()
        self._notify()

    # --- inside

    async def _run(self, work: Callable[[], _T], *, changes: bool = False) -> _T:
        """Do `work` in the thread. A caller that is cancelled leaves work that has begun to end."""
        self._require_open()
        future: Future[_T] = self._worker.submit(work)
        if changes:
            future.add_done_callback(self._notify_from_thread)
        return await asyncio.wrap_future(future)

    def _notify_from_thread(self, _done: Future[_T]) -> None:
        # `close` waits for the thread, so the loop is still there.
        self._loop.call_soon_threadsafe(self._notify)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _require_open(self) -> None:
        if self._closed:
            raise MetadataUnavailableError("the metadata store is closed: open it again")

    def _arm(self, at_least_s: float = 0.0) -> None:
        """Set the timer to the next deadline of a session."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_s = self._sessions.next_deadline_s()
        if deadline_s is None or self._closed:
            return
        delay_s = max(deadline_s - self._clock.monotonic_s(), at_least_s)
        self._timer = self._loop.call_later(delay_s, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        if self._lapsing is not None and not self._lapsing.done():
            return  # it sets the timer again when it is through
        self._lapsing = self._loop.create_task(self._lapse())

    async def _lapse(self) -> None:
        try:
            await self.end_lapsed_sessions()
        except GoQueueError as error:
            if self._closed:
                return
            _LOG.warning("the keys of a lapsed session are still there: %s", error)
            self._arm(at_least_s=_LAPSE_RETRY_S)

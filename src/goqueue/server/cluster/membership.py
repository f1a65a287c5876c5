"""That this node runs: its registration, under a session that it keeps alive.

The revision of the first record of a registration is the node's *incarnation*: whatever it was
trusted with before, it is not trusted with in another one. A node registers anew when the
controller has fenced it. When only its session has lapsed, because the store did not answer, it
registers again in the same incarnation. It goes on serving meanwhile, for only the records of
partitions say who leads.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from goqueue.cluster import elections
from goqueue.cluster.metadata import (
    ABSENT,
    Committed,
    Condition,
    Conflict,
    MetadataStore,
    Operation,
    Put,
    Revision,
    SessionId,
    Unknown,
)
from goqueue.cluster.records import (
    Member,
    NodeRecord,
    NodeState,
    decode,
    encode,
    member_key,
    node_key,
)
from goqueue.model.errors import (
    ClusterMismatchError,
    GoQueueError,
    MetadataUnavailableError,
    SessionLapsedError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping

    from goqueue.cluster.metadata import Entry
    from goqueue.cluster.proposals import Proposal
    from goqueue.cluster.records import NodeAddress, PartitionKey
    from goqueue.cluster.view_keeper import Touched, ViewKeeper
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.tasks import Sleep

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

SESSION_MS: Final = 2000
"""A backstop: pings find out earlier."""
BEAT_S: Final = 0.7
_RETRY_S: Final = 0.2
_ANOTHER_S: Final = 10.0
"""How long a registration with another folder is waited for to end: it may be of a run of this node
before its folder was lost."""
_AGAIN_S: Final = 1.0
_LAST_AGAIN_S: Final = 16.0
"""How long after a registration a fenced node may make the next one. It doubles each time: a node
that is fenced again and again is better away than leading now and then."""
_STEADY_S: Final = 60.0
"""A registration that lasted so long is forgotten by the next: the wait begins anew."""


class Membership:
    """The registration of this node."""

    def __init__(
        self,
        node_id: int,
        record: NodeRecord,
        store: MetadataStore,
        keeper: ViewKeeper,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`record` is what is registered; its state is `STARTING`."""
        self.node_id = node_id
        self.record = record
        self.incarnation = 0
        """Of this registration; 0 before the first."""
        self.contact_s = clock.monotonic_s()
        """When the store last answered a heartbeat."""
        self._store = store
        self._keeper = keeper
        self._clock = clock
        self._sleep = sleep
        self._session: SessionId | None = None
        self._alive_s = clock.monotonic_s()
        """When the session was last known to be alive."""
        self._registered_s = clock.monotonic_s() - _STEADY_S
        self._again_s = _AGAIN_S
        self._registering = asyncio.Lock()
        self._callbacks: list[Callable[[int], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = False

    def on_registered(self, callback: Callable[[int], None]) -> None:
        """Call back with the incarnation whenever it is another one."""
        self._callbacks.append(callback)

    # --- Binding ---------------------------------------------------------------------------------

    async def bind(self) -> None:
        """Bind the node's id to its folder.

        Raises:
            ClusterMismatchError: another node of the same id is running.
        """
        key, mine = member_key(self.node_id), Member(self.record.folder_id, self.record.name)
        deadline_s = self._clock.monotonic_s() + _ANOTHER_S
        while True:
            entry = await self._get(key)
            bound = None if entry is None else decode(entry.value, Member, key)
            if bound == mine:
                return
            if bound is not None and bound.folder_id != mine.folder_id:
                other = await self._get(node_key(self.node_id))
                if other is not None:
                    if self._clock.monotonic_s() > deadline_s:
                        raise self._taken(decode(other.value, NodeRecord, other.key))
                    await self._sleep(_RETRY_S)
                    continue
                logger.warning(
                    "node %d had the folder %s and has %s now: what it held is fetched again",
                    self.node_id,
                    bound.folder_id,
                    mine.folder_id,
                )
            condition = Condition(key, ABSENT if entry is None else entry.revision)
            await self._transact([condition], Put(key, encode(mine)))

    def _taken(self, other: NodeRecord) -> ClusterMismatchError:
        return ClusterMismatchError(
            f"node {self.node_id} is running already: {other.name!r} at {other.internal.host}:"
            f"{other.internal.port} with folder {other.folder_id}, and this is "
            f"{self.record.name!r} with folder {self.record.folder_id}: give each node an id of "
            "its own, or stop the other"
        )

    # --- Registering -----------------------------------------------------------------------------

    async def register(self) -> int:
        """Register this run of the node; returns its incarnation when the view has it.

        Raises:
            ClusterMismatchError: another node of the same id is running.
        """
        async with self._registering:
            revision = await self._register()
            await self._reached(revision)
            return self.incarnation

    async def _register(self) -> Revision:
        key = node_key(self.node_id)
        deadline_s = self._clock.monotonic_s() + _ANOTHER_S
        while True:
            entry = await self._get(key)
            before = None if entry is None else decode(entry.value, NodeRecord, key)
            if before is not None and before.folder_id != self.record.folder_id:
                if self._clock.monotonic_s() > deadline_s:
                    raise self._taken(before)
                await self._sleep(_RETRY_S)
                continue
            # The record of a new run does not know its own revision.
            incarnation = self.incarnation if self._goes_on(entry, before) else 0
            opened_s = self._clock.monotonic_s()
            session = await self._open_session()
            value = encode(replace(self.record, incarnation=incarnation))
            condition = Condition(key, ABSENT if entry is None else entry.revision)
            try:
                result = await self._transact([condition], Put(key, value, session))
            except SessionLapsedError:
                continue
            if isinstance(result, Unknown):
                result = self._found(await self._get(key), value, session)
            if isinstance(result, Committed):
                self._session, self._alive_s, self.contact_s = session, opened_s, opened_s
                if not incarnation:
                    self._became(result.revision)
                return result.revision

    def _goes_on(self, entry: Entry | None, before: NodeRecord | None) -> bool:
        """Whether only the session of this registration is another one: the run is the same.

        Not when the node was fenced, which ends its incarnation, or when another run of it has
        registered.
        """
        fence = self._keeper.view.fences.get(self.node_id)
        is_fenced = fence is not None and fence.value.incarnation >= self.incarnation
        if not self.incarnation or is_fenced:
            return False
        if entry is None or before is None:
            return True
        return (before.incarnation or entry.revision) == self.incarnation

    def _found(self, entry: Entry | None, value: bytes, session: SessionId) -> Committed | Unknown:
        if entry is not None and entry.value == value and entry.session == session:
            return Committed(entry.revision)
        return Unknown("the registration is not there")

    def _became(self, incarnation: int) -> None:
        self._registered_s = self._clock.monotonic_s()
        self.incarnation = incarnation
        for callback in self._callbacks:
            callback(incarnation)

    async def _open_session(self) -> SessionId:
        while True:
            try:
                return await self._store.open_session(SESSION_MS)
            except MetadataUnavailableError as error:
                logger.warning("no session with the metadata store, retrying: %s", error)
                await self._sleep(_RETRY_S)

    async def change_state(self, state: NodeState) -> None:
        """Say what this node is ready for, in the same registration."""
        await self._update(state=state)

    async def tell_full(self, is_full: bool) -> None:  # noqa: FBT001 - what is told
        """Say whether others should lead because of this node's disk, in the same registration."""
        await self._update(is_full=is_full)

    async def advertise(self, listeners: Mapping[str, NodeAddress]) -> None:
        """Say where clients find this node, in the same registration."""
        if listeners != self.record.listeners:
            await self._update(listeners=dict(listeners))

    async def _update(self, **changes: object) -> None:
        key = node_key(self.node_id)
        async with self._registering:
            self.record = record = replace(self.record, **changes)
            while True:
                entry = await self._get(key)
                stored = None if entry is None else decode(entry.value, NodeRecord, key)
                if entry is None or stored is None or entry.session != self._session:
                    await self._reached(await self._register())
                    return
                if replace(stored, incarnation=0) == replace(record, incarnation=0):
                    await self._reached(entry.revision)
                    return
                value = encode(replace(record, incarnation=self.incarnation))
                try:
                    await self._transact(
                        [Condition(key, entry.revision)], Put(key, value, self._session)
                    )
                except SessionLapsedError:
                    await self._reached(await self._register())
                    return

    # --- Staying ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Keep the session alive, and register anew when that fails or this node is fenced."""
        self._keeper.on_change(self._on_change)
        task = asyncio.create_task(self._beat(), name="node session")
        self._tasks.add(task)

    async def stop(self) -> None:
        """End the session: the registration goes with it."""
        self._is_ending = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            try:
                await self._store.end_session(self._session)
            except GoQueueError as error:
                logger.warning("the registration ends by itself in a moment: %s", error)

    async def _beat(self) -> None:
        while True:
            await self._sleep(BEAT_S)
            began_s = self._clock.monotonic_s()
            try:
                if began_s - self._alive_s >= SESSION_MS / 1000:
                    # Bound to another session the record stays: it is not missed for a moment.
                    self._again()
                    continue
                if self._session is not None:
                    await self._store.keep_alive(self._session)
                self.contact_s = self._alive_s = began_s
                self._look()  # a fence that came while a registration was under way was left to it
            except SessionLapsedError:
                logger.warning("the session of this node has lapsed: registering anew")
                self._again()
            except MetadataUnavailableError as error:
                logger.debug("no heartbeat: %s", error)
            except Exception:  # the next one may succeed
                logger.exception("a heartbeat failed")

    def _on_change(self, touched: Touched) -> None:
        if self.node_id in touched.nodes:
            self._look()

    def _look(self) -> None:
        """Register anew where the view shows that this registration is over."""
        view = self._keeper.view
        if view.revision < self.incarnation or self._registering.locked():
            return  # it shows one before, or there will be another in a moment
        if self.node_id not in view.nodes or view.is_fenced(self.node_id):
            self._again()

    def _again(self) -> None:
        """Register anew; a second request while one is under way is the same one."""
        if self._is_ending or any(task.get_name() == "registration" for task in self._tasks):
            return
        task = asyncio.create_task(self._register_again(), name="registration")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _register_again(self) -> None:
        fence = self._keeper.view.fences.get(self.node_id)
        if fence is not None and fence.value.incarnation >= self.incarnation:
            logger.warning("this node was fenced (%s): registering anew", fence.value.reason)
            await self._back_off()
        try:
            await self.register()
        except ClusterMismatchError as error:
            logger.error("%s", error)  # noqa: TRY400 - the text says it
        except GoQueueError as error:
            logger.warning("registering failed: %s", error)

    async def _back_off(self) -> None:
        lasted_s = self._clock.monotonic_s() - self._registered_s
        if lasted_s > _STEADY_S:
            self._again_s = _AGAIN_S
        if lasted_s < self._again_s:
            await self._sleep(self._again_s - lasted_s)
        self._again_s = min(self._again_s * 2, _LAST_AGAIN_S)

    # --- Striking --------------------------------------------------------------------------------

    async def strike(self, lost: Collection[PartitionKey] | None = None) -> None:
        """Leave every in-sync set, or those of the partitions that lost something.

        Returns when nobody counts on this node any more for what it may not have.
        """
        while True:
            proposals = list(self._strikes(lost))
            if not proposals:
                # Once more from the store itself: the view may have been a moment old.
                await self._retried(self._keeper.reconcile)
                if not any(True for _ in self._strikes(lost)):
                    return
                continue
            results = [
                await self._transact(each.conditions, *each.operations) for each in proposals
            ]
            revisions = [each.revision for each in results if isinstance(each, Committed)]
            await self._reached(max(revisions, default=Revision(0)))
            if len(revisions) < len(results):
                await self._sleep(_RETRY_S)
                await self._retried(self._keeper.reconcile)

    def _strikes(self, lost: Collection[PartitionKey] | None) -> Iterator[Proposal]:
        return elections.strikes(self._keeper.view, self.node_id, keys=lost)

    # --- Asking ----------------------------------------------------------------------------------

    async def _get(self, key: str) -> Entry | None:
        return await self._retried(partial(self._store.get, key))

    async def _reached(self, revision: Revision) -> None:
        await self._retried(partial(self._keeper.reached, revision))

    async def _retried(self, read: Callable[[], Awaitable[_T]]) -> _T:
        """Read however long that takes: a node does not end because its store is slow."""
        while True:
            try:
                return await read()
            except MetadataUnavailableError as error:
                logger.warning("the metadata cannot be read, retrying: %s", error)
                await self._sleep(_RETRY_S)

    async def _transact(
        self, conditions: Iterable[Condition], *operations: Operation
    ) -> Committed | Conflict | Unknown:
        try:
            return await self._store.transact(tuple(conditions), operations)
        except SessionLapsedError:
            raise
        except MetadataUnavailableError as error:
            await self._sleep(_RETRY_S)
            return Unknown(str(error))

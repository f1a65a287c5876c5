"""Keeps the view of a node as the metadata store has it: everything is read once, then watched.

A node has one reading and one watch, whoever wants to know. `ClusterView` gets the records of
nodes and partitions; whoever follows a prefix gets its raw keys, such as the catalogue those of
topics. Every 60 s everything is read again and compared, because old versions of etcd have lost
events of a watch.

A store that cannot be reached stops nothing: the view stays as it was, and the watch goes on after
the last revision that it has seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.cluster.metadata import Change, Entry, MetadataStore, Revision
from goqueue.cluster.records import (
    CONTROLLER,
    FENCES,
    MEMBERS,
    NODES,
    PARTITIONS,
    PartitionKey,
)
from goqueue.cluster.view import ClusterView
from goqueue.model.errors import (
    GoQueueError,
    MetadataCompactedError,
    MetadataUnavailableError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.shared_work import SharedWork
from goqueue.runtime.tasks import deadline

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from goqueue.cluster.metadata import Snapshot
    from goqueue.runtime.tasks import Sleep

logger = logging.getLogger(__name__)

RECONCILE_S: Final = 60.0
"""How often everything is read again."""
_FIRST_BACKOFF_S: Final = 0.05
_LAST_BACKOFF_S: Final = 1.0
_NUDGE_S: Final = 0.5
"""How long a node waits for the event of its own write before it reads instead."""
_ATTEMPTS: Final = 3
"""Readings that are overtaken by events, before a reconciliation is left to the next turn."""


class Touched(NamedTuple):
    """What has changed since the last call."""

    partitions: frozenset[PartitionKey]
    nodes: frozenset[int]
    """Nodes whose registration, fence or membership is another."""
    controller: bool

    @property
    def is_empty(self) -> bool:
        """Whether the change was of other keys."""
        return not (self.partitions or self.nodes or self.controller)


class Follower(NamedTuple):
    """Somebody who wants the raw keys under a prefix."""

    prefix: str
    on_reset: Callable[[Mapping[str, Entry]], None]
    """Told every key that there is, at first and whenever changes were missed."""
    on_changes: Callable[[Revision, tuple[Change, ...]], None]
    """Told what one transaction did to them."""


class ViewKeeper:
    """The one watch of a node. Callbacks are synchronous and see the view as it is by then."""

    def __init__(self, store: MetadataStore, sleep: Sleep = asyncio.sleep) -> None:
        """Wait with `sleep`, which a test can let go at its own pace."""
        self.view = ClusterView()
        self.is_current = False
        """Whether the watch is running, as far as anybody knows."""
        self._store = store
        self._sleep = sleep
        self._entries: dict[str, Entry] = {}
        """Every key as it is, also those of the view: what a reconciliation compares with."""
        self._callbacks: list[Callable[[Touched], None]] = []
        self._followers: list[Follower] = []
        self._waiting: defaultdict[Revision, list[asyncio.Future[None]]] = defaultdict(list)
        self._tasks: list[asyncio.Task[None]] = []
        self._catching_up = SharedWork(self._catch_up)
        self.spread: Callable[[Revision], Awaitable[None]] | None = None
        """Returns when the other nodes that answer have seen a revision; set by the broker."""

    # --- Following -------------------------------------------------------------------------------

    def on_change(self, callback: Callable[[Touched], None]) -> None:
        """Call back after nodes, partitions or the controller have changed in the view."""
        self._callbacks.append(callback)

    def follow(
        self,
        prefix: str,
        on_reset: Callable[[Mapping[str, Entry]], None],
        on_changes: Callable[[Revision, tuple[Change, ...]], None],
    ) -> None:
        """Hand out the keys under a prefix: all of them now, and later each change.

        Followers are told before those of `on_change`, so that a partition which is new has a
        topic by the time that it is looked at.
        """
        follower = Follower(prefix, on_reset, on_changes)
        self._followers.append(follower)
        if self.view.revision:
            self._reset_follower(follower)

    def mirror(self, prefix: str, callback: Callable[[Mapping[str, Entry]], None]) -> None:
        """Hand out all keys under a prefix now and whenever one of them changes.

        For keys that are few or change seldom: each change costs a look at every key.
        """
        self.follow(prefix, callback, lambda _revision, _changes: callback(self._under(prefix)))

    def _under(self, prefix: str) -> dict[str, Entry]:
        return {key: entry for key, entry in self._entries.items() if key.startswith(prefix)}

    async def reached(self, revision: Revision) -> None:
        """Wait until the view has everything up to a revision, such as that of an own write.

        Raises:
            MetadataUnavailableError: the store cannot be read.
        """
        if self.view.revision >= revision:
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[revision].append(waiting)
        try:
            async with deadline(_NUDGE_S):
                await asyncio.shield(waiting)
        except TimeoutError:
            # A transaction that changed nothing has a revision and no event.
            await self.reconcile()
        finally:
            waiting.cancel()

    async def catch_up(self) -> None:
        """Wait until the view has everything that any node has written before this was called.

        Raises:
            MetadataUnavailableError: the store cannot be read, so that nobody knows.
        """
        await self._catching_up.done()

    async def _catch_up(self) -> None:
        await self.reached((await self._store.range("cluster/")).revision)

    async def written(self, revision: Revision) -> None:
        """`reached` after a write for a client, which may ask any node next. Raises likewise."""
        await self.reached(revision)
        if self.spread is not None:
            await self.spread(revision)

    # --- Running ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read everything, however long that takes, and watch from there on."""
        await self._retried(self._read, "reading the metadata")
        self._tasks = [
            asyncio.create_task(self._watch(), name="metadata watch"),
            asyncio.create_task(self._reconcile_on(), name="metadata reconciliation"),
        ]

    async def stop(self) -> None:
        """Stop watching; the view stays as it is."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._catching_up.stop()
        self.is_current = False

    async def _watch(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while True:
            try:
                self.is_current = True
                async for changes in self._store.watch("", self.view.revision):
                    self.is_current = True
                    backoff_s = _FIRST_BACKOFF_S
                    self._apply(changes.revision, changes.changes)
            except MetadataCompactedError:
                logger.info(
                    "missed metadata changes were compacted away: reading all metadata again"
                )
                await self._retried(self._read, "reading the metadata again")
            except GoQueueError as error:
                self.is_current = False
                logger.warning("watching the metadata failed, retrying: %s", error)
            except Exception:  # whatever it is, a node without its watch would be blind
                self.is_current = False
                logger.exception("watching the metadata failed, retrying")
            await self._sleep(backoff_s)
            backoff_s = min(backoff_s * 2, _LAST_BACKOFF_S)

    async def _retried(self, work: Callable[[], Awaitable[None]], what: str) -> None:
        backoff_s = _FIRST_BACKOFF_S
        failures = 0
        while True:
            try:
                await work()
            except MetadataUnavailableError as error:
                failures += 1
                if failures in {1, 10} or failures % 60 == 0:
                    logger.warning("%s failed, retrying: %s", what, error)
            else:
                return
            await self._sleep(backoff_s)
            backoff_s = min(backoff_s * 2, _LAST_BACKOFF_S)

    async def _reconcile_on(self) -> None:
        while True:
            await self._sleep(RECONCILE_S)
            try:
                await self.reconcile()
            except GoQueueError as error:
                logger.warning("the metadata could not be compared with the store: %s", error)
            except Exception:  # the next turn may do better
                logger.exception("the metadata could not be compared with the store")

    # --- Taking in -------------------------------------------------------------------------------

    async def _read(self) -> None:
        snapshot = await self._store.range("")
        if snapshot.revision < self.view.revision:
            raise MetadataUnavailableError(
                f"the metadata was read at revision {snapshot.revision} and "
                f"{self.view.revision} is known: an older copy answered"
            )
        before = set(self._entries)
        self._entries = {entry.key: entry for entry in snapshot.entries}
        self._take_whole(snapshot)
        for follower in self._followers:
            self._reset_follower(follower)
        self._tell(before | set(self._entries))

    def _take_whole(self, snapshot: Snapshot) -> None:
        self.view.clear()
        for entry in snapshot.entries:
            self._put(entry.revision, Change(entry.key, entry.value))
        self.view.revision = snapshot.revision

    def _reset_follower(self, follower: Follower) -> None:
        _guarded(partial(follower.on_reset, self._under(follower.prefix)))

    def _apply(self, revision: Revision, changes: Iterable[Change]) -> None:
        """Take in one transaction; one that was read already is known."""
        if revision <= self.view.revision:
            return
        changes = tuple(changes)
        for change in changes:
            self._note(revision, change)
            self._put(revision, change)
        self.view.revision = revision
        for follower in self._followers:
            its = tuple(each for each in changes if each.key.startswith(follower.prefix))
            if its:
                _guarded(partial(follower.on_changes, revision, its))
        self._tell({change.key for change in changes})

    def _note(self, revision: Revision, change: Change) -> None:
        if change.value is None:
            self._entries.pop(change.key, None)
        else:
            self._entries[change.key] = Entry(change.key, change.value, revision)

    def _put(self, revision: Revision, change: Change) -> None:
        try:
            self.view.apply(revision, (change,))
        except (GoQueueError, ValueError) as error:
            logger.error("the metadata under %r is left out: %s", change.key, error)  # noqa: TRY400 - the text says it

    def _tell(self, keys: set[str]) -> None:
        touched = _touched(keys)
        if not touched.is_empty:
            for callback in self._callbacks:
                _guarded(partial(callback, touched))
        for revision in [each for each in self._waiting if each <= self.view.revision]:
            for waiting in self._waiting.pop(revision):
                if not waiting.done():
                    waiting.set_result(None)

    async def reconcile(self) -> None:
        """Read everything and take in what the watch should have told."""
        for _ in range(_ATTEMPTS):
            snapshot = await self._store.range("")
            # Nothing is awaited from here on. When the watch is ahead of the reading, a key that is
            # only in the one may have been removed since or be missing from the other.
            if snapshot.revision >= self.view.revision:
                self._compare(snapshot)
                return

    def _compare(self, snapshot: Snapshot) -> None:
        known = self._entries
        stored = {entry.key: entry for entry in snapshot.entries}
        newer = [
            entry
            for key, entry in stored.items()
            if key not in known or known[key].revision != entry.revision
        ]
        removed = [key for key in known if key not in stored]
        missed = self.view.revision
        by_revision: defaultdict[Revision, list[Change]] = defaultdict(list)
        for entry in newer:
            by_revision[entry.revision].append(Change(entry.key, entry.value))
        for revision, changes in sorted(by_revision.items()):
            self._force(revision, changes)
        self._force(snapshot.revision, [Change(key, None) for key in removed])
        lost = [entry.key for entry in newer if entry.revision <= missed]
        if lost:
            logger.warning("the watch of the metadata has lost changes of %d keys", len(lost))

    def _force(self, revision: Revision, changes: list[Change]) -> None:
        """Take in changes although events of later revisions have been seen."""
        highest = self.view.revision
        self.view.revision = Revision(min(highest, revision - 1))
        self._apply(revision, changes)
        self.view.revision = max(highest, self.view.revision)
        self._tell(set())


def _touched(keys: Iterable[str]) -> Touched:
    partitions: set[PartitionKey] = set()
    nodes: set[int] = set()
    controller = False
    for key in keys:
        try:
            if key.startswith(PARTITIONS):
                partitions.add(PartitionKey.parse(key))
            elif key.startswith((NODES, FENCES, MEMBERS)):
                nodes.add(int(key.partition("/")[2]))
            elif key == CONTROLLER:
                controller = True
        except ValueError:
            continue  # the view has left it out likewise
    return Touched(frozenset(partitions), frozenset(nodes), controller)


def _guarded(call: Callable[[], None]) -> None:
    """One listener that fails must not keep the change from the others."""
    try:
        call()
    except Exception:
        logger.exception("applying a metadata change failed")

"""A node sees what the metadata store has: read once, then by events, again when some are lost."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from goqueue.cluster.metadata import Change, Changes, Committed, Delete, Entry, Put, Revision
from goqueue.cluster.records import (
    CONTROLLER,
    ControllerRecord,
    Fence,
    NodeAddress,
    NodeRecord,
    NodeState,
    PartitionKey,
    PartitionRecord,
    encode,
    fence_key,
    node_key,
)
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.cluster.view_keeper import Touched, ViewKeeper
from goqueue.model.errors import MetadataCompactedError, MetadataUnavailableError
from goqueue.runtime.disk import SystemDisk
from support.clocks import ManualClock
from support.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from goqueue.cluster.metadata import Snapshot

TOPIC = UUID(int=7)
KEY = PartitionKey(TOPIC, 0)
NODE = NodeRecord("one", "folder", NodeState.ACTIVE, NodeAddress("h", 1), {})


class _Store:
    """A store whose watch and readings can be made to fail or to lose events."""

    def __init__(self, inner: SqliteMetadataStore) -> None:
        self.inner = inner
        self.failures: list[Exception] = []
        self.reading_failures: list[Exception] = []
        self.lost: set[str] = set()
        self.readings = 0

    async def range(self, prefix: str) -> Snapshot:
        self.readings += 1
        if self.reading_failures:
            raise self.reading_failures.pop(0)
        return await self.inner.range(prefix)

    async def watch(self, prefix: str, after: Revision) -> AsyncIterator[Changes]:
        if self.failures:
            raise self.failures.pop(0)
        async for changes in self.inner.watch(prefix, after):
            kept = tuple(each for each in changes.changes if each.key not in self.lost)
            if kept:
                yield Changes(changes.revision, kept)
            if self.failures:
                raise self.failures.pop(0)


class _Followed:
    """What a follower of a prefix was told, as a map."""

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}
        self.resets = 0

    def reset(self, entries: Mapping[str, Entry]) -> None:
        self.resets += 1
        self.keys = {key: entry.value for key, entry in entries.items()}

    def change(self, _revision: Revision, changes: tuple[Change, ...]) -> None:
        for each in changes:
            if each.value is None:
                self.keys.pop(each.key, None)
            else:
                self.keys[each.key] = each.value


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[_Store, ViewKeeper, list[Touched]]]:
    inner = await SqliteMetadataStore.open(
        folder / "metadata.db", disk=SystemDisk(), clock=ManualClock()
    )
    store = _Store(inner)
    keeper = ViewKeeper(store, sleep=_paced)  # type: ignore[arg-type]
    told: list[Touched] = []
    keeper.on_change(told.append)
    try:
        yield store, keeper, told
    finally:
        await keeper.stop()
        await inner.close()


async def _paced(seconds: float) -> None:
    """Short waits are over at once, those of the reconciliation never."""
    await (asyncio.Event().wait() if seconds > 10 else asyncio.sleep(0))


async def put(store: _Store, *operations: Put | Delete) -> Revision:
    result = await store.inner.transact([], operations)
    assert isinstance(result, Committed)
    return result.revision


@scenario
async def test_what_was_there_and_what_changes_is_in_the_view(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, told):
        await put(store, Put(node_key(1), encode(NODE)))
        await keeper.start()
        assert keeper.view.is_active(1)
        record = PartitionRecord((1,), (1,), 1)
        revision = await put(store, Put(str(KEY), encode(record)))
        await keeper.reached(revision)
        assert keeper.view.partitions[KEY] == (record, revision)
        assert told[-1] == Touched(frozenset({KEY}), frozenset(), controller=False)


@scenario
async def test_every_kind_of_record_is_told_by_its_name(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, told):
        await keeper.start()
        revision = await put(
            store,
            Put(fence_key(3), encode(Fence(5))),
            Put(CONTROLLER, encode(ControllerRecord(1, 1, 1))),
            Put("topics/a", b""),
        )
        await keeper.reached(revision)
        assert told == [Touched(frozenset(), frozenset({3}), controller=True)]
        await keeper.reached(await put(store, Put("topics/b", b"")))
        assert len(told) == 1


@scenario
async def test_a_follower_of_a_prefix_has_its_keys(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, _):
        await put(store, Put("topics/a", b"1"), Put("users/u", b"x"))
        early, late = _Followed(), _Followed()
        keeper.follow("topics/", early.reset, early.change)
        await keeper.start()
        await keeper.reached(await put(store, Put("topics/b", b"2"), Delete("topics/a")))
        keeper.follow("topics/", late.reset, late.change)
        assert early.keys == late.keys == {"topics/b": b"2"}
        assert early.resets == late.resets == 1


@scenario
async def test_a_failing_watch_goes_on_where_it_was(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, told):
        await keeper.start()
        await keeper.reached(await put(store, Put(node_key(1), encode(NODE))))
        store.failures = [MetadataUnavailableError("away"), RuntimeError("a mistake")]
        await keeper.reached(await put(store, Put(node_key(2), encode(NODE))))
        await keeper.reached(await put(store, Put(node_key(3), encode(NODE))))
        assert set(keeper.view.nodes) == {1, 2, 3}
        assert [set(each.nodes) for each in told] == [{1}, {2}, {3}]
        assert store.readings == 1


@scenario
async def test_forgotten_changes_are_read_again(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, _):
        followed = _Followed()
        keeper.follow("topics/", followed.reset, followed.change)
        await put(store, Put("topics/a", b"1"), Put(node_key(1), encode(NODE)))
        await keeper.start()
        store.lost = {"topics/a", "topics/b", node_key(1)}
        store.failures = [MetadataCompactedError(1, 2)]
        store.reading_failures = [MetadataUnavailableError("not yet")]
        await put(store, Delete("topics/a"), Put("topics/b", b"2"), Delete(node_key(1)))
        await keeper.reached(await put(store, Put("topics/c", b"3")))
        assert followed.keys == {"topics/b": b"2", "topics/c": b"3"}
        assert not keeper.view.nodes
        assert set(keeper.view.lapsed) == {1}, "it may be running all the same"
        assert followed.resets == 2


@scenario
async def test_a_store_that_is_away_at_the_start_is_waited_for(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, _):
        await put(store, Put(node_key(1), encode(NODE)))
        store.reading_failures = [MetadataUnavailableError("no quorum") for _ in range(12)]
        await keeper.start()
        assert keeper.view.is_active(1)


@scenario
async def test_a_reconciliation_finds_what_the_watch_has_lost(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, told):
        followed = _Followed()
        keeper.follow("topics/", followed.reset, followed.change)
        await put(store, Put("topics/gone", b""), Put(node_key(9), encode(NODE)))
        await keeper.start()
        store.lost = {"topics/gone", "topics/new", node_key(9), node_key(2)}
        await put(store, Delete("topics/gone"), Delete(node_key(9)))
        lost = await put(store, Put("topics/new", b"n"), Put(node_key(2), encode(NODE)))
        revision = await put(store, Put("other", b""))
        await keeper.reached(revision)
        assert set(keeper.view.nodes) == {9}
        await keeper.reconcile()
        assert set(keeper.view.nodes) == {2}
        assert keeper.view.nodes[2].revision == lost
        assert keeper.view.revision == revision
        assert followed.keys == {"topics/new": b"n"}
        assert followed.resets == 1
        assert set().union(*(each.nodes for each in told)) == {2, 9}
        before = len(told)
        await keeper.reconcile()
        assert len(told) == before


@scenario
async def test_an_own_write_that_changed_nothing_is_reached(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, _):
        await keeper.start()
        store.lost = {"other"}
        revision = await put(store, Put("other", b""))
        await keeper.reached(revision)
        assert keeper.view.revision == revision


@scenario
async def test_a_value_that_is_no_record_is_left_out(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, _):
        await put(store, Put(node_key(1), b"\xff"), Put("nodes/x", encode(NODE)))
        await keeper.start()
        revision = await put(store, Put(node_key(2), encode(NODE)), Put("partitions/zz", b""))
        await keeper.reached(revision)
        assert set(keeper.view.nodes) == {2}


@scenario
async def test_a_callback_that_fails_keeps_nothing_from_the_others(memory_folder: Path) -> None:
    async with watched(memory_folder) as (store, keeper, _):

        def fail(_touched: Touched) -> None:
            raise RuntimeError("a mistake")

        told: list[Touched] = []
        keeper.on_change(fail)
        keeper.on_change(told.append)
        await keeper.start()
        await keeper.reached(await put(store, Put(node_key(1), encode(NODE))))
        assert len(told) == 1

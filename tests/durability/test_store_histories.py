"""What metadata stores told their clients can all be true, also while members of etcd die."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from goqueue.cluster.etcd.client import Timing
from goqueue.cluster.etcd.store import EtcdMetadataStore
from goqueue.cluster.metadata import Committed, Unknown
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from support.clocks import ManualClock
from support.etcd import EtcdMembers, etcd_members
from support.linearizability import Client, History, Kind, Operation, is_linearizable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from goqueue.cluster.metadata import (
        Condition,
        Entry,
        MetadataStore,
        Operation as Change,
        TransactionResult,
    )

KEYS: Final = ["r/1", "r/2", "r/3"]
CLIENTS: Final = 5

# --- the judge


def read(start: int, end: int, seen: bytes | None) -> Operation:
    return Operation(Kind.READ, start, end=end, seen=seen)


def put(start: int, end: int, written: bytes) -> Operation:
    return Operation(Kind.PUT, start, end=end, written=written)


def swap(start: int, end: int | None, expected: bytes | None, written: bytes) -> Operation:
    made = Operation(Kind.SWAP, start, written=written, expected=expected)
    return made if end is None else _ended(made, end)


def _ended(operation: Operation, end: int) -> Operation:
    operation.end = end
    return operation


def conflict(start: int, end: int, expected: bytes | None, seen: bytes | None) -> Operation:
    made = _ended(Operation(Kind.SWAP, start, written=b"never", expected=expected), end)
    made.is_conflict, made.seen = True, seen
    return made


GOOD = {
    "one after the other": [put(0, 1, b"a"), read(2, 3, b"a")],
    "overlapping reads of both values": [put(0, 9, b"a"), read(1, 2, None), read(3, 4, b"a")],
    "an answer that was lost, done": [swap(0, None, None, b"a"), read(5, 6, b"a")],
    "done late": [swap(0, None, None, b"a"), read(1, 2, None), read(5, 6, b"a")],
    "never done": [swap(0, None, None, b"a"), swap(1, 2, None, b"b"), read(5, 6, b"b")],
    "a conflict tells what is there": [put(0, 1, b"a"), conflict(2, 3, None, b"a")],
}
BAD = {
    "a stale reading": [put(0, 1, b"a"), put(2, 3, b"b"), read(4, 5, b"a")],
    "readings that go back": [put(0, 9, b"a"), read(1, 2, b"a"), read(3, 4, None)],
    "a lost write": [put(0, 1, b"a"), read(2, 3, None)],
    "two winners": [swap(0, 5, None, b"a"), swap(1, 6, None, b"b")],
    "a conflict without a reason": [put(0, 1, b"a"), conflict(2, 3, b"a", b"a")],
    "a conflict that did happen": [
        put(0, 1, b"a"),
        _ended(Operation(Kind.SWAP, 2, b"b", b"a", is_conflict=True, seen=b"a"), 3),
        read(4, 5, b"b"),
    ],
    "done twice": [
        swap(0, None, b"x", b"a"),
        put(1, 2, b"x"),
        read(3, 4, b"a"),
        put(5, 6, b"b"),
        read(7, 8, b"a"),
    ],
    "seen before it was asked for": [read(0, 1, b"a"), put(2, 3, b"a")],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_history_that_can_be_true_is_taken(name: str) -> None:
    assert is_linearizable(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_a_history_that_cannot_be_true_is_found(name: str) -> None:
    assert not is_linearizable(BAD[name])


def test_revisions_that_go_back_in_time_are_found() -> None:
    history = History()
    for revision in (5, 4):
        operation = history.begin(f"k{revision}", Kind.PUT, written=b"%d" % revision)
        operation.revision = revision
        history.end(operation)
    assert history.problem() == "revision 4 was given after 5"


# --- stores


class Lossy:
    """A store whose answers to writes are sometimes lost, and whose writes sometimes are."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._random = random.Random(1)

    async def get(self, key: str) -> Entry | None:
        return await self._store.get(key)

    async def transact(
        self, conditions: Sequence[Condition], operations: Sequence[Change]
    ) -> TransactionResult:
        await asyncio.sleep(0)
        chance = self._random.random()
        if chance < 0.1:
            return Unknown("the request was lost")
        result = await self._store.transact(conditions, operations)
        return Unknown("the answer was lost") if chance < 0.2 else result


class Retrying(Lossy):
    """The mistake that the client does not make: a transaction is tried again inside."""

    async def transact(
        self, conditions: Sequence[Condition], operations: Sequence[Change]
    ) -> TransactionResult:
        while isinstance(result := await super().transact(conditions, operations), Unknown):
            pass
        return result


class TakingUnknownForDone(Lossy):
    """Another one."""

    async def transact(
        self, conditions: Sequence[Condition], operations: Sequence[Change]
    ) -> TransactionResult:
        result = await super().transact(conditions, operations)
        newest = await self._store.range("")
        return Committed(newest.revision) if isinstance(result, Unknown) else result


class Caching(Lossy):
    """And one that answers readings with what it read before."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self._found: dict[str, Entry | None] = {}

    async def get(self, key: str) -> Entry | None:
        if key not in self._found or self._random.random() < 0.3:
            self._found[key] = await super().get(key)
        return self._found[key]


async def on_sqlite(path: Path, wrap: Callable[[MetadataStore], Any], steps: int) -> History:
    history = History()
    store = await SqliteMetadataStore.open(path, disk=SystemDisk(), clock=ManualClock())
    driver = wrap(store)
    clients = [Client(name, driver, history, KEYS) for name in range(CLIENTS)]
    left = iter(range(steps))
    await asyncio.gather(*(each.run(lambda: next(left, None) is None) for each in clients))
    await store.close()
    return history


@pytest.mark.parametrize("wrap", [lambda store: store, Lossy], ids=["as it is", "lossy"])
def test_sqlite_tells_what_can_be_true(
    tmp_path: Path, wrap: Callable[[MetadataStore], Any]
) -> None:
    assert asyncio.run(on_sqlite(tmp_path / "m.db", wrap, 2000)).problem() is None


@pytest.mark.parametrize("mistake", [Retrying, TakingUnknownForDone, Caching])
def test_a_driver_with_a_mistake_is_found_out(tmp_path: Path, mistake: type[Lossy]) -> None:
    assert asyncio.run(on_sqlite(tmp_path / "m.db", mistake, 500)).problem() is not None


# --- etcd under faults

Fault = str
SHORT: Final[tuple[Fault, ...]] = ("kill leader", "pause follower", "pause leader", "kill two")
ALL: Final[tuple[Fault, ...]] = (*SHORT, "kill follower", "kill all", "pause two", "pause all")


def strike(members: EtcdMembers, fault: Fault) -> None:
    what, which = fault.split()
    leader = members.leader()
    others = [number for number in range(len(members)) if number != leader]
    struck = {
        "leader": [leader],
        "follower": others[:1],
        "two": [leader, others[0]],
        "all": [leader, *others],
    }[which]
    for number in struck:
        (members.kill if what == "kill" else members.pause)(number)


async def under_faults(members: EtcdMembers, faults: Sequence[Fault], down_s: float) -> History:
    """Clients at every member, faults one after the other, and what clients were told."""
    history = History()
    timing = Timing(attempt_s=0.25, call_s=1.0)
    stores = [
        EtcdMetadataStore(
            members.endpoints[first:] + members.endpoints[:first],
            clock=SystemClock(),
            timing=timing,
        )
        for first in (number % len(members) for number in range(CLIENTS))
    ]
    clients = [Client(name, store, history, KEYS) for name, store in enumerate(stores)]
    is_over = False
    running = [asyncio.ensure_future(each.run(lambda: is_over)) for each in clients]
    for fault in faults:
        await asyncio.to_thread(strike, members, fault)
        await asyncio.sleep(down_s)
        await asyncio.to_thread(members.heal)
        await asyncio.sleep(down_s / 4)
    is_over = True
    await asyncio.gather(*running)
    for client in clients:
        for key in KEYS:
            await client.read(key)
    for store in stores:
        await store.close()
    assert sum(client.unknown for client in clients) > 0
    return history


def test_etcd_tells_what_can_be_true_while_members_are_killed_and_paused() -> None:
    with etcd_members(3) as members:
        history = asyncio.run(under_faults(members, SHORT, 0.8))
    assert history.count() > 100
    assert history.problem() is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_etcd_tells_what_can_be_true_under_many_faults(seed: int) -> None:
    faults = random.Random(seed).choices(ALL, k=25)
    with etcd_members(3) as members:
        history = asyncio.run(under_faults(members, faults, 1.5))
    assert history.count() > 1000
    assert history.problem() is None

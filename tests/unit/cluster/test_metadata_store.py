"""Every metadata store keeps the promises of the `MetadataStore` interface."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.cluster.metadata import (
    ABSENT,
    Change,
    Changes,
    Committed,
    Condition,
    Conflict,
    Delete,
    Entry,
    Put,
    Revision,
    SessionId,
    cluster_id,
)
from goqueue.model.errors import (
    InvalidMetadataRequestError,
    MetadataUnavailableError,
    SessionLapsedError,
)
from goqueue.model.limits import MAX_METADATA_TRANSACTION_KEYS
from support.clocks import ManualClock
from unit.cluster.backends import newest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from unit.cluster.backends import Backend

TTL_MS = 60_000


async def take(watch: AsyncIterator[Changes], count: int) -> list[Changes]:
    return [await anext(watch) for _ in range(count)]


# --- transactions


def test_a_transaction_writes_all_its_keys_at_one_revision(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            base = await newest(store)
            result = await store.transact(
                [], [Put("a/2", b"two"), Put("a/1", b"one"), Put("b", b"")]
            )
            assert result == Committed(Revision(base + 1))
            snapshot = await store.range("a/")
            assert snapshot.entries == (
                Entry("a/1", b"one", Revision(base + 1)),
                Entry("a/2", b"two", Revision(base + 1)),
            )
            assert snapshot.revision == base + 1

    asyncio.run(scenario())


def test_a_transaction_whose_condition_fails_changes_nothing_and_tells_the_current_values(
    backend: Backend,
) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            base = await newest(store)
            await store.transact([], [Put("leader", b"1")])
            await store.transact([], [Put("leader", b"2")])
            result = await store.transact(
                [Condition("leader", Revision(base + 1)), Condition("other", ABSENT)],
                [Put("leader", b"3"), Put("other", b"x")],
            )
            assert result == Conflict(
                {"leader": Entry("leader", b"2", Revision(base + 2)), "other": None}
            )
            assert (await store.range("")).revision == base + 2
            assert await store.get("other") is None

    asyncio.run(scenario())


def test_of_many_writers_that_want_an_absent_key_one_gets_it(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            results = await asyncio.gather(
                *(
                    store.transact([Condition("id", ABSENT)], [Put("id", b"%d" % number)])
                    for number in range(20)
                )
            )
            winners = [n for n, result in enumerate(results) if isinstance(result, Committed)]
            entry = await store.get("id")
            assert entry is not None
            assert [b"%d" % number for number in winners] == [entry.value]

    asyncio.run(scenario())


def test_a_transaction_that_changes_nothing_takes_no_revision(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            base = await newest(store)
            await store.transact([], [Put("a", b"1")])
            result = await store.transact([Condition("a", Revision(base + 1))], [Delete("missing")])
            assert result == Committed(Revision(base + 1))

    asyncio.run(scenario())


def test_a_key_that_came_back_does_not_meet_a_condition_on_its_first_life(
    backend: Backend,
) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            base = await newest(store)
            await store.transact([], [Put("a", b"same")])
            await store.transact([], [Delete("a")])
            await store.transact([], [Put("a", b"same")])
            result = await store.transact([Condition("a", Revision(base + 1))], [Put("a", b"new")])
            assert isinstance(result, Conflict)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "operations",
    [
        [Put("", b"x")],
        [Put("k" * 2000, b"x")],
        [Put("\ud800", b"x")],
        [Put("a", b"x"), Delete("a")],
        [Put("a", b"x" * (1024 * 1024))],
        [Put(str(number), b"") for number in range(MAX_METADATA_TRANSACTION_KEYS + 1)],
    ],
    ids=["empty key", "long key", "not text", "a key twice", "too large", "too many"],
)
def test_a_transaction_over_a_limit_is_refused_whole(
    backend: Backend, operations: list[Put]
) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            with pytest.raises(InvalidMetadataRequestError):
                await store.transact([], operations)
            assert (await store.range("")).entries == ()

    asyncio.run(scenario())


def test_a_prefix_is_matched_by_bytes_and_not_by_collation(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            keys = ["topics", "topics/", "topics/ä", "topics/\U0010ffff", "Topics/a", "topics0"]
            await store.transact([], [Put(key, b"") for key in keys])
            found = [entry.key for entry in (await store.range("topics/")).entries]
            assert found == ["topics/", "topics/ä", "topics/\U0010ffff"]
            assert [entry.key for entry in (await store.range("")).entries] == sorted(keys)

    asyncio.run(scenario())


# --- watching


def test_a_watcher_sees_every_later_change_once_and_in_order(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            base = await newest(store)
            await store.transact([], [Put("t/a", b"0")])
            watch = store.watch("t/", (await store.range("t/")).revision)
            waiting = asyncio.ensure_future(take(watch, 3))
            await store.transact([], [Put("other", b"x")])
            await store.transact([], [Put("t/c", b"1"), Put("t/b", b"2"), Put("u", b"3")])
            await store.transact([], [Delete("t/a")])
            await store.transact([], [Put("t/a", b"4")])
            assert await waiting == [
                Changes(Revision(base + 3), (Change("t/b", b"2"), Change("t/c", b"1"))),
                Changes(Revision(base + 4), (Change("t/a", None),)),
                Changes(Revision(base + 5), (Change("t/a", b"4"),)),
            ]

    asyncio.run(scenario())


def test_a_watch_may_start_in_the_past_and_continues_after_a_restart(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            base = await newest(store)
            for number in range(backend.many):
                await store.transact([], [Put("k", b"%d" % number)])
        async with backend.opened() as store:
            seen = await take(store.watch("", base), backend.many)
            expected = range(base + 1, base + backend.many + 1)
            assert [changes.revision for changes in seen] == list(expected)
            assert seen[-1].changes == (Change("k", b"%d" % (backend.many - 1)),)

    asyncio.run(scenario())


def test_a_transaction_is_never_shown_in_two_parts(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            base = await newest(store)
            for _ in range(300):
                await store.transact([], [Put(f"k/{number}", b"") for number in range(7)])
            seen = await take(store.watch("", base), 300)
            assert [changes.revision for changes in seen] == list(range(base + 1, base + 301))
            assert {len(changes.changes) for changes in seen} == {7}

    asyncio.run(scenario())


def test_a_watcher_that_waits_is_told_when_the_store_closes(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            base = await newest(store)
            waiting = asyncio.ensure_future(take(store.watch("", base), 1))
            await store.status()  # the watcher's own reading was queued before this one
        with pytest.raises(MetadataUnavailableError):
            await waiting

    asyncio.run(scenario())


def test_a_session_that_is_kept_alive_does_not_lapse(backend: Backend) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with backend.opened(clock) as store:
            session = await store.open_session(TTL_MS)
            await store.transact([], [Put("n", b"", session)])
            for _ in range(3):
                clock.advance(TTL_MS - 1)
                await store.keep_alive(session)
            assert await store.get("n") is not None

    asyncio.run(scenario())


def test_a_session_past_its_deadline_is_refused_even_before_it_was_tidied_up(
    backend: Backend,
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with backend.opened(clock) as store:
            session = await store.open_session(TTL_MS)
            clock.advance(TTL_MS)
            with pytest.raises(SessionLapsedError):
                await store.transact([], [Put("n", b"", session)])
            with pytest.raises(SessionLapsedError):
                await store.keep_alive(session)
            assert await store.get("n") is None

    asyncio.run(scenario())


def test_a_session_that_was_never_opened_is_refused(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            with pytest.raises(SessionLapsedError):
                await store.keep_alive(SessionId(77))
            with pytest.raises(SessionLapsedError):
                await store.transact([], [Put("n", b"", SessionId(77))])
            with pytest.raises(InvalidMetadataRequestError):
                await store.open_session(0)
            await store.end_session(SessionId(77))

    asyncio.run(scenario())


def test_a_session_that_ends_takes_its_keys_and_no_others(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            first, second = await store.open_session(TTL_MS), await store.open_session(TTL_MS)
            await store.transact([], [Put("a", b"", first), Put("b", b"", second)])
            await store.transact([], [Put("c", b"", first)])
            await store.transact([], [Put("c", b"rewritten without the session")])
            await store.end_session(first)
            await store.end_session(first)
            assert [entry.key for entry in (await store.range("")).entries] == ["b", "c"]

    asyncio.run(scenario())


def test_the_cluster_id_is_made_once_and_kept(backend: Backend) -> None:
    async def scenario() -> set[str]:
        ids = set()
        for _ in range(2):
            async with backend.opened() as store:
                ids.update(await asyncio.gather(*(cluster_id(store) for _ in range(5))))
        return ids

    (only,) = asyncio.run(scenario())
    assert len(only) == 22


def test_a_closed_store_refuses_every_call(backend: Backend) -> None:
    async def scenario() -> None:
        async with backend.opened() as store:
            pass
        await store.close()
        calls = [
            store.get("a"),
            store.range(""),
            store.transact([], []),
            store.open_session(TTL_MS),
            store.status(),
        ]
        for call in calls:
            with pytest.raises(MetadataUnavailableError, match="closed"):
                await call

    asyncio.run(scenario())

"""The metadata of a cluster while members of a real etcd are killed, paused and compacted."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import pytest

from goqueue.cluster.etcd import store as etcd_store
from goqueue.cluster.etcd.client import Timing
from goqueue.cluster.etcd.store import EtcdMetadataStore
from goqueue.cluster.metadata import (
    ABSENT,
    Change,
    Changes,
    Committed,
    Condition,
    Conflict,
    Put,
    Revision,
    Unknown,
)
from goqueue.model.errors import (
    MetadataCompactedError,
    MetadataUnavailableError,
    SessionLapsedError,
)
from goqueue.runtime.clock import SystemClock
from goqueue.server.etcd.command import EtcdTls
from support.certificates import Authority
from support.etcd import EtcdMembers, etcd_members
from support.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

PATIENT: Final = Timing(attempt_s=0.5, call_s=30)
"""As in a cluster, but for how long a reading is tried: machines that run tests are busy."""
UNHURRIED: Final = Timing(attempt_s=30, call_s=60)
"""For tests in which nothing goes away."""


@pytest.fixture(scope="module")
def trio() -> Iterator[EtcdMembers]:
    with etcd_members(3) as members:
        yield members


@pytest.fixture
def members(trio: EtcdMembers) -> EtcdMembers:
    """Three that run."""
    trio.heal()
    return trio


@asynccontextmanager
async def opened(
    members: EtcdMembers, first: int = 0, timing: Timing = PATIENT
) -> AsyncIterator[EtcdMetadataStore]:
    """A store that asks one of the members first."""
    endpoints = members.endpoints[first:] + members.endpoints[:first]
    store = EtcdMetadataStore(endpoints, clock=SystemClock(), timing=timing)
    try:
        yield store
    finally:
        await store.close()


async def put(store: EtcdMetadataStore, key: str, value: bytes) -> Revision:
    """Write until it is committed; every attempt writes the same."""
    while not isinstance(result := await store.transact([], [Put(key, value)]), Committed):
        pass
    return result.revision


# --- requests


@scenario
async def test_requests_go_on_when_the_leader_is_killed(members: EtcdMembers) -> None:
    leader = members.leader()
    async with opened(members, leader) as store:
        await put(store, "a", b"before")
        members.kill(leader)
        entry = await store.get("a")
        assert entry is not None
        assert entry.value == b"before"
        await put(store, "a", b"after")


@scenario
async def test_a_transaction_at_a_paused_member_is_unknown_and_may_still_happen(
    members: EtcdMembers,
) -> None:
    """Writing again under the same condition tells: one of both happens, never two."""
    follower = (members.leader() + 1) % 3
    only = EtcdMetadataStore([members.endpoints[follower]], clock=SystemClock(), timing=PATIENT)
    async with opened(members, (follower + 1) % 3, UNHURRIED) as store:
        base = await put(store, "cas", b"old")
        condition = [Condition("cas", base)]
        await only.get("cas")
        members.pause(follower)
        assert isinstance(await only.transact(condition, [Put("cas", b"first")]), Unknown)
        entry = await store.get("cas")
        assert entry is not None
        assert entry.value == b"old"
        members.resume(follower)
        result = await store.transact(condition, [Put("cas", b"second")])
        entry = await store.get("cas")
        assert entry is not None
        assert entry.value == (b"second" if isinstance(result, Committed) else b"first")
        if isinstance(result, Conflict):
            assert result.current == {"cas": entry}
    await only.close()


@scenario
async def test_without_a_majority_nothing_is_told_and_watches_wait_for_it(
    members: EtcdMembers,
) -> None:
    quick = PATIENT._replace(attempt_s=0.25, call_s=3.0)
    async with opened(members, 0) as patient, opened(members, 0, quick) as store:
        base = await put(store, "a", b"1")
        watch = patient.watch("", base)
        waiting = asyncio.ensure_future(anext(watch))
        members.pause(1)
        members.pause(2)
        with pytest.raises(MetadataUnavailableError, match="majority"):
            await store.get("a")
        result = await store.transact([Condition("a", base)], [Put("a", b"2")])
        assert isinstance(result, Unknown)
        assert not (await store.status()).is_healthy
        members.heal()
        revision = await put(patient, "a", b"3")
        seen = [await waiting]
        while seen[-1].revision < revision:
            seen.append(await anext(watch))
        assert seen[-1] == Changes(revision, (Change("a", b"3"),))
        assert (await patient.status()).is_healthy


@scenario
async def test_a_pair_of_keys_is_never_read_half_changed_over_many_pages(
    members: EtcdMembers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_store, "_PAGE_KEYS", 7)
    async with opened(members, 0, UNHURRIED) as store, opened(members, 1, UNHURRIED) as writer:
        for number in range(20):
            await put(store, f"p/{number:02}", b"0")
        done = asyncio.Event()

        async def write() -> None:
            for value in range(60):
                both = [Put("p/00", b"%d" % value), Put("p/19", b"%d" % value)]
                await writer.transact([], both)
                if value == 30:
                    newest = (await writer.get("p/00")) or pytest.fail("it is gone")
                    members.ask(0, "/v3/kv/compaction", {"revision": str(newest.revision)})
            done.set()

        writing = asyncio.ensure_future(write())
        while not done.is_set():
            entries = (await store.range("p/")).entries
            assert len(entries) == 20
            assert entries[0].value == entries[-1].value
        await writing


# --- watches


@pytest.mark.parametrize("fault", ["kill", "pause"])
@scenario
async def test_a_watch_whose_member_goes_away_misses_nothing_and_repeats_nothing(
    members: EtcdMembers, fault: str
) -> None:
    at = (members.leader() + 1) % 3
    async with opened(members, at) as watcher, opened(members, (at + 1) % 3) as writer:
        base = await put(writer, "w", b"start")
        watch = watcher.watch("w", base)
        first = await put(writer, "w", b"0")
        assert (await anext(watch)).revision == first
        getattr(members, fault)(at)
        for number in range(1, 50):
            last = await put(writer, "w", b"%d" % number)
        seen = [await anext(watch)]
        while seen[-1].revision < last:
            seen.append(await anext(watch))
        values = [change.value for each in seen for change in each.changes]
        assert list(dict.fromkeys(values)) == [b"%d" % number for number in range(1, 50)]
        revisions = [each.revision for each in seen]
        assert revisions == sorted(set(revisions))


@scenario
async def test_a_watch_that_was_away_for_too_long_is_told_to_read_again(
    members: EtcdMembers,
) -> None:
    async with opened(members, 0, UNHURRIED) as store:
        base = await put(store, "c", b"0")
        for number in range(5):
            newest = await put(store, "c", b"%d" % number)
        members.ask(0, "/v3/kv/compaction", {"revision": str(newest), "physical": True})
        with pytest.raises(MetadataCompactedError) as caught:
            await anext(store.watch("c", base))
        assert caught.value.oldest == newest
        assert (await store.status()).oldest_watchable == newest
        follow = store.watch("c", newest)
        last = await put(store, "c", b"last")
        assert (await anext(follow)).revision == last


# --- sessions


@scenario
async def test_the_keys_of_a_session_without_heartbeats_go_together(members: EtcdMembers) -> None:
    async with opened(members, 0, UNHURRIED) as store:
        session = await store.open_session(2000)
        result = await store.transact(
            [Condition("s/1", ABSENT)], [Put("s/1", b"", session), Put("s/2", b"", session)]
        )
        assert isinstance(result, Committed)
        (changes,) = [await anext(store.watch("s/", result.revision))]
        assert changes.changes == (Change("s/1", None), Change("s/2", None))
        with pytest.raises(SessionLapsedError):
            await store.keep_alive(session)


@scenario
async def test_a_session_lives_on_over_the_death_of_a_leader(members: EtcdMembers) -> None:
    async with opened(members) as store:
        session = await store.open_session(30_000)
        while await store.get("l") is None:
            await store.transact([], [Put("l", b"", session)])
        members.kill(members.leader())
        await store.keep_alive(session)
        assert await store.get("l") is not None
        await store.end_session(session)
        assert await store.get("l") is None


# --- status


@scenario
async def test_the_status_names_members_leader_version_and_alarms(members: EtcdMembers) -> None:
    async with opened(members, 0, UNHURRIED) as store:
        base = await put(store, "a", b"1")
        status = await store.status()
        assert [each.name for each in status.members] == ["member-0", "member-1", "member-2"]
        assert [each.name for each in status.members if each.is_leader] == [status.leader]
        assert status.is_healthy
        assert status.alarm is None
        assert status.version.startswith("3.")
        alarm = {"action": "ACTIVATE", "memberID": "1", "alarm": "NOSPACE"}
        members.ask(0, "/v3/maintenance/alarm", {**alarm})
        status = await store.status()
        assert (status.alarm, status.is_healthy) == ("NOSPACE", False)
        with pytest.raises(MetadataUnavailableError, match="space exceeded"):
            await store.transact([], [Put("a", b"2")])
        members.ask(0, "/v3/maintenance/alarm", {**alarm, "action": "DEACTIVATE"})
        entry = await store.get("a")
        assert entry is not None
        assert entry.revision == base
        await put(store, "a", b"3")


def test_both_sides_show_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert_file, key_file = authority.issue("member")
    stranger, stranger_key = Authority(tmp_path, "other").issue("stranger")
    context = ssl.create_default_context(cafile=authority.ca_file)
    context.load_cert_chain(cert_file, key_file)
    wrong = ssl.create_default_context(cafile=authority.ca_file)
    wrong.load_cert_chain(stranger, stranger_key)

    async def talk(members: EtcdMembers) -> None:
        timing = Timing(attempt_s=5, call_s=30)
        store = EtcdMetadataStore(
            members.endpoints, clock=SystemClock(), tls=context, timing=timing
        )
        assert await store.get("a") is None  # once it is up
        base = await put(store, "a", b"1")
        watch = store.watch("", ABSENT)
        assert (await anext(watch)).revision == base
        await store.close()
        timing = Timing(attempt_s=1, call_s=0.1)
        refused = EtcdMetadataStore(
            members.endpoints, clock=SystemClock(), tls=wrong, timing=timing
        )
        with pytest.raises(MetadataUnavailableError):
            await refused.get("a")
        await refused.close()

    with etcd_members(1, EtcdTls(cert_file, key_file, authority.ca_file)) as members:
        asyncio.run(talk(members))

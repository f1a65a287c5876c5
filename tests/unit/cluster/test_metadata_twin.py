"""A store and a dict agree on every answer, whatever is asked in whatever order."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from goqueue.cluster.metadata import (
    Change,
    Changes,
    Committed,
    Condition,
    Conflict,
    Delete,
    Entry,
    Operation,
    Put,
    Revision,
    SessionId,
)
from goqueue.cluster.sqlite_core import HistoryLimits
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.model.errors import MetadataCompactedError, SessionLapsedError
from goqueue.runtime.disk import SystemDisk
from support.clocks import ManualClock
from support.effort import examples
from unit.cluster.backends import EtcdBackend, newest

if TYPE_CHECKING:
    from goqueue.cluster.metadata import MetadataStore
    from support.etcd import EtcdMembers

TTL_MS = 60_000
HISTORY = HistoryLimits(revisions=12)

keys = st.sampled_from(["a", "a/", "a/1", "a/2", "b", "ä", "\U0001f600"])
values = st.binary(max_size=3)
revisions = st.integers(0, 30).map(Revision)
shared_memory = Path("/dev/shm")


class StoreAgainstDict(RuleBasedStateMachine):
    """The twin: the entries, and the whole history as a list."""

    store: MetadataStore

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.runner = asyncio.Runner()
        self.entries: dict[str, Entry] = {}
        self.history: list[Changes] = []
        self.sessions: dict[SessionId, int] = {}
        self.open()
        self.base = self.runner.run(newest(self.store))
        """The revision that the history begins after."""

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()

    # --- what differs between stores

    def open(self) -> None:
        """Open the store on what is there."""
        raise NotImplementedError

    def end(self, session: SessionId) -> None:
        """Bring a session to its end whose deadline has passed."""
        raise NotImplementedError

    def end_all(self) -> None:
        """Before a restart."""

    def oldest(self) -> Revision:
        """The lowest revision that a watch may start after."""
        raise NotImplementedError

    # --- the twin's own transaction

    def apply(self, operations: list[Operation]) -> Revision:
        revision = Revision(self.base + len(self.history) + 1)
        changes = []
        for operation in sorted(operations, key=lambda operation: operation.key):
            if isinstance(operation, Put):
                entry = Entry(operation.key, operation.value, revision, operation.session)
                self.entries[operation.key] = entry
                changes.append(Change(operation.key, operation.value))
            elif self.entries.pop(operation.key, None) is not None:
                changes.append(Change(operation.key, None))
        if changes:
            self.history.append(Changes(revision, tuple(changes)))
        return self.revision()

    def revision(self) -> Revision:
        return Revision(self.base + len(self.history))

    # --- what may happen

    @rule(
        conditions=st.lists(st.tuples(keys, revisions, st.booleans()), max_size=2),
        operations=st.dictionaries(keys, st.one_of(st.none(), values), max_size=3),
        bind=st.booleans(),
    )
    def transact(
        self,
        conditions: list[tuple[str, Revision, bool]],
        operations: dict[str, bytes | None],
        bind: bool,
    ) -> None:
        session = max(self.sessions, default=None) if bind else None
        asked = [
            Condition(key, self.current(key) if true else Revision(self.base + revision))
            for key, revision, true in conditions
        ]
        wanted: list[Operation] = [
            Delete(key) if value is None else Put(key, value, session)
            for key, value in operations.items()
        ]
        result = self.runner.run(self.store.transact(asked, wanted))
        if all(self.current(condition.key) == condition.revision for condition in asked):
            assert result == Committed(self.apply(wanted))
        else:
            assert result == Conflict({item.key: self.entries.get(item.key) for item in asked})

    @rule(prefix=st.sampled_from(["", "a", "a/", "ä", "z"]))
    def range(self, prefix: str) -> None:
        snapshot = self.runner.run(self.store.range(prefix))
        expected = sorted(key for key in self.entries if key.startswith(prefix))
        assert snapshot.entries == tuple(self.entries[key] for key in expected)
        assert snapshot.revision == self.revision()

    @rule(prefix=st.sampled_from(["", "a/"]), back=st.integers(0, 20))
    def watch(self, prefix: str, back: int) -> None:
        start = max(0, len(self.history) - back)
        after = Revision(self.base + start)
        expected = [
            Changes(item.revision, kept)
            for item in self.history[start:]
            if (kept := tuple(c for c in item.changes if c.key.startswith(prefix)))
        ]

        async def look() -> list[Changes]:
            stream = self.store.watch(prefix, after)
            return [await anext(stream) for _ in expected]

        oldest = self.oldest()
        try:
            assert self.runner.run(look()) == expected
            assert after >= oldest or not expected
        except MetadataCompactedError:
            assert after < oldest

    @rule()
    def open_session(self) -> None:
        session = self.runner.run(self.store.open_session(TTL_MS))
        self.sessions[session] = self.clock.now_ms() + TTL_MS

    @rule(milliseconds=st.sampled_from([TTL_MS // 3, TTL_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        now = self.clock.now_ms()
        for session in [name for name, deadline in self.sessions.items() if deadline <= now]:
            del self.sessions[session]
            self.end(session)
            self.apply([Delete(e.key) for e in self.entries.values() if e.session == session])

    @rule()
    def keep_alive(self) -> None:
        for session in self.sessions:
            self.runner.run(self.store.keep_alive(session))
            self.sessions[session] = self.clock.now_ms() + TTL_MS

    @rule()
    def restart(self) -> None:
        self.end_all()
        self.runner.run(self.store.close())
        self.open()
        self.sessions.clear()
        self.apply([Delete(e.key) for e in self.entries.values() if e.session is not None])

    @invariant()
    def every_key_is_the_same(self) -> None:
        snapshot = self.runner.run(self.store.range(""))
        assert {entry.key: entry for entry in snapshot.entries} == self.entries

    def current(self, key: str) -> Revision:
        entry = self.entries.get(key)
        return Revision(0) if entry is None else entry.revision


class SqliteAgainstDict(StoreAgainstDict):
    """A file, whose history is short."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=shared_memory if shared_memory.is_dir() else None))
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)

    def open(self) -> None:
        self.sqlite = self.runner.run(
            SqliteMetadataStore.open(
                self.folder / "m.db", disk=SystemDisk(), clock=self.clock, history=HISTORY
            )
        )
        self.store = self.sqlite

    def end(self, session: SessionId) -> None:
        self.runner.run(self.sqlite.end_lapsed_sessions())

    def oldest(self) -> Revision:
        oldest = self.runner.run(self.store.status()).oldest_watchable
        assert len(self.history) - oldest <= HISTORY.revisions
        return oldest


class EtcdAgainstDict(StoreAgainstDict):
    """A real etcd, compacted at random."""

    members: EtcdMembers

    def __init__(self) -> None:
        self.backend = EtcdBackend(self.members.endpoints)
        self.compacted = Revision(0)
        super().__init__()

    def open(self) -> None:
        self.store = self.backend.store(self.clock)

    def end(self, session: SessionId) -> None:
        with pytest.raises(SessionLapsedError):
            self.runner.run(self.store.keep_alive(session))

    def end_all(self) -> None:
        """Those of etcd would live on, each to its own deadline."""
        bound = dict.fromkeys(e.session for e in self.entries.values() if e.session is not None)
        for session in bound:
            self.runner.run(self.store.end_session(session))
            self.apply([Delete(e.key) for e in self.entries.values() if e.session == session])

    def oldest(self) -> Revision:
        # A watch may begin with the compacted revision itself.
        return Revision(max(0, self.compacted - 1))

    @precondition(lambda self: self.revision() > self.compacted)
    @rule()
    def compact(self) -> None:
        self.compacted = self.revision()
        asked = {"revision": str(self.compacted), "physical": True}
        self.members.ask(0, "/v3/kv/compaction", asked)


SqliteAgainstDict.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40)
TestSqliteAgainstDict = SqliteAgainstDict.TestCase


def test_etcd_against_dict(etcd: EtcdMembers) -> None:
    class Running(EtcdAgainstDict):
        members = etcd

    short = settings(max_examples=20, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(Running, settings=short)

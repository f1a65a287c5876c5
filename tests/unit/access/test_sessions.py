"""Sessions of the console: signed tokens, checked by every node with the same key."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.access.api_keys import ROOT_ID
from goqueue.access.principals import Login, Principal, PrincipalKind
from goqueue.access.sessions import Sessions
from goqueue.access.settings import AccessSettings
from goqueue.cluster.metadata import Unknown
from goqueue.model.errors import AuthenticationFailedError, MetadataUnavailableError
from support.brokers import running_broker
from support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

ALICE = Login(Principal("alice"))
PERSON = Login(Principal("person", PrincipalKind.TOKEN, frozenset({"admin"})))
HOUR_MS = 3_600_000


def on(folder: Path, scenario: Callable[[Callable[..., Sessions], ManualClock], Awaitable[None]]):
    """Play a scenario with a function that makes the sessions of a node, and their clock."""

    async def run() -> None:
        access = AccessSettings(is_enabled=True, root_key="the-root-key-of-a-test")
        users = (("alice", "secret"),)
        async with running_broker(folder, initial_users=users, access=access) as broker:
            clock = ManualClock()

            def node(key: bytes = b"k" * 32) -> Sessions:
                return Sessions(
                    broker.access, broker.store, clock, key=key, lifetime_s=HOUR_MS / 1000
                )

            await scenario(node, clock)

    asyncio.run(run())


def test_a_node_with_the_same_key_knows_a_session_and_no_other_does(tmp_path: Path) -> None:
    async def scenario(node: Callable[..., Sessions], clock: ManualClock) -> None:
        token, opened = node().open(ALICE)
        found = node().find(token)
        assert found == opened
        assert found is not None
        assert found.principal == ALICE.principal
        assert node(b"x" * 32).find(token) is None

    on(tmp_path, scenario)


def test_a_token_in_which_anything_was_changed_counts_for_nothing(tmp_path: Path) -> None:
    async def scenario(node: Callable[..., Sessions], clock: ManualClock) -> None:
        sessions = node()
        token, _ = sessions.open(PERSON)
        raw = base64.urlsafe_b64decode(token)
        for at in range(len(raw)):
            changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
            assert sessions.find(base64.urlsafe_b64encode(changed).decode()) is None
        for other in ("", "x", "=", token[:-4], "ä" + token, token + token):
            assert sessions.find(other) is None

    on(tmp_path, scenario)


@pytest.mark.parametrize(("expires_ms", "lasts_ms"), [(None, HOUR_MS), (1_060_000, 60_000)])
def test_a_session_ends_with_its_time_or_with_that_of_its_login(
    tmp_path: Path, expires_ms: int | None, lasts_ms: int
) -> None:
    async def scenario(node: Callable[..., Sessions], clock: ManualClock) -> None:
        token, _ = node().open(PERSON._replace(expires_ms=expires_ms))
        clock.advance(lasts_ms - 1)
        assert node().find(token) is not None
        clock.advance(1)
        assert node().find(token) is None

    on(tmp_path, scenario)


@pytest.mark.parametrize("root_key", [None, "another-root-key"])
def test_a_session_of_the_root_key_ends_with_it(tmp_path: Path, root_key: str | None) -> None:
    async def scenario(node: Callable[..., Sessions], clock: ManualClock) -> None:
        token, _ = node().open(Login(Principal(ROOT_ID, PrincipalKind.API_KEY)))
        assert node().find(token) is not None
        directory: Any = node()._directory
        directory.root_key = root_key  # as after a restart with another configuration
        assert node().find(token) is None

    on(tmp_path, scenario)


def test_a_sign_out_ends_one_session_also_after_a_restart(tmp_path: Path) -> None:
    async def scenario(node: Callable[..., Sessions], clock: ManualClock) -> None:
        sessions = node()
        (token, _), (other, _) = sessions.open(ALICE), sessions.open(ALICE)
        await sessions.close(token)
        await sessions.close(token)  # nothing is left to do
        restarted = node()
        await restarted.load()
        for each in (sessions, restarted):
            assert each.find(token) is None
            assert each.find(other) is not None

    on(tmp_path, scenario)


class Electing:
    """A metadata store whose first transactions get no answer; the last may be stored."""

    def __init__(self, store: Any, unanswered: int, *, stores_last: bool = False) -> None:
        self._store = store
        self._stores_last = stores_last
        self.unanswered = unanswered
        self.on_stored: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def transact(self, *arguments: Any) -> Any:
        if not self.unanswered:
            return await self._store.transact(*arguments)
        self.unanswered -= 1
        if not self.unanswered and self._stores_last:
            await self._store.transact(*arguments)
            assert self.on_stored is not None
            await self.on_stored()  # as the watch of a cluster's view does
        return Unknown("no member knows a leader")


@pytest.mark.parametrize("stores_last", [False, True])
def test_a_sign_out_waits_for_a_store_that_elects_a_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stores_last: bool
) -> None:
    monkeypatch.setattr("goqueue.access.sessions._PAUSE_S", 0)

    async def scenario(node: Callable[..., Sessions], clock: ManualClock) -> None:
        sessions = node()
        records: Any = sessions._sign_outs
        records._store = Electing(records._store, 3, stores_last=stores_last)
        records._store.on_stored = sessions.load
        token, _ = sessions.open(ALICE)
        await sessions.close(token)
        assert sessions.find(token) is None
        restarted = node()
        await restarted.load()
        assert restarted.find(token) is None

    on(tmp_path, scenario)


def test_a_sign_out_that_cannot_be_stored_is_refused_and_the_session_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.access.sessions._PAUSE_S", 0)

    async def scenario(node: Callable[..., Sessions], clock: ManualClock) -> None:
        sessions = node()
        records: Any = sessions._sign_outs
        records._store = Electing(records._store, 100)
        token, _ = sessions.open(ALICE)
        with pytest.raises(MetadataUnavailableError):
            await sessions.close(token)
        assert sessions.find(token) is not None
        assert records._store.unanswered == 90

    on(tmp_path, scenario)


def test_what_is_stored_of_sign_outs_is_bounded_and_none_is_taken_back(tmp_path: Path) -> None:
    async def scenario(node: Callable[..., Sessions], clock: ManualClock) -> None:
        sessions = node()
        tokens = []
        for _ in range(30):
            tokens.append(sessions.open(ALICE)[0])
            clock.advance(1)
        last, _ = sessions.open(ALICE)
        person, _ = sessions.open(PERSON)
        for token in tokens:
            await sessions.close(token)
            assert sessions.find(token) is None
        assert not any(map(sessions.find, tokens))
        assert sessions.find(last) is not None
        stored: Any = sessions._sign_outs
        assert [len(each.ended) for each in stored.all.values()] == [20]
        clock.advance(HOUR_MS - 1)
        await sessions.close(person)
        assert len(stored.all) == 1  # of the first, nothing is left to end
        clock.advance(HOUR_MS)
        assert not any(map(sessions.find, [*tokens, last, person]))

    on(tmp_path, scenario)


def test_a_token_that_fits_no_cookie_is_refused(tmp_path: Path) -> None:
    async def scenario(node: Callable[..., Sessions], clock: ManualClock) -> None:
        roles = frozenset(f"role-{number:06}" for number in range(300))
        with pytest.raises(AuthenticationFailedError):
            node().open(Login(Principal("person", PrincipalKind.TOKEN, roles)))

    on(tmp_path, scenario)

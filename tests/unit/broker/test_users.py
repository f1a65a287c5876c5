from __future__ import annotations

import asyncio
import logging

import pytest

from goqueue.access import users as users_module
from goqueue.access.credentials import has_password
from goqueue.access.keys import Mechanism, keys_from_password
from goqueue.access.logins import begin_login
from goqueue.access.principals import Principal
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.model.errors import (
    AuthenticationFailedError,
    UnacceptableCredentialError,
    UnknownCredentialError,
)
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from support.brokers import running_broker

SCRAM = Mechanism.SCRAM_SHA_256
OTHER = Mechanism.SCRAM_SHA_512
KEYS = keys_from_password(SCRAM, "secret", b"salt")


def test_users_survive_a_restart_and_a_kill(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            await broker.users.alter("alice", {SCRAM: KEYS})
        async with running_broker(tmp_path, clean=False) as broker:
            assert await broker.users.has_password("alice", "secret")
            await broker.users.alter("zoë,=", {SCRAM: KEYS})
            await broker.users.alter("alice", {SCRAM: None})
        async with running_broker(tmp_path) as broker:
            assert [user.name for user in broker.users.all()] == ["zoë,="]

    asyncio.run(scenario())


def test_the_metadata_file_never_holds_a_password(tmp_path):
    async def scenario():
        async with running_broker(tmp_path, initial_users=(("alice", "plain-to-see"),)) as broker:
            assert await broker.users.has_password("alice", "plain-to-see")
            assert "plain-to-see" not in repr(broker.settings)
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("metadata.db*"))
        assert b"alice" in stored
        assert b"plain-to-see" not in stored

    asyncio.run(scenario())


def test_a_user_of_the_configuration_is_made_once_and_then_the_stored_one_counts(tmp_path, caplog):
    async def scenario():
        async with running_broker(tmp_path, initial_users=(("alice", "one"),)):
            pass
        async with running_broker(tmp_path, initial_users=(("alice", "two"),)) as broker:
            assert await broker.users.has_password("alice", "one")
            assert not await broker.users.has_password("alice", "two")

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    (line,) = caplog.messages
    assert "'alice': the stored password differs from the configuration" in line
    assert "two" not in line


def test_a_removed_user_of_the_configuration_does_not_come_back(tmp_path, caplog):
    async def scenario():
        initial = (("alice", "one"),)
        async with running_broker(tmp_path, initial_users=initial) as broker:
            await broker.users.alter("alice", {SCRAM: None, OTHER: None})
            assert broker.users.all() == []
        async with running_broker(tmp_path, initial_users=initial) as broker:
            assert broker.users.find("alice") is None
            assert not await broker.users.has_password("alice", "one")
            with pytest.raises(UnknownCredentialError):
                await broker.users.alter("alice", {SCRAM: None})
            await broker.users.alter("alice", {SCRAM: KEYS})
            assert await broker.users.has_password("alice", "secret")

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "stays removed" in caplog.messages[0]


def test_a_change_that_cannot_be_made_in_full_is_not_made_at_all(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            with pytest.raises(UnknownCredentialError):
                await broker.users.alter("alice", {SCRAM: KEYS, OTHER: None})
            assert broker.users.find("alice") is None
            with pytest.raises(UnacceptableCredentialError):
                await broker.users.alter("", {SCRAM: KEYS})

    asyncio.run(scenario())


def test_there_is_a_bound_on_users_and_those_who_exist_can_still_change(tmp_path, monkeypatch):
    async def scenario():
        monkeypatch.setattr(users_module, "_MAX_USERS", 2)
        async with running_broker(tmp_path) as broker:
            await broker.users.alter("a", {SCRAM: KEYS})
            await broker.users.alter("b", {SCRAM: KEYS})
            with pytest.raises(UnacceptableCredentialError, match="which is the limit"):
                await broker.users.alter("c", {SCRAM: KEYS})
            await broker.users.alter("b", {SCRAM: None})
            await broker.users.alter("c", {SCRAM: KEYS})

    asyncio.run(scenario())


def test_salts_of_users_who_do_not_exist_stay_the_same_across_restarts(tmp_path):
    async def scenario():
        found = []
        for _ in range(2):
            async with running_broker(tmp_path, initial_users=(("a", "b"),)) as broker:
                found.append(broker.users.keys_for_login(SCRAM, "nobody"))
        assert found[0] == found[1]

    asyncio.run(scenario())


def test_a_user_who_does_not_exist_has_as_many_iterations_as_one_who_does(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            keys = keys_from_password(SCRAM, "secret", b"salt", 8192)
            await broker.users.alter("alice", {SCRAM: keys})
            assert broker.users.keys_for_login(SCRAM, "nobody").iterations == 8192

    asyncio.run(scenario())


def test_a_plain_login_is_good_for_one_message(tmp_path):
    async def scenario():
        async with running_broker(tmp_path, initial_users=(("alice", "one"),)) as broker:
            login = begin_login(broker.users, broker.authenticator, Mechanism.PLAIN, "")
            assert await login.step(b"\0alice\0one") == b""
            assert login.login.principal == Principal("alice")
            with pytest.raises(AuthenticationFailedError):
                await login.step(b"\0alice\0one")
            for message in (b"\0alice\0two", b"\0nobody\0one", b"nonsense"):
                login = begin_login(broker.users, broker.authenticator, Mechanism.PLAIN, "")
                with pytest.raises(AuthenticationFailedError):
                    await login.step(message)
                assert login.login is None

    asyncio.run(scenario())


def test_a_broker_without_users_writes_nothing_for_them(tmp_path):
    async def scenario():
        async with running_broker(tmp_path):
            pass
        store = await SqliteMetadataStore.open(
            tmp_path / "metadata.db", disk=SystemDisk(), clock=SystemClock()
        )
        try:
            assert (await store.range("users/")).entries == ()
            assert (await store.range("login/")).entries == ()
        finally:
            await store.close()

    asyncio.run(scenario())


def test_a_right_password_is_derived_once_until_a_user_changes(tmp_path, monkeypatch):
    derived = []

    def derive(*given):
        derived.append(given)
        return has_password(*given)

    monkeypatch.setattr("goqueue.access.password_checks.has_password", derive)

    async def scenario():
        async with running_broker(tmp_path) as broker:
            users = broker.users
            await users.set_password("alice", "one")
            for _ in range(3):
                assert await users.has_password("alice", "one")
            assert len(derived) == 1
            for _ in range(3):
                assert not await users.has_password("alice", "two")
            assert len(derived) == 4
            await users.set_password("alice", "two")
            assert not await users.has_password("alice", "one")
            assert await users.has_password("alice", "two")
            await users.alter("alice", {SCRAM: None, OTHER: None})
            assert not await users.has_password("alice", "two")

    asyncio.run(scenario())


def test_a_password_counts_whichever_mechanism_it_was_set_for(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            other = keys_from_password(OTHER, "another", b"salt")
            await broker.users.alter("alice", {SCRAM: KEYS, OTHER: other})
            assert await broker.users.has_password("alice", "secret")
            assert await broker.users.has_password("alice", "another")
            assert not await broker.users.has_password("alice", "neither")

    asyncio.run(scenario())

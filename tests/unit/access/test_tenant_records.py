"""Tenants as they are stored, and what their status and their principals' logins follow from."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import asdict, replace

from goqueue.access.principals import Principal
from goqueue.access.rights import Operation, ResourceType, Right
from goqueue.access.settings import AccessSettings
from goqueue.access.tenants.quotas import DEFAULT_QUOTAS, NO_QUOTAS, changed_quotas
from goqueue.access.tenants.records import SYSTEM, Tenant, TenantStatus, check_tenant_id
from goqueue.model import errors
from support.brokers import running_broker

READ = Right(ResourceType.TOPIC, Operation.READ)
WRITE = Right(ResourceType.TOPIC, Operation.WRITE)
DESCRIBE = Right(ResourceType.TOPIC, Operation.DESCRIBE)
ACME = Tenant(id="acme", name="Acme", created_ms=1, updated_ms=1)


def on(folder, scenario, *, uses_tenants: bool = True) -> None:
    async def run() -> None:
        access = AccessSettings(is_enabled=True, uses_tenants=uses_tenants)
        async with running_broker(folder, access=access) as broker:
            await scenario(broker)

    asyncio.run(run())


def test_a_tenant_survives_a_restart_and_the_system_is_unlimited(tmp_path) -> None:
    async def first(broker) -> None:
        assert broker.access.tenants.get("acme") is None
        await broker.access.tenants.records.change({"acme": ACME})

    async def second(broker) -> None:
        assert broker.access.tenants.get("acme") == ACME
        assert broker.access.tenants.get("__system") == SYSTEM
        assert SYSTEM.quotas == NO_QUOTAS
        assert set(asdict(NO_QUOTAS).values()) == {0}

    on(tmp_path, first)
    on(tmp_path, second)


def test_where_tenants_are_off_none_are_read_and_nobody_can_be_in_one(tmp_path) -> None:
    async def write(broker) -> None:
        await broker.access.tenants.records.change({"acme": ACME})

    async def off(broker) -> None:
        assert broker.access.tenants.get("acme") is None
        with pytest.raises(errors.TenancyDisabledError):
            await broker.access_administration.create_key("k", ("producer",), tenant="acme")

    on(tmp_path, write)
    on(tmp_path, off, uses_tenants=False)


def test_the_status_of_a_tenant_counts_at_once(tmp_path) -> None:
    async def scenario(broker) -> None:
        records, administration = broker.access.tenants.records, broker.access_administration
        await records.change({"acme": ACME})
        await administration.put_user("ann", "secret", ("producer", "consumer"), tenant="acme")
        ann = (await broker.authenticator.password_login("ann", "secret", "")).principal
        assert ann == Principal("ann", tenant="acme")
        allows = broker.authorizer.allows
        assert allows(ann, WRITE, "acme.orders")
        assert not allows(ann, WRITE, "orders")
        assert not allows(ann, WRITE, "acmes.orders")

        suspended = replace(ACME, status=TenantStatus.SUSPENDED, reason="unpaid")
        await records.change({"acme": suspended})
        assert allows(ann, DESCRIBE, "acme.orders")
        assert not allows(ann, READ, "acme.orders")
        with pytest.raises(errors.TopicAuthorizationFailedError, match=r"suspended \(unpaid\)"):
            broker.authorizer.check(ann, WRITE, "acme.orders")

        await records.change({"acme": replace(ACME, status=TenantStatus.DISABLED)})
        assert not allows(ann, DESCRIBE, "acme.orders")
        with pytest.raises(errors.AuthenticationFailedError):
            await broker.authenticator.password_login("ann", "secret", "")

        await records.change({"acme": None})
        assert not allows(ann, DESCRIBE, "acme.orders")

    on(tmp_path, scenario)


def test_users_stay_in_their_tenant_and_its_admin_is_nobody_outside(tmp_path) -> None:
    async def scenario(broker) -> None:
        administration, allows = broker.access_administration, broker.authorizer.allows
        await broker.access.tenants.records.change(
            {"acme": ACME, "globex": replace(ACME, id="globex")}
        )
        await administration.put_user("boss", "secret", ("admin",), tenant="acme")
        boss = Principal("boss", tenant="acme")
        assert allows(boss, Right(ResourceType.TOPIC, Operation.DELETE), "acme.orders")
        assert not allows(boss, Right(ResourceType.CLUSTER, Operation.ALTER), "")
        assert allows(boss, Right(ResourceType.TENANT, Operation.DESCRIBE), "acme")
        assert not allows(boss, Right(ResourceType.TENANT, Operation.ALTER), "acme")
        assert not broker.authorizer.is_super(boss)
        with pytest.raises(errors.UnacceptableCredentialError):
            await administration.put_user("boss", "secret", tenant="globex")
        await administration.give_roles("boss", ())
        assert broker.access.tenant_of("boss") == "acme"
        await administration.remove_user("boss")
        assert broker.access.tenant_of("boss") is None
        await administration.put_user("boss", "secret", ("admin",))
        assert not allows(boss, READ, "acme.orders"), "a login from before the move"

    on(tmp_path, scenario)


def test_a_tenant_and_a_key_of_it_that_do_not_exist_are_refused(tmp_path) -> None:
    async def scenario(broker) -> None:
        for tenant in ("acme", "__system"):
            with pytest.raises(errors.UnknownTenantError):
                await broker.access_administration.create_key("k", (), tenant=tenant)
            with pytest.raises(errors.UnknownTenantError):
                await broker.access_administration.put_user("u", "secret", tenant=tenant)
        assert broker.users.find("u") is None

    on(tmp_path, scenario)


@pytest.mark.parametrize("wrong", ["", "ab", "Acme", "1ab", "-abc", "a.b", "a" * 65, "abc\n"])
def test_ids_that_cannot_be(wrong: str) -> None:
    with pytest.raises(errors.InvalidTenantError):
        check_tenant_id(wrong)


@given(st.from_regex(r"[a-z][a-z0-9-]{2,63}", fullmatch=True))
def test_ids_that_can_be(tenant_id: str) -> None:
    check_tenant_id(tenant_id)


def test_quotas_change_one_by_one_and_a_wrong_one_is_named() -> None:
    changed = changed_quotas(DEFAULT_QUOTAS, {"max_topics": 7, "publish_messages_per_s": 0})
    assert (changed.max_topics, changed.publish_messages_per_s) == (7, 0)
    assert changed.max_groups == DEFAULT_QUOTAS.max_groups
    with pytest.raises(errors.InvalidTenantError, match="no quota 'topics'"):
        changed_quotas(DEFAULT_QUOTAS, {"topics": 1})
    with pytest.raises(errors.InvalidTenantError, match="max_topics is -1"):
        changed_quotas(DEFAULT_QUOTAS, {"max_topics": -1})

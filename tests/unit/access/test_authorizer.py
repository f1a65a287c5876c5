"""Decisions of the authorizer: super users, deny, allow, roles, tenants, and what is remembered."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.access.api_keys import ApiKey, hash_of, new_key
from goqueue.access.directory import Binding
from goqueue.access.principals import ANONYMOUS, Principal, PrincipalKind
from goqueue.access.rights import Operation, PatternType, ResourceType, Right
from goqueue.access.roles import Role
from goqueue.access.rules import Effect, Rule
from goqueue.access.settings import AccessSettings
from goqueue.model import errors
from support.brokers import running_broker

READ = Right(ResourceType.TOPIC, Operation.READ)
WRITE = Right(ResourceType.TOPIC, Operation.WRITE)
DESCRIBE = Right(ResourceType.TOPIC, Operation.DESCRIBE)
JOIN = Right(ResourceType.GROUP, Operation.READ)
ALTER_CLUSTER = Right(ResourceType.CLUSTER, Operation.ALTER)
IDEMPOTENT = Right(ResourceType.CLUSTER, Operation.IDEMPOTENT_WRITE)
ALICE = Principal("alice")


def token(name: str, *roles: str, tenant: str | None = None) -> Principal:
    return Principal(name, PrincipalKind.TOKEN, frozenset(roles), tenant)


async def add(broker, *rules: Rule) -> None:
    await broker.access.rules.change({each.id: each for each in rules})


def on(folder, scenario, **settings):
    async def run() -> None:
        access = AccessSettings(is_enabled=True, super_users=frozenset({"root"}), **settings)
        users = (("alice", "secret"), ("root", "secret"))
        async with running_broker(folder, initial_users=users, access=access) as broker:
            await scenario(broker)

    asyncio.run(run())


def test_without_configuration_everything_is_open(tmp_path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            assert broker.authorizer.is_open
            assert not broker.authenticator.is_required
            assert broker.authorizer.allows(ANONYMOUS, ALTER_CLUSTER, "")

    asyncio.run(run())


def test_without_a_rule_and_without_a_role_everything_is_refused(tmp_path) -> None:
    async def scenario(broker) -> None:
        for right in (READ, WRITE, DESCRIBE, JOIN, ALTER_CLUSTER, IDEMPOTENT):
            assert not broker.authorizer.allows(ALICE, right, "x")
            assert not broker.authorizer.allows(ANONYMOUS, right, "x")

    on(tmp_path, scenario)


def test_rules_allow_and_a_deny_wins(tmp_path) -> None:
    async def scenario(broker) -> None:
        allows = broker.authorizer.allows
        await add(
            broker,
            Rule("User:alice", ResourceType.TOPIC, "or", Operation.READ, Effect.ALLOW,
                 PatternType.PREFIXED),
            Rule("User:*", ResourceType.TOPIC, "orders", Operation.READ, Effect.DENY,
                 host="10.0.0.9"),
        )  # fmt: skip
        assert allows(ALICE, READ, "orders", "10.0.0.1")
        assert allows(ALICE, DESCRIBE, "orders", "10.0.0.9")
        assert not allows(ALICE, READ, "orders", "10.0.0.9")
        assert allows(ALICE, READ, "orphans", "10.0.0.9")
        assert not allows(ALICE, WRITE, "orders", "10.0.0.1")

    on(tmp_path, scenario)


def test_super_users_nodes_and_administrators_are_not_bound_by_rules(tmp_path) -> None:
    async def scenario(broker) -> None:
        allows = broker.authorizer.allows
        await add(broker, Rule("User:*", ResourceType.TOPIC, "*", Operation.ALL, Effect.DENY))
        node = Principal("node-2", PrincipalKind.NODE)
        for principal in (Principal("root"), node, token("ops", "admin")):
            assert allows(principal, WRITE, "x")
            assert allows(principal, ALTER_CLUSTER, "")
        assert not allows(Principal("root", PrincipalKind.ANONYMOUS), WRITE, "x")
        assert not allows(token("ops", "admin", tenant="acme"), ALTER_CLUSTER, "")

    on(tmp_path, scenario)


@pytest.mark.parametrize(
    ("role", "allowed", "refused"),
    [
        ("producer", (WRITE, DESCRIBE, IDEMPOTENT), (READ, JOIN, ALTER_CLUSTER)),
        ("consumer", (READ, DESCRIBE, JOIN), (WRITE, IDEMPOTENT, ALTER_CLUSTER)),
        ("readonly", (DESCRIBE,), (READ, WRITE, JOIN, ALTER_CLUSTER)),
    ],
)
def test_roles_decide_where_no_rule_matches(tmp_path, role, allowed, refused) -> None:
    async def scenario(broker) -> None:
        principal = token("svc", role)
        for right in allowed:
            assert broker.authorizer.allows(principal, right, "x"), right
        for right in refused:
            assert not broker.authorizer.allows(principal, right, "x"), right
        await add(broker, Rule(f"role:{role}", ResourceType.TOPIC, "x", Operation.ALL, Effect.DENY))
        assert not broker.authorizer.allows(principal, DESCRIBE, "x")

    on(tmp_path, scenario)


def test_roles_of_a_name_count_at_once_and_until_the_user_is_deleted(tmp_path) -> None:
    async def scenario(broker) -> None:
        authorizer = broker.authorizer
        assert not authorizer.allows(ALICE, WRITE, "x")
        before = authorizer.version
        await broker.access.bindings.change({"alice": Binding(("writer",))})
        await broker.access.roles.change({"writer": Role(("message:publish",))})
        assert authorizer.version > before
        assert authorizer.allows(ALICE, WRITE, "x")
        mechanisms = list(broker.users.find("alice").keys)
        await broker.users.alter("alice", dict.fromkeys(mechanisms))
        assert not authorizer.allows(ALICE, WRITE, "x")

    on(tmp_path, scenario)


def test_a_revoked_key_is_refused_at_once(tmp_path) -> None:
    async def scenario(broker) -> None:
        key_id, secret = new_key()
        key = ApiKey(hash_of(secret), secret[:11], "ci", 0, ("producer",))
        await broker.access.keys.change({key_id: key})
        principal = (await broker.authenticator.bearer_login(secret, "10.0.0.1")).principal
        assert principal.kind is PrincipalKind.API_KEY
        assert (
            await broker.authenticator.password_login(key_id, secret, "10.0.0.1")
        ).principal == principal
        assert broker.authorizer.allows(principal, WRITE, "x")
        revoked = ApiKey(hash_of(secret), secret[:11], "ci", 0, ("producer",), is_revoked=True)
        await broker.access.keys.change({key_id: revoked})
        assert not broker.authorizer.allows(principal, WRITE, "x")
        with pytest.raises(errors.AuthenticationFailedError):
            await broker.authenticator.bearer_login(secret, "10.0.0.1")

    on(tmp_path, scenario)


def test_the_root_key_may_do_everything_and_is_not_stored(tmp_path) -> None:
    async def scenario(broker) -> None:
        principal = (await broker.authenticator.bearer_login("the-root-of-it-all", "")).principal
        assert broker.authorizer.allows(principal, ALTER_CLUSTER, "")
        assert not broker.access.keys.all
        with pytest.raises(errors.AuthenticationFailedError):
            await broker.authenticator.bearer_login("the-root-of-it-alL", "")

    on(tmp_path, scenario, root_key="the-root-of-it-all")


def test_a_principal_of_a_tenant_stays_in_it(tmp_path) -> None:
    async def scenario(broker) -> None:
        allows = broker.authorizer.allows
        principal = token("svc", "producer", "admin", tenant="acme")
        await add(broker, Rule("User:svc", ResourceType.TOPIC, "*", Operation.ALL))
        assert allows(principal, WRITE, "acme.orders")
        assert not allows(principal, WRITE, "acmes.orders")
        assert not allows(principal, WRITE, "orders")
        assert allows(principal, IDEMPOTENT, "")
        assert not allows(principal, ALTER_CLUSTER, "")

    on(tmp_path, scenario)


def test_whoever_may_write_to_some_topic_may_write_idempotently(tmp_path) -> None:
    async def scenario(broker) -> None:
        assert not broker.authorizer.allows(ALICE, IDEMPOTENT, "")
        await add(broker, Rule("User:alice", ResourceType.TOPIC, "orders", Operation.WRITE))
        assert broker.authorizer.allows(ALICE, IDEMPOTENT, "")
        assert broker.authorizer.allows_any(ALICE, WRITE)
        assert not broker.authorizer.allows_any(ALICE, READ)

    on(tmp_path, scenario)


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (ResourceType.TOPIC, errors.TopicAuthorizationFailedError),
        (ResourceType.GROUP, errors.GroupAuthorizationFailedError),
        (ResourceType.TRANSACTIONAL_ID, errors.TransactionalIdAuthorizationFailedError),
        (ResourceType.CLUSTER, errors.ClusterAuthorizationFailedError),
    ],
)
def test_a_refusal_has_the_class_of_its_resource(tmp_path, resource, error) -> None:
    async def scenario(broker) -> None:
        with pytest.raises(error, match="User:alice lacks the right DESCRIBE"):
            broker.authorizer.check(ALICE, Right(resource, Operation.DESCRIBE), "x", "")

    on(tmp_path, scenario)


def test_rules_that_are_switched_off_do_not_count(tmp_path) -> None:
    async def scenario(broker) -> None:
        await add(broker, Rule("User:alice", ResourceType.TOPIC, "*", Operation.ALL))
        assert not broker.authorizer.allows(ALICE, READ, "x")

    on(tmp_path, scenario, uses_rules=False)

"""What administrators change: rules, roles, who has which role, API keys, users.

Every change is durable in the metadata store before it counts. In a cluster the nodes that answer
have seen it before it is acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from goqueue.access.api_keys import ApiKey, hash_of, new_key, shown_part
from goqueue.access.credentials import check_user_name
from goqueue.access.directory import Binding
from goqueue.access.roles import BUILT_IN, Role, check_role
from goqueue.access.rules import Rule, check_rule
from goqueue.access.tenants.records import SYSTEM_ID
from goqueue.model.errors import (
    InvalidRoleError,
    TenancyDisabledError,
    UnacceptableCredentialError,
    UnknownCredentialError,
    UnknownKeyError,
    UnknownRoleError,
    UnknownRuleError,
    UnknownTenantError,
)
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goqueue.access.directory import AccessDirectory
    from goqueue.access.keys import Mechanism, ScramKeys
    from goqueue.access.rule_filters import RuleFilter
    from goqueue.runtime.clock import Clock

_RULES_AT_ONCE: Final = 50
"""Rules of one transaction of the metadata store, which bounds its keys; more take several."""
_MAX_KEY_NAME_CHARS: Final = 200
_MAX_KEY_METADATA: Final = 20
"""Entries of the metadata of one key; a key with more is refused."""


class NewKey(NamedTuple):
    """A key that was just made: the only time that it is shown."""

    id: str
    key: str
    record: ApiKey


class AccessAdministration:
    """Every way to change who may do what."""

    def __init__(self, directory: AccessDirectory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    # --- Rules -----------------------------------------------------------------------------------

    def find_rules(self, wanted: RuleFilter) -> list[Rule]:
        """The rules that a filter takes, in the order of their ids."""
        rules = sorted(self._directory.rules.all.items())
        return [rule for _, rule in rules if wanted.takes(rule)]

    async def add_rules(self, rules: Iterable[Rule]) -> None:
        """Make rules; one that is there already is fine.

        Raises:
            InvalidRuleError: one of them cannot be; none is made then.
        """
        known = self._directory.rules.all
        new: dict[str, Rule | None] = {}
        for rule in rules:
            check_rule(rule)
            if rule.id not in known:
                new[rule.id] = rule
        await self._change_rules(new)

    async def remove_rules(self, rules: Iterable[Rule]) -> None:
        """Delete rules."""
        known = self._directory.rules.all
        await self._change_rules({rule.id: None for rule in rules if rule.id in known})

    async def remove_rule(self, rule_id: str) -> Rule:
        """Delete one rule by its id, and return it. Raises `UnknownRuleError`."""
        rule = self._directory.rules.all.get(rule_id)
        if rule is None:
            raise UnknownRuleError(f"there is no rule {rule_id!r}: list them for their ids")
        await self._change_rules({rule_id: None})
        return rule

    async def _change_rules(self, changes: Mapping[str, Rule | None]) -> None:
        items = list(changes.items())
        for at in range(0, len(items), _RULES_AT_ONCE):
            await self._directory.rules.change(dict(items[at : at + _RULES_AT_ONCE]))

    # --- Roles -----------------------------------------------------------------------------------

    def all_roles(self) -> dict[str, Role]:
        """Every role by its name, those that are built in first."""
        return {**BUILT_IN, **dict(sorted(self._directory.roles.all.items()))}

    async def put_role(self, name: str, permissions: Sequence[str], description: str = "") -> Role:
        """Make or change a role of one's own. Raises `InvalidRoleError`."""
        check_role(name, permissions)
        role = Role(tuple(dict.fromkeys(permissions)), description)
        await self._directory.roles.change({name: role})
        return role

    async def remove_role(self, name: str) -> None:
        """Delete a role; those who have it lose what it allows.

        Raises:
            UnknownRoleError: there is none.
            InvalidRoleError: it is built in.
        """
        if name in BUILT_IN:
            raise InvalidRoleError(f"the role {name!r} is built in and cannot be deleted")
        if name not in self._directory.roles.all:
            raise UnknownRoleError(f"there is no role {name!r}")
        await self._directory.roles.change({name: None})

    def roles_of(self, name: str) -> tuple[str, ...]:
        """The roles that were given to a name."""
        binding = self._directory.bindings.all.get(name)
        return () if binding is None else binding.roles

    async def give_roles(self, name: str, roles: Sequence[str]) -> None:
        """Let a name have these roles and no others: of a user, a token or a certificate.

        Raises:
            UnknownRoleError: one of them does not exist.
        """
        self._check_roles(roles)
        if not roles and name not in self._directory.bindings.all:
            return
        tenant = self._directory.tenant_of(name)
        await self._bind(name, Binding(tuple(dict.fromkeys(roles)), tenant))

    async def _bind(self, name: str, binding: Binding) -> None:
        is_kept = binding.roles or binding.tenant is not None
        await self._directory.bindings.change({name: binding if is_kept else None})

    def check_tenant(self, tenant: str) -> None:
        """Raises `UnknownTenantError` or `TenancyDisabledError` unless there is such a tenant."""
        if not self._directory.tenants.is_enabled:
            raise TenancyDisabledError(
                f"tenant {tenant[:80]!r}, and tenants are off: set tenancy.enabled"
            )
        if tenant == SYSTEM_ID or self._directory.tenants.get(tenant) is None:
            raise UnknownTenantError(f"there is no tenant {tenant[:80]!r}: create it first")

    def _check_roles(self, roles: Iterable[str]) -> None:
        for role in roles:
            if self._directory.role(role) is None:
                names = ", ".join(self.all_roles())
                raise UnknownRoleError(f"there is no role {role[:80]!r}, expected one of {names}")

    # --- API keys --------------------------------------------------------------------------------

    async def create_key(
        self,
        name: str,
        roles: Sequence[str],
        *,
        tenant: str | None = None,
        lifetime_ms: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> NewKey:
        """Make a key; it is returned here and nowhere else.

        Raises:
            UnacceptableCredentialError: the name or the metadata is over its bound.
            UnknownRoleError: a role does not exist.
            UnknownTenantError: the tenant does not exist.
        """
        if tenant is not None:
            self.check_tenant(tenant)
        if not 0 < len(name) <= _MAX_KEY_NAME_CHARS or len(metadata or ()) > _MAX_KEY_METADATA:
            raise UnacceptableCredentialError(
                f"a key has a name of 1 to {_MAX_KEY_NAME_CHARS} characters and at most "
                f"{_MAX_KEY_METADATA} entries of metadata"
            )
        self._check_roles(roles)
        now_ms = self._clock.now_ms()
        key_id, key = new_key()
        record = ApiKey(
            sha256=hash_of(key),
            shown=shown_part(key),
            name=name,
            created_ms=now_ms,
            roles=tuple(dict.fromkeys(roles)),
            tenant=tenant,
            expires_ms=None if lifetime_ms is None else now_ms + lifetime_ms,
            metadata=dict(metadata or {}),
        )
        await self._directory.keys.change({key_id: record})
        return NewKey(key_id, key, record)

    async def revoke_key(self, key_id: str) -> ApiKey:
        """Refuse a key from now on; one that is revoked already is forgotten.

        Raises:
            UnknownKeyError: there is none of that id.
        """
        key = self._directory.keys.all.get(key_id)
        if key is None:
            raise UnknownKeyError(f"there is no API key {key_id[:80]!r}: list them for their ids")
        revoked = replace(key, is_revoked=True)
        await self._directory.keys.change({key_id: None if key.is_revoked else revoked})
        return revoked

    # --- Users -----------------------------------------------------------------------------------

    async def put_user(
        self,
        name: str,
        password: str | None = None,
        roles: Sequence[str] | None = None,
        tenant: str | None = None,
    ) -> None:
        """Make a user, or give one another password or other roles; one stays in its tenant.

        Raises:
            UnacceptableCredentialError: the name or the password cannot be one.
            UnknownCredentialError: there is no such user, and no password to make one with.
            UnknownRoleError: a role does not exist.
            UnknownTenantError: the tenant does not exist.
        """
        self._check_roles(roles or ())
        if tenant is not None:
            self.check_tenant(tenant)
            self._check_stays(name, tenant)
        check_user_name(name)
        if password is not None:
            if tenant is not None:  # first, or the user would be of no tenant for a moment
                await self._bind(name, Binding(self.roles_of(name), tenant))
            await self._directory.users.set_password(name, password)
        elif self._directory.users.find(name) is None:
            raise UnknownCredentialError(f"there is no user {name!r}: give a password to make one")
        if roles is not None:
            await self.give_roles(name, roles)

    def _check_stays(self, name: str, tenant: str) -> None:
        found = self._directory.tenant_of(name)
        if found != tenant and (found is not None or self._directory.users.find(name) is not None):
            raise UnacceptableCredentialError(
                f"user {name!r} belongs to {'no tenant' if found is None else found}, and users "
                "stay in their tenants: delete the user first"
            )

    async def remove_user(self, name: str) -> None:
        """Delete a user with its roles and its tenant, so that another does not get them.

        Raises:
            UnknownCredentialError: there is none.
        """
        if self._directory.users.find(name) is None:
            raise UnknownCredentialError(f"there is no user {name!r}")
        await self.forget(name)

    async def alter_user(self, name: str, changes: Mapping[Mechanism, ScramKeys | None]) -> None:
        """Set or remove (None) a user's keys; one without any is deleted as by `remove_user`.

        Raises:
            UnacceptableCredentialError: the name is none, or there are too many users.
            UnknownCredentialError: keys that are to be removed do not exist.
        """
        user = self._directory.users.find(name)
        added = [each for each, keys in changes.items() if keys is not None]
        if user is not None and not added and changes.keys() == user.keys.keys():
            await self.forget(name)
        else:
            await self._directory.users.alter(name, changes)

    async def forget(self, name: str) -> None:
        """Delete a principal of any kind: its password, its roles, its tenant."""
        user = self._directory.users.find(name)
        await self.give_roles(name, ())
        if user is not None:
            await self._directory.users.alter(name, dict.fromkeys(user.keys))
        if name in self._directory.bindings.all:
            await self._bind(name, Binding())

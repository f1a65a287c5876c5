"""Everything that decisions are made by: rules, roles, who has which role, keys, users, tenants.

It lives in the metadata store. In a cluster every node follows it, so that a change counts
everywhere as soon as the view of a node shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.api_keys import ROOT_ID, ApiKey, KeyIndex
from goqueue.access.principals import Principal, PrincipalKind
from goqueue.access.roles import ADMIN, BUILT_IN, Role
from goqueue.access.rules import Rule
from goqueue.access.stored import StoredRecords
from goqueue.access.tenants.directory import Tenants

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.access.rights import Right
    from goqueue.access.users import Users
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.view_keeper import ViewKeeper

EXPIRY_PASS_S: Final = 1.0
"""How often keys are looked at that may have expired."""
_MAX_RULES: Final = 100_000
_MAX_ROLES: Final = 1000
_MAX_BINDINGS: Final = 100_000
_MAX_KEYS: Final = 10_000
"""Of each kind of record; a further one is refused with `TooManyCredentialsError`."""


class Binding(msgspec.Struct, frozen=True):
    """The roles of one name, and the tenant that it belongs to."""

    roles: tuple[str, ...] = ()
    tenant: str | None = None


class AccessDirectory:
    """The records, and what follows from them."""

    def __init__(
        self,
        store: MetadataStore,
        users: Users,
        *,
        root_key: str | None = None,
        uses_tenants: bool = False,
        keeper: ViewKeeper | None = None,
    ) -> None:
        self.users = users
        self.tenants = Tenants(store, is_enabled=uses_tenants, keeper=keeper)
        self.root_key = root_key
        """With all rights, and stored nowhere; None: there is none."""
        self.rules = StoredRecords(store, "acls/", Rule, limit=_MAX_RULES, keeper=keeper)
        """By their ids."""
        self.roles = StoredRecords(store, "roles/", Role, limit=_MAX_ROLES, keeper=keeper)
        """Those of one's own, by name."""
        self.bindings = StoredRecords(
            store, "role-bindings/", Binding, limit=_MAX_BINDINGS, keeper=keeper
        )
        """By the names of principals."""
        self.keys = StoredRecords(store, "keys/", ApiKey, limit=_MAX_KEYS, keeper=keeper)
        """By their ids."""
        self.key_index = KeyIndex({}, root_key)
        self.on_change: Callable[[], None] | None = None
        """Called after something has changed; set by the authorizer."""
        self._rights: dict[frozenset[str], frozenset[Right]] = {}
        self._expired: frozenset[str] = frozenset()
        """The ids of keys whose time was over when `expire` looked last."""

    async def load(self) -> None:
        """Read everything from the metadata store, but users, who are read by `Users`."""
        for records in (self.rules, self.roles, self.bindings, self.keys):
            await records.load()
            records.on_change = self._changed
        await self.tenants.load()
        self.tenants.records.on_change = self._tenants_changed
        self.users.on_change = self._changed
        self._changed()

    def _tenants_changed(self) -> None:
        self._changed()
        if self.tenants.on_change is not None:
            self.tenants.on_change()

    def _changed(self) -> None:
        self._rights = {}
        self.key_index = KeyIndex(self.keys.all, self.root_key)
        if self.on_change is not None:
            self.on_change()

    def roles_of(self, principal: Principal) -> frozenset[str] | None:
        """What a principal has by now; None: its key is over, or its user deleted or moved."""
        own = principal.roles
        if principal.kind is PrincipalKind.API_KEY:
            key = self.keys.all.get(principal.name)
            if key is None:
                return frozenset({ADMIN}) if principal.name == ROOT_ID else None
            is_over = key.is_revoked or principal.name in self._expired
            return None if is_over else frozenset(key.roles)
        if principal.kind is PrincipalKind.USER and self.users.find(principal.name) is None:
            return None
        binding = self.bindings.all.get(principal.name)
        if principal.tenant != self._tenant_now(principal, binding):
            return None
        return own if binding is None else own | frozenset(binding.roles)

    def expire(self, now_ms: int) -> None:
        """Let keys whose time is over count no more, also for those that logged in before."""
        expired = frozenset(
            key_id
            for key_id, key in self.keys.all.items()
            if key.expires_ms is not None and key.expires_ms <= now_ms
        )
        if expired != self._expired:
            self._expired = expired
            self._changed()

    def tenant_of(self, name: str) -> str | None:
        """The tenant that a user, or what a token or a certificate is mapped to, belongs to."""
        binding = self.bindings.all.get(name)
        return None if binding is None else binding.tenant

    def _tenant_now(self, principal: Principal, binding: Binding | None) -> str | None:
        """Another than at the login: the name was given to somebody else since."""
        said = None if binding is None else binding.tenant
        if said is None and principal.kind is PrincipalKind.TOKEN:
            return principal.tenant  # by a claim of the token
        return said

    def role(self, name: str) -> Role | None:
        """A role, built in or of one's own."""
        return BUILT_IN.get(name) or self.roles.all.get(name)

    def rights_of(self, names: frozenset[str]) -> frozenset[Right]:
        """Everything that some roles allow together; one that does not exist allows nothing."""
        known = self._rights.get(names)
        if known is None:
            roles = [role for name in names if (role := self.role(name)) is not None]
            known = frozenset(right for role in roles for right in role.rights)
            self._rights[names] = known
        return known

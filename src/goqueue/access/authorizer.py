"""Who may do what: one decision for every protocol.

A principal of a tenant may do nothing outside it, whatever else is said, and as much inside as the
status of the tenant allows. Then, in this order: a super user, the cluster's own nodes and the role
`admin` may do everything. A rule that denies counts before one that allows. Where no rule matches,
the roles decide; without a role that allows it, it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.access.principals import Principal, PrincipalKind
from goqueue.access.rights import CLUSTER_NAME, IMPLIED_BY, Operation, ResourceType, Right
from goqueue.access.roles import ADMIN
from goqueue.access.rules import ANY_HOST, EVERYBODY, ROLE_PREFIX, RuleIndex
from goqueue.access.tenants.records import TenantStatus
from goqueue.model import errors

if TYPE_CHECKING:
    from goqueue.access.directory import AccessDirectory
    from goqueue.access.settings import AccessSettings

_MAX_DECISIONS: Final = 50_000
"""Decisions that are remembered; at the bound all are forgotten."""

_REFUSALS: Final = {
    ResourceType.TOPIC: errors.TopicAuthorizationFailedError,
    ResourceType.GROUP: errors.GroupAuthorizationFailedError,
    ResourceType.TRANSACTIONAL_ID: errors.TransactionalIdAuthorizationFailedError,
    ResourceType.CLUSTER: errors.ClusterAuthorizationFailedError,
    ResourceType.TENANT: errors.ClusterAuthorizationFailedError,
}
_NOUNS: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TENANT: "tenant",
}
_WRITE_TOPIC: Final = Right(ResourceType.TOPIC, Operation.WRITE)
_IDEMPOTENT_WRITE: Final = Right(ResourceType.CLUSTER, Operation.IDEMPOTENT_WRITE)
_OF_A_TENANT: Final = frozenset(
    {ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID}
)
_WHILE_SUSPENDED: Final = frozenset({Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS})


class Authorizer:
    """Decides by what the directory has now; every change makes a new `version`."""

    def __init__(self, settings: AccessSettings, directory: AccessDirectory) -> None:
        self._settings = settings
        self._directory = directory
        self.is_open = not settings.is_enabled
        """Nothing is configured and everything is allowed: callers skip their checks by this."""
        self.version = 0
        """Grows with every change of rules, roles, keys and users, so that a connection may
        remember what it was allowed for as long as this is the same."""
        self._rules = RuleIndex()
        self._decisions: dict[tuple[Principal, Right, str, str], bool] = {}
        directory.on_change = self._follow
        self._follow()

    def _follow(self) -> None:
        self.version += 1
        rules = self._directory.rules.all.values() if self._settings.uses_rules else ()
        self._rules = RuleIndex(rules)
        self._decisions = {}

    def allows(self, principal: Principal, right: Right, name: str, host: str = "") -> bool:
        """Whether the principal may do this to the resource of that name, from that address."""
        if self.is_open:
            return True
        key = (principal, right, name, host if host in self._rules.hosts else "")
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= _MAX_DECISIONS:
                self._decisions = {}
            known = self._decisions[key] = self._decide(principal, right, name, host)
        return known

    def check(self, principal: Principal, right: Right, name: str, host: str = "") -> None:
        """Let it pass, or refuse it in the same words whether or not the resource exists.

        Raises:
            AuthorizationFailedError: of the class for this kind of resource.
        """
        if not self.allows(principal, right, name, host):
            if self._is_halted(principal, right) and _is_own(principal, right, name):
                raise self._halt(principal, right)
            raise refusal(principal, right, name)

    def allows_any(self, principal: Principal, right: Right, host: str = "") -> bool:
        """Whether there may be a resource of that kind that the principal may do this to."""
        if self.is_open or self.is_super(principal):
            return True
        roles = self._roles(principal)
        if roles is None or self._is_halted(principal, right):
            return False
        said = self._rules.decide_any(_labels(principal, roles), right, host)
        return self._grants(roles, right) if said is None else said

    def check_any(self, principal: Principal, right: Right, host: str = "") -> None:
        """Let it pass if there may be such a resource.

        Raises:
            AuthorizationFailedError: of the class for this kind of resource.
        """
        if not self.allows_any(principal, right, host):
            if self._is_halted(principal, right):
                raise self._halt(principal, right)
            raise refusal(principal, right)

    def is_super(self, principal: Principal) -> bool:
        """Whether rules do not bind the principal."""
        if principal.tenant is not None:
            return False
        if principal.kind is PrincipalKind.NODE or principal.name in self._settings.super_users:
            return principal.kind is not PrincipalKind.ANONYMOUS
        roles = self._roles(principal)
        return roles is not None and ADMIN in roles

    def roles(self, principal: Principal) -> frozenset[str]:
        """All roles of a principal: those of its credential and those given to its name."""
        return self._roles(principal) or frozenset()

    def _roles(self, principal: Principal) -> frozenset[str] | None:
        """None: the credential is revoked, or the user deleted, since the login."""
        return self._directory.roles_of(principal)

    def _decide(self, principal: Principal, right: Right, name: str, host: str) -> bool:
        if self.is_super(principal):
            return True
        roles = self._roles(principal)
        if roles is None or not _is_own(principal, right, name):
            return False
        if self._is_halted(principal, right):
            return False
        if right.resource is ResourceType.CLUSTER:
            name = CLUSTER_NAME
        said = self._rules.decide(_labels(principal, roles), right, name, host or ANY_HOST)
        if said is None:
            said = self._grants(roles, right)
        if not said and right == _IDEMPOTENT_WRITE:  # as in Kafka since 3.0
            return self.allows_any(principal, _WRITE_TOPIC, host)
        return said

    def _is_halted(self, principal: Principal, right: Right) -> bool:
        """Whether the status of the principal's tenant forbids this."""
        tenants = self._directory.tenants
        if principal.tenant is None or not tenants.is_enabled:
            return False
        tenant = tenants.get(principal.tenant)
        if tenant is None:
            return True
        if tenant.status is TenantStatus.SUSPENDED:
            return right.operation not in _WHILE_SUSPENDED
        return tenant.status is not TenantStatus.ACTIVE

    def _halt(self, principal: Principal, right: Right) -> errors.AuthorizationFailedError:
        tenant = self._directory.tenants.get(principal.tenant or "")
        status = "deleted" if tenant is None else tenant.status
        reason = f" ({tenant.reason})" if tenant is not None and tenant.reason else ""
        return _REFUSALS[right.resource](
            f"tenant {principal.tenant!r} is {status}{reason}: ask an administrator to activate it"
        )

    def _grants(self, roles: frozenset[str], right: Right) -> bool:
        granted = self._directory.rights_of(roles)
        if right in granted:
            return True
        implying = IMPLIED_BY.get(right.operation, frozenset())
        return any(Right(right.resource, each) in granted for each in implying)


def refusal(
    principal: Principal, right: Right, name: str | None = None
) -> errors.AuthorizationFailedError:
    """The error of a refused request; it tells nothing about the resource. No name: of all."""
    noun = _NOUNS[right.resource]
    what = f"every {noun}" if name is None else f"{noun} {name!r}"
    if right.resource is ResourceType.CLUSTER:
        what = f"the {noun}"
    operation = right.operation.name
    return _REFUSALS[right.resource](
        f"{principal.label} lacks the right {operation} on {what}: "
        "ask an administrator for a role or a rule that allows it"
    )


def _labels(principal: Principal, roles: frozenset[str]) -> frozenset[str]:
    """Everything that rules may call a principal by."""
    return frozenset({principal.label, EVERYBODY, *(ROLE_PREFIX + each for each in roles)})


def _is_own(principal: Principal, right: Right, name: str) -> bool:
    """Whether it is not out of bounds for a principal of a tenant."""
    if principal.tenant is None:
        return True
    if right.resource in _OF_A_TENANT:
        return name.startswith(f"{principal.tenant}.")
    if right.resource is ResourceType.TENANT:
        return name == principal.tenant and right.operation is Operation.DESCRIBE
    return right == _IDEMPOTENT_WRITE

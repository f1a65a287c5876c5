"""Rules: made, listed, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.access.rights import CLUSTER_NAME, Operation, PatternType, ResourceType
from goqueue.access.rule_filters import NameMatch, RuleFilter
from goqueue.access.rules import Effect, Rule
from goqueue.model.errors import InvalidRuleError
from goqueue.protocols.http.access.access_shapes import (
    AclBody,
    AclInfo,
    AclList,
    AclPath,
    AclQuery,
)
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import ALTER, DESCRIBE, on_cluster
from goqueue.protocols.http.api.route import route

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

_TAG: Final = "access"


class AclRoutes:
    """Access control lists."""

    def __init__(self, broker: Broker) -> None:
        self._rules = broker.access_administration

    @route("POST", "/admin/acls", tag=_TAG, right=on_cluster(ALTER), status=201, place=LOCAL)
    async def create(self, body: AclBody) -> AclList:
        """Create rules, one for each operation. A rule that exists already is returned as it is."""
        is_cluster = body.resource_type == "cluster"
        name = body.resource_name or (CLUSTER_NAME if is_cluster else None)
        if name is None:
            raise InvalidRuleError(
                f"a rule for a {body.resource_type} without resource_name, expected a name or *"
            )
        rules = [
            Rule(
                principal=body.principal,
                resource=ResourceType[body.resource_type.upper()],
                name=name,
                operation=Operation[each.upper()],
                effect=Effect(body.effect),
                pattern=PatternType[body.pattern_type.upper()],
                host=body.host,
            )
            for each in body.operations
        ]
        await self._rules.add_rules(rules)
        return AclList([_info(rule) for rule in rules])

    @route("GET", "/admin/acls", tag=_TAG, right=on_cluster(DESCRIBE), place=LOCAL)
    async def all(self, query: AclQuery) -> AclList:
        """List rules: all, or those of a principal or about a resource."""
        resource = query.resource_type
        wanted = RuleFilter(
            resource=None if resource is None else ResourceType[resource.upper()],
            name=query.resource_name,
            match=NameMatch.MATCH,
            principal=query.principal,
        )
        return AclList([_info(rule) for rule in self._rules.find_rules(wanted)])

    @route("DELETE", "/admin/acls/{id}", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def delete(self, path: AclPath) -> AclInfo:
        """Delete a rule."""
        return _info(await self._rules.remove_rule(path.id))


def _info(rule: Rule) -> AclInfo:
    return AclInfo(
        id=rule.id,
        principal=rule.principal,
        resource_type=rule.resource.name.lower(),
        resource_name=rule.name,
        pattern_type=rule.pattern.name.lower(),
        operation=rule.operation.name.lower(),
        effect=rule.effect.value,
        host=rule.host,
    )

"""Rules by Kafka's own requests: CreateAcls, DescribeAcls, DeleteAcls.

Rules about tenants and about roles are GoQueue's own: Kafka's clients neither see nor make those
about tenants; a principal `role:NAME` they see as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.access.rights import Operation, PatternType, ResourceType
from goqueue.access.rule_filters import NameMatch, RuleFilter
from goqueue.access.rules import Effect, Rule
from goqueue.model.errors import GoQueueError, InvalidRuleError
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import ALTER, DESCRIBE, cluster
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_ANY: Final = 1
"""Kafka's number for no restriction, in every field of a filter."""
_EFFECTS: Final = {2: Effect.DENY, 3: Effect.ALLOW}
_EFFECT_NUMBERS: Final = {effect: number for number, effect in _EFFECTS.items()}
_FINE: Final = {"error_code": ErrorCode.none, "error_message": None}
_DISABLED: Final = {
    "error_code": ErrorCode.security_disabled,
    "error_message": "this server has no authorizer, and stores no rules: set auth.enabled",
}


def _uncreated(_ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    return {"results": [{"error_code": code, "error_message": None} for _ in request.creations]}


def _undeleted(_ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    answer: dict[str, Any] = {"error_code": code, "matching_acls": []}
    return {"filter_results": [answer for _ in request.filters]}


class AclsApi:
    """Shows and changes rules, where rights are checked."""

    def __init__(self, broker: Broker) -> None:
        self._rules = broker.access_administration
        self._authorizer = broker.authorizer

    @api(ApiKey.DESCRIBE_ACLS, right=cluster(DESCRIBE))
    def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """The rules that a filter takes, by resource."""
        if self._authorizer.is_open:
            return {**_DISABLED, "resources": []}
        try:
            found = self._find(request)
        except GoQueueError as error:
            return {**_refused(error), "resources": []}
        resources: dict[tuple[int, str, int], list[Rule]] = {}
        for rule in found:
            resources.setdefault((rule.resource, rule.name, rule.pattern), []).append(rule)
        return {
            **_FINE,
            "resources": [
                {
                    "resource_type": resource,
                    "resource_name": name,
                    "pattern_type": pattern,
                    "acls": [_entry(rule) for rule in rules],
                }
                for (resource, name, pattern), rules in resources.items()
            ],
        }

    @api(ApiKey.CREATE_ACLS, right=cluster(ALTER), on_error=_uncreated)
    async def create(self, ctx: RequestContext, request: Struct) -> Response:
        """One result for each rule."""
        if self._authorizer.is_open:
            return {"results": [_DISABLED for _ in request.creations]}
        return {"results": [await self._create(each) for each in request.creations]}

    async def _create(self, creation: Struct) -> dict[str, Any]:
        try:
            await self._rules.add_rules([_rule(creation)])
        except GoQueueError as error:
            return _refused(error)
        return dict(_FINE)

    @api(ApiKey.DELETE_ACLS, right=cluster(ALTER), on_error=_undeleted)
    async def delete(self, ctx: RequestContext, request: Struct) -> Response:
        """One result for each filter, with the rules that it took."""
        if self._authorizer.is_open:
            return {"filter_results": [{**_DISABLED, "matching_acls": []} for _ in request.filters]}
        return {"filter_results": [await self._delete(each) for each in request.filters]}

    async def _delete(self, wanted: Struct) -> dict[str, Any]:
        try:
            found = self._find(wanted)
            await self._rules.remove_rules(found)
        except GoQueueError as error:
            return {**_refused(error), "matching_acls": []}
        return {
            **_FINE,
            "matching_acls": [
                {
                    **_FINE,
                    "resource_type": rule.resource,
                    "resource_name": rule.name,
                    "pattern_type": rule.pattern,
                    **_entry(rule),
                }
                for rule in found
            ],
        }

    def _find(self, wanted: Struct) -> list[Rule]:
        found = self._rules.find_rules(_filter(wanted))
        return [rule for rule in found if rule.resource is not ResourceType.TENANT]


def _refused(error: GoQueueError) -> dict[str, Any]:
    return {"error_code": code_for(error), "error_message": str(error)}


def _entry(rule: Rule) -> dict[str, Any]:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission_type": _EFFECT_NUMBERS[rule.effect],
    }


def _rule(creation: Struct) -> Rule:
    try:
        rule = Rule(
            principal=creation.principal,
            resource=ResourceType(creation.resource_type),
            name=creation.resource_name,
            operation=Operation(creation.operation),
            effect=_EFFECTS[creation.permission_type],
            pattern=PatternType(creation.resource_pattern_type),
            host=creation.host,
        )
    except (ValueError, KeyError) as error:
        raise InvalidRuleError(
            "a rule with a resource type, pattern, operation or permission that does not exist; "
            "expected Kafka's numbers of those that a rule can have"
        ) from error
    if rule.resource is ResourceType.TENANT:
        raise InvalidRuleError("rules for tenants are made over HTTP or with `goqueue acl`")
    return rule


def _filter(wanted: Struct) -> RuleFilter:
    try:
        return RuleFilter(
            resource=_or_any(wanted.resource_type_filter, ResourceType),
            name=wanted.resource_name_filter,
            match=NameMatch(wanted.pattern_type_filter),
            principal=wanted.principal_filter,
            host=wanted.host_filter,
            operation=_or_any(wanted.operation, Operation),
            effect=None if wanted.permission_type == _ANY else _EFFECTS[wanted.permission_type],
        )
    except (ValueError, KeyError) as error:
        raise InvalidRuleError(
            "a filter with a resource type, pattern, operation or permission that does not exist"
        ) from error


def _or_any(number: int, kind: Any) -> Any:
    return None if number == _ANY else kind(number)

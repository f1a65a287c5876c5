"""Finding rules as Kafka's DescribeAcls and DeleteAcls describe them."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from goqueue.access.rights import ANY_NAME, Operation, PatternType, ResourceType
from goqueue.access.rules import Effect, Rule


class NameMatch(IntEnum):
    """How a filter reads the name that it gives. Numbers are Kafka's."""

    ANY = 1
    """The name of the rule, whatever its pattern."""
    MATCH = 2
    """A resource: every rule that applies to it."""
    LITERAL = 3
    PREFIXED = 4


class RuleFilter(msgspec.Struct, frozen=True):
    """Which rules are meant; None is any."""

    resource: ResourceType | None = None
    name: str | None = None
    match: NameMatch = NameMatch.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    effect: Effect | None = None

    def takes(self, rule: Rule) -> bool:
        """Whether a rule is meant."""
        return (
            self.resource in {None, rule.resource}
            and self.principal in {None, rule.principal}
            and self.host in {None, rule.host}
            and self.operation in {None, rule.operation}
            and self.effect in {None, rule.effect}
            and self._takes_name(rule)
        )

    def _takes_name(self, rule: Rule) -> bool:
        is_kind = self.match in {NameMatch.LITERAL, NameMatch.PREFIXED}
        if is_kind and int(rule.pattern) != int(self.match):
            return False
        if self.name is None or rule.name == self.name:
            return True
        if self.match is not NameMatch.MATCH:
            return False
        if rule.pattern is PatternType.PREFIXED:
            return self.name.startswith(rule.name)
        return rule.name == ANY_NAME

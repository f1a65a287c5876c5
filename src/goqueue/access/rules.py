"""Rules (Kafka's ACLs) as plain values, and the decision that they make together. Pure.

A rule allows or denies a principal an operation on the resources that its pattern names. What is
denied is denied, whatever else is allowed. Where no rule matches, the rules say nothing, and the
roles of the principal decide (`authorizer`).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.rights import (
    ANY_NAME,
    CLUSTER_NAME,
    IMPLIED_BY,
    OPERATIONS,
    Operation,
    PatternType,
    ResourceType,
    Right,
)
from goqueue.model.errors import InvalidRuleError
from goqueue.model.limits import MAX_RESOURCE_NAME_CHARS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

ANY_HOST: Final = "*"
EVERYBODY: Final = "User:*"
ROLE_PREFIX: Final = "role:"
_USER_PREFIX: Final = "User:"


class Effect(StrEnum):
    """What a rule does."""

    ALLOW = "allow"
    DENY = "deny"


class Rule(msgspec.Struct, frozen=True):
    """One rule."""

    principal: str
    """`User:alice`, `User:*`, or `role:producer` for everybody who has that role."""
    resource: ResourceType
    name: str
    """Of the resource; with `PREFIXED` how it starts, otherwise `*` is every name."""
    operation: Operation
    effect: Effect = Effect.ALLOW
    pattern: PatternType = PatternType.LITERAL
    host: str = ANY_HOST

    @property
    def id(self) -> str:
        """The same for the same rule, so that one that is made twice is there once."""
        said = msgspec.json.encode(msgspec.structs.astuple(self))
        return f"acl_{hashlib.sha256(said).hexdigest()[:16]}"

    def covers(self, operation: Operation) -> bool:
        """Whether it says something about an operation; an allowed one allows what it implies."""
        if self.operation in {operation, Operation.ALL}:
            return True
        return self.effect is Effect.ALLOW and self.operation in IMPLIED_BY.get(operation, ())


def check_rule(rule: Rule) -> None:
    """Hold a new rule to what one may be.

    Raises:
        InvalidRuleError: saying what is wrong with it and what was expected.
    """
    if not rule.principal.startswith((_USER_PREFIX, ROLE_PREFIX)) or rule.principal.endswith(":"):
        raise InvalidRuleError(
            f"the principal {rule.principal!r} of a rule, expected User:NAME, User:* or role:NAME"
        )
    if not 0 < len(rule.name) <= MAX_RESOURCE_NAME_CHARS:
        raise InvalidRuleError(
            f"a rule for a resource name of {len(rule.name)} characters, "
            f"expected 1 to {MAX_RESOURCE_NAME_CHARS}"
        )
    if not rule.host or len(rule.host) > MAX_RESOURCE_NAME_CHARS:
        raise InvalidRuleError("a rule without a host, expected an IP address or *")
    if rule.resource is ResourceType.CLUSTER and (
        rule.name != CLUSTER_NAME or rule.pattern is not PatternType.LITERAL
    ):
        raise InvalidRuleError(
            f"a rule for the cluster named {rule.name!r}, expected the literal {CLUSTER_NAME!r}"
        )
    possible = OPERATIONS[rule.resource]
    if rule.operation is not Operation.ALL and rule.operation not in possible:
        names = ", ".join(sorted(each.name for each in possible))
        raise InvalidRuleError(
            f"a rule for {rule.operation.name} on a {rule.resource.name}, "
            f"expected ALL or one of {names}"
        )


class RuleIndex:
    """Every rule, found by resource: a decision costs what the rules of its resource cost."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._literal: defaultdict[tuple[ResourceType, str], list[Rule]] = defaultdict(list)
        self._prefixed: defaultdict[tuple[ResourceType, str], list[Rule]] = defaultdict(list)
        self._of_type: defaultdict[ResourceType, list[Rule]] = defaultdict(list)
        lengths: defaultdict[ResourceType, set[int]] = defaultdict(set)
        hosts = set()
        for rule in rules:
            is_prefix = rule.pattern is PatternType.PREFIXED
            where = self._prefixed if is_prefix else self._literal
            where[rule.resource, rule.name].append(rule)
            self._of_type[rule.resource].append(rule)
            hosts.add(rule.host)
            if is_prefix:
                lengths[rule.resource].add(len(rule.name))
        self._lengths = {resource: sorted(found) for resource, found in lengths.items()}
        self.hosts = frozenset(hosts - {ANY_HOST})
        """Those that rules name: from all others a decision is the same."""

    def decide(self, labels: Collection[str], right: Right, name: str, host: str) -> bool | None:
        """Whether rules allow (True) or deny (False) it; None: they say nothing.

        `labels` are all that rules may call the principal by, also `User:*`.
        """
        allowed = None
        for rule in self._about(right.resource, name):
            if not _is_for(rule, labels, host) or not rule.covers(right.operation):
                continue
            if rule.effect is Effect.DENY:
                return False
            allowed = True
        return allowed

    def decide_any(self, labels: Collection[str], right: Right, host: str) -> bool | None:
        """Whether there may be a resource that rules allow it on; False: it is denied on all."""
        own = [
            rule
            for rule in self._of_type.get(right.resource, ())
            if _is_for(rule, labels, host) and rule.covers(right.operation)
        ]
        denied = [rule for rule in own if rule.effect is Effect.DENY]
        if any(_is_every_name(rule) for rule in denied):
            return False
        for rule in own:
            if rule.effect is Effect.ALLOW and not any(_includes(each, rule) for each in denied):
                return True
        return None

    def _about(self, resource: ResourceType, name: str) -> Iterator[Rule]:
        yield from self._literal.get((resource, name), ())
        if name != ANY_NAME:
            yield from self._literal.get((resource, ANY_NAME), ())
        for length in self._lengths.get(resource, ()):
            if length > len(name):
                return
            yield from self._prefixed.get((resource, name[:length]), ())


def _is_for(rule: Rule, labels: Collection[str], host: str) -> bool:
    return rule.principal in labels and rule.host in {ANY_HOST, host}


def _is_every_name(rule: Rule) -> bool:
    return rule.pattern is PatternType.LITERAL and rule.name == ANY_NAME


def _includes(wide: Rule, narrow: Rule) -> bool:
    """Whether every resource of one rule is one of another, too."""
    if _is_every_name(wide):
        return True
    if wide.pattern is PatternType.PREFIXED and not _is_every_name(narrow):
        return narrow.name.startswith(wide.name)
    return wide.pattern is narrow.pattern and wide.name == narrow.name

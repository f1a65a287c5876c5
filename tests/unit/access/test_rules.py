"""What rules decide, against a twin that reads Kafka's documentation word by word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from goqueue.access.rights import (
    CLUSTER_NAME,
    OPERATIONS,
    Operation,
    PatternType,
    ResourceType,
    Right,
)
from goqueue.access.rules import Effect, Rule, RuleIndex, check_rule
from goqueue.model.errors import InvalidRuleError
from support.effort import examples

NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "orders", "orders.eu", "ord"])
PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:*", "role:producer"])
HOSTS = st.sampled_from(["*", "10.0.0.1", "10.0.0.2"])
RESOURCES = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
RULES = st.builds(
    Rule,
    principal=PRINCIPALS,
    resource=RESOURCES,
    name=NAMES,
    operation=st.sampled_from(list(Operation)),
    effect=st.sampled_from(list(Effect)),
    pattern=st.sampled_from(list(PatternType)),
    host=HOSTS,
)
REQUESTED = st.sampled_from([each for each in Operation if each is not Operation.ALL])


RIGHTS = st.builds(Right, RESOURCES, REQUESTED)


def matches(rule: Rule, labels: set[str], right: Right, name: str, host: str) -> bool:
    if rule.principal not in labels or rule.resource != right.resource:
        return False
    if rule.host not in ("*", host):
        return False
    if rule.pattern is PatternType.PREFIXED:
        return name.startswith(rule.name)
    return rule.name in ("*", name)


def twin(rules: list[Rule], labels: set[str], right: Right, name: str, host: str) -> bool | None:
    """Kafka's words: any deny that matches denies; else any allow, also of what implies it."""
    wanted = right.operation
    own = [each for each in rules if matches(each, labels, right, name, host)]
    for rule in own:
        if rule.effect is Effect.DENY and rule.operation in (wanted, Operation.ALL):
            return False
    enough = {wanted, Operation.ALL}
    if wanted is Operation.DESCRIBE:
        enough |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if wanted is Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    for rule in own:
        if rule.effect is Effect.ALLOW and rule.operation in enough:
            return True
    return None


@settings(max_examples=examples(500))
@given(
    st.lists(RULES, max_size=12),
    st.sets(PRINCIPALS),
    RIGHTS,
    NAMES.filter(lambda name: name != "*"),
    HOSTS.filter(lambda host: host != "*"),
)
def test_the_index_decides_as_a_walk_over_all_rules(rules, labels, right, name, host) -> None:
    assert RuleIndex(rules).decide(labels, right, name, host) == twin(
        rules, labels, right, name, host
    )


@settings(max_examples=examples(500))
@given(st.lists(RULES, max_size=8), st.sets(PRINCIPALS), RESOURCES, REQUESTED)
def test_any_resource_is_allowed_if_some_name_is(rules, labels, resource, operation) -> None:
    """Names that rules mention, and one beyond each prefix, stand for all names there are."""
    right, host = Right(resource, operation), "10.0.0.1"
    names = {"unheard-of"} | {each.name for each in rules} | {f"{each.name}-x" for each in rules}
    decided = [twin(rules, labels, right, name, host) for name in names - {"*"}]
    found = RuleIndex(rules).decide_any(labels, right, host)
    if found:
        assert True in decided
    elif found is False:
        assert not any(decided)
    else:
        assert True not in decided


def test_a_rule_has_the_same_id_however_often_it_is_made() -> None:
    first = Rule("User:a", ResourceType.TOPIC, "t", Operation.READ)
    assert first.id == Rule("User:a", ResourceType.TOPIC, "t", Operation.READ).id
    assert first.id != Rule("User:a", ResourceType.TOPIC, "t", Operation.WRITE).id


@pytest.mark.parametrize(
    "rule",
    [
        Rule("alice", ResourceType.TOPIC, "t", Operation.READ),
        Rule("User:", ResourceType.TOPIC, "t", Operation.READ),
        Rule("User:a", ResourceType.TOPIC, "", Operation.READ),
        Rule("User:a", ResourceType.TOPIC, "t", Operation.CLUSTER_ACTION),
        Rule("User:a", ResourceType.GROUP, "t", Operation.WRITE),
        Rule("User:a", ResourceType.CLUSTER, "t", Operation.ALTER),
        Rule("User:a", ResourceType.TOPIC, "t", Operation.READ, host=""),
    ],
)
def test_a_rule_that_could_not_match_is_refused(rule) -> None:
    with pytest.raises(InvalidRuleError, match="expected"):
        check_rule(rule)


def test_rules_of_every_kind_of_resource_are_accepted() -> None:
    for resource, operations in OPERATIONS.items():
        name = CLUSTER_NAME if resource is ResourceType.CLUSTER else "x"
        for operation in (*operations, Operation.ALL):
            check_rule(Rule("role:x", resource, name, operation))

"""What `make test-cluster` leaves out: little, and each with a reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from support.one_node import MOST, ONE_NODE, OWN_NODE

PROTOCOL = Path(__file__).parents[1] / "protocol"


def test_few_tests_hold_for_one_node_alone_and_each_says_why() -> None:
    assert len(ONE_NODE) + len(OWN_NODE) <= MOST
    assert all(len(reason) > 20 for reason in [*ONE_NODE.values(), *OWN_NODE.values()])


def test_every_test_of_the_list_exists() -> None:
    for each in ONE_NODE:
        path, _, name = each.partition("::")
        tree = ast.parse((PROTOCOL / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, each


def test_nothing_but_the_list_is_left_out_of_a_cluster() -> None:
    """A test that looks at the variable itself could skip what is hard."""
    named = [
        str(path.relative_to(PROTOCOL))
        for path in PROTOCOL.rglob("*.py")
        if "GOQUEUE_TEST_CLUSTER" in path.read_text()
    ]
    assert named == []


def test_nothing_but_the_list_starts_one_node_in_place_of_a_cluster() -> None:
    """`make_server`, `running_nodes`, `guarded_server` and `own_broker` start what is wanted."""
    starts = re.compile(r"\b(?:ServerProcess|Broker|running_node)\(")
    own = {
        str(path.relative_to(PROTOCOL))
        for path in PROTOCOL.rglob("*.py")
        if starts.search(path.read_text())
    }
    assert own - {each.partition("::")[0] for each in ONE_NODE} == set(OWN_NODE)

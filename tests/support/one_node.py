"""Tests of the protocols that hold for one node alone, each with the reason.

`make test-cluster` runs all others against three nodes. A test belongs here only if what it says
does not exist in a cluster, not if it is hard to say of one; there may be ten at most.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST: Final = 10

ONE_NODE: Final = {
    "access/test_tenant_quotas.py::test_usage_survives_a_restart": (
        "it stops all nodes at once, so that the last to stop has no leader left that stores usage"
    ),
    "cli/test_topic_and_group.py::test_health_ends_with_an_error_when_a_check_fails": (
        "it gives a node a full disk, which a node of a cluster hands over what it leads for"
    ),
    "test_admin_apis.py::test_replicas_can_only_be_where_they_are": (
        "a cluster cannot move replicas to other nodes, and refuses the request as a whole"
    ),
    "test_idempotence.py::test_answers_that_get_lost_cost_neither_a_message_nor_a_repetition": (
        "its proxy stands before one node; `make test-chaos` kills and cuts off nodes of a cluster "
        "under idempotent producers of the same clients"
    ),
    "test_walks.py::test_a_batch_goes_to_the_disk_and_to_a_consumer_in_twelve_files": (
        "it compares docs/explanation/architecture.md, which tells the way through one node"
    ),
    "test_walks.py::test_a_queue_message_is_published_polled_and_acknowledged_in_fifteen_files": (
        "it compares the same page, and counts the files on the way through one node"
    ),
}
"""By the file under tests/protocol and the function of the test."""

OWN_NODE: Final = {
    "backup/conftest.py": (
        "each test has two brokers of its own; tests/cluster/test_cluster_backup.py has clusters"
    ),
    "cli/test_init_secure.py": "it runs the configuration that `goqueue init` makes for one node",
    "docs/test_docs_run.py": "a page is run as it is written, with the broker that it starts",
}
"""Files under tests/protocol that start one node also where the others have three."""


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Leave them out where the nodes are three."""
    if not os.environ.get("GOQUEUE_TEST_CLUSTER"):
        return
    for item in items:
        path, _, name = item.nodeid.partition("::")
        reason = ONE_NODE.get(f"{path.removeprefix('tests/protocol/')}::{name.partition('[')[0]}")
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))

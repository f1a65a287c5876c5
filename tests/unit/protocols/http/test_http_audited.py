"""Every route that changes something is in the audit log, or is what clients do with messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.protocols.http.audited import AUDITED
from goqueue.protocols.http.routes import build_router
from support.cluster_api import ApiNode
from support.cluster_brokers import one_of_three
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

OF_CLIENTS = {
    ("POST", "/groups/{group}/heartbeat"),
    ("POST", "/groups/{group}/heartbeat/cooperative"),
    ("POST", "/groups/{group}/join"),
    ("POST", "/groups/{group}/join/cooperative"),
    ("POST", "/groups/{group}/leave"),
    ("POST", "/groups/{group}/leave/cooperative"),
    ("POST", "/groups/{group}/offsets"),
    ("POST", "/groups/{group}/revoke"),
    ("POST", "/messages/ack"),
    ("POST", "/messages/ack/batch"),
    ("POST", "/messages/nack"),
    ("POST", "/messages/nack/batch"),
    ("POST", "/messages/reject"),
    ("POST", "/messages/reject/batch"),
    ("POST", "/messages/visibility"),
    ("POST", "/messages/visibility/batch"),
    ("POST", "/producers/init"),
    ("POST", "/producers/{producer_id}/heartbeat"),
    ("POST", "/topics/{topic}/messages"),
    ("POST", "/topics/{topic}/redriven/{partition}"),
    ("POST", "/transactions/add-partition"),
    ("POST", "/transactions/begin"),
    ("POST", "/transactions/commit"),
    ("POST", "/transactions/commit-together"),
    ("POST", "/transactions/offsets"),
    ("POST", "/transactions/publish"),
    ("PUT", "/pipelines/{name}"),
}
"""What clients do with messages, offsets and transactions of their own, and what they report."""
READING = {
    ("POST", "/compatibility/subjects/{subject}/versions"),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"),
    ("POST", "/schemas/compatibility/subjects/{subject}/versions"),
    ("POST", "/schemas/compatibility/subjects/{subject}/versions/{version}"),
    ("POST", "/schemas/subjects/{subject}"),
    ("POST", "/subjects/{subject}"),
}
"""What changes nothing, although it is not a GET."""


@scenario
async def test_routes_that_change_something_are_audited(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        node: Any = ApiNode(made)
        declared = {(each.route.method, each.route.path) for each in build_router(node).endpoints}
    assert AUDITED.keys() <= declared
    unheard = {(method, path) for method, path in declared - AUDITED.keys() if method != "GET"}
    assert unheard == OF_CLIENTS | READING

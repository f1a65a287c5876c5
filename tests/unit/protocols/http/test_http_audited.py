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

OF_CLIENTS = (
    "/messages/",
    "/producers/",
    "/transactions/",
    "/groups/{group}/join",
    "/groups/{group}/heartbeat",
    "/groups/{group}/revoke",
    "/groups/{group}/leave",
    "/groups/{group}/offsets",
    "/topics/{topic}/messages",
    "/topics/{topic}/redriven/",
    "/pipelines/{name}",
    "/compatibility/",
    "/subjects/{subject}",
    "/schemas/compatibility/",
    "/schemas/subjects/{subject}",
    "/admin/backup/{id}/verify",
)
"""What begins so and is not audited concerns messages, or changes nothing."""


@scenario
async def test_routes_that_change_something_are_audited(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        node: Any = ApiNode(made)
        declared = {(each.route.method, each.route.path) for each in build_router(node).endpoints}
    assert AUDITED.keys() <= declared
    unheard = {
        (method, path)
        for method, path in declared - AUDITED.keys()
        if method != "GET" and not path.startswith(OF_CLIENTS)
    }
    assert unheard == set()

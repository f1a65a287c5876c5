"""The HTTP API of one node, loaded with its first request: a start need not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.http.api.app import HttpApp
from goqueue.protocols.http.api.gate import Gate
from goqueue.protocols.http.audited import audited_app
from goqueue.protocols.http.schemas.contexts import without_context

if TYPE_CHECKING:
    from goqueue.protocols.http.api.router import Router
    from goqueue.protocols.http.api.served_node import ServedNode


def api_of(node: ServedNode) -> HttpApp:
    """Every route over one node."""

    def load() -> Router:
        from goqueue.protocols.http.routes import build_router  # noqa: PLC0415 - as said

        return build_router(node)

    broker = node.broker
    gate = Gate(broker)
    if broker.forwards is None:
        return audited_app(HttpApp(load, without_context, gate), broker.audit)
    from goqueue.protocols.http.api.cluster_app import ClusterApp  # noqa: PLC0415 - not alone

    app = ClusterApp(load, without_context, broker, broker.forwards, gate)
    return audited_app(app, broker.audit)

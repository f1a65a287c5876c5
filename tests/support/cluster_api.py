"""Requests over HTTP to the one node of a cluster that runs inside a test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.responses import Response
from goqueue.protocols.http.node_api import api_of

if TYPE_CHECKING:
    from support.cluster_brokers import OneOfThree


class ApiNode:
    """What routes know of a node."""

    def __init__(self, made: OneOfThree) -> None:
        self.broker = made.broker
        self.store = made.store
        self.maintenance = made.broker.maintenance()
        self.metrics = made.broker.metrics
        self.is_started = self.is_ready = True
        self.uptime_s = 1.0
        self.connection_count = 0
        self.degradation = None


class NodeApi:
    """The HTTP API of a node of a cluster, without a socket."""

    def __init__(self, made: OneOfThree) -> None:
        node: Any = ApiNode(made)
        self._app = api_of(node)

    async def ask(self, method: str, path: str, body: Any = None, **marks: Any) -> tuple[int, Any]:
        """A request of a client; with `marks` one that another node has forwarded."""
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path.encode(), {}, data, **marks)
        answer = await self._app.answer(request, self._app.match(request))
        assert isinstance(answer, Response)
        return answer.status, json.loads(answer.body) if answer.body else None

"""A plain HTTP client for tests: one connection, JSON in and out, nothing hidden."""

from __future__ import annotations

import http.client
import json
import time
from itertools import cycle
from typing import Any, NamedTuple

from support.server import siblings

HOST = "127.0.0.1"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The stable code of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        problem = self.json
        assert problem["status"] == self.status
        assert problem["error"] == problem["detail"]
        return str(problem["code"])


KEPT_S = 20.0
"""A server closes a connection that nothing comes over for a minute."""


class HttpApi:
    """Keeps its connection from request to request; a cluster has one to each node, in turn."""

    def __init__(self, port: int) -> None:
        self._connections = [
            http.client.HTTPConnection(HOST, each, timeout=150) for each in siblings(port)
        ]
        self._turns = cycle(self._connections)
        self.node_count = len(self._connections)
        self._used_s = time.monotonic()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        if time.monotonic() - self._used_s > KEPT_S:
            self.close()  # and another one is made
        data = raw if body is None else json.dumps(body).encode()
        connection = next(self._turns)
        connection.request(method, path, data, headers or {})
        with connection.getresponse() as response:  # closed also when the server dies
            found = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, found, response.read())
        self._used_s = time.monotonic()
        return answer

    def get(self, path: str) -> Any:
        """The JSON of a GET that must succeed."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str, body: Any = None) -> Any:
        """The JSON of a POST that must succeed."""
        answer = self.ask("POST", path, body)
        assert answer.status in {200, 201}, answer
        return answer.json

    def publish(self, topic: str, *values: str, **fields: Any) -> list[dict[str, Any]]:
        messages = [{"value": value, **fields} for value in values]
        results: list[dict[str, Any]] = self.post(
            f"/topics/{topic}/messages", {"messages": messages}
        )["results"]
        return results

    def metrics(self) -> str:
        """What every node tells Prometheus."""
        return "".join(self.ask("GET", "/metrics").body.decode() for _ in self._connections)

    def close(self) -> None:
        for each in self._connections:
            each.close()

"""A plain HTTP client for tests: one connection, JSON in and out, nothing hidden."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any, NamedTuple

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
    """Keeps its connection from request to request."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=150)
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
        self._connection.request(method, path, data, headers or {})
        with self._connection.getresponse() as response:  # closed also when the server dies
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

    def close(self) -> None:
        self._connection.close()

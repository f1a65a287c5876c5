"""Members of a queue group over HTTP, on whichever node of a cluster serves them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goqueue.testing.cluster import Cluster

WITHIN_S: Final = 90.0
_MOVING: Final = (500, 501, 502, 503, 504)
"""What is answered where a group is not, or not yet."""


class RefusedError(Exception):
    """An answer that trying elsewhere does not change."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


def call(
    url: str, method: str, path: str, body: object = None, *, timeout_s: float = 10.0
) -> tuple[int, Any]:
    """One request; its status and what was answered."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        text = error.read()
        try:
            return error.code, json.loads(text)
        except ValueError:
            return error.code, text.decode(errors="replace")


class QueueClient:
    """Sends requests to the nodes in turn, until one serves them."""

    def __init__(self, cluster: Cluster, nodes: Sequence[int] = (1, 2, 3)) -> None:
        self.cluster = cluster
        self.nodes = list(nodes)
        self.retries = 0

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        within_s: float = WITHIN_S,
    ) -> Any:
        """The answer of the node that serves it; it is found by trying."""
        deadline = time.monotonic() + within_s
        told: Any = None
        while True:
            for node in list(self.nodes):
                try:
                    status, told = call(self.cluster.http_url(node), method, path, body)
                except OSError as error:
                    told = error
                else:
                    if status < 300:
                        self.nodes.remove(node)
                        self.nodes.insert(0, node)  # most likely it serves the next one too
                        return told
                    if status not in _MOVING:
                        raise RefusedError(status, told)
                self.retries += 1
            if time.monotonic() > deadline:
                raise AssertionError(f"{method} {path} is not served: {told}")
            time.sleep(0.05)

    def join(self, group: str, topic: str, **settings: object) -> str:
        """Become a member of a queue group; its id."""
        body = {"topics": [topic], **settings}
        member: str = self.ask("POST", f"/groups/{group}/join", body)["member_id"]
        return member

    def poll(
        self, group: str, member: str, limit: int = 100, timeout: str = "300ms"
    ) -> list[dict[str, Any]]:
        """Some messages."""
        query = urlencode({"member_id": member, "limit": limit, "timeout": timeout})
        found: list[dict[str, Any]] = self.ask("GET", f"/groups/{group}/poll?{query}")["messages"]
        return found

    def settle(self, verdict: str, receipts: Sequence[str], **said: object) -> list[dict[str, Any]]:
        """Say what became of messages; what is answered of each."""
        body = {"receipt_handles": list(receipts), **said}
        results: list[dict[str, Any]] = self.ask("POST", f"/messages/{verdict}/batch", body)[
            "results"
        ]
        return results

    def settled(self, verdict: str, receipts: Sequence[str], **said: object) -> Iterator[str]:
        """Say it until every receipt has an answer; those that count, now or already."""
        left = list(receipts)
        deadline = time.monotonic() + WITHIN_S
        while left:
            assert time.monotonic() < deadline, f"not answered: {left[:3]}"
            again = []
            for each in self.settle(verdict, left, **said):
                if each["status"] == 200:
                    yield each["receipt_handle"]
                elif each["status"] in _MOVING:
                    again.append(each["receipt_handle"])
            left = again
            if left:
                time.sleep(0.05)

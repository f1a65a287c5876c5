"""Requests over HTTP to the nodes of a cluster, one by one, and what a client may do about them."""

from __future__ import annotations

import http.client
import json
from typing import Any, NamedTuple

from goqueue.testing import Cluster
from support.waiting import eventually

NODES = (1, 2, 3)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def is_retriable(self) -> bool:
        """What a client may act on: try again, and when."""
        return self.status == 503 and self.body["retriable"] and "retry-after" in self.headers


class Nodes:
    """Requests to the nodes of a cluster, one by one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def ask(
        self,
        node: int,
        method: str,
        path: str,
        body: Any = None,
        timeout_s: float = 120.0,
        **headers: str,
    ) -> Answer:
        host = self.cluster.http_url(node).removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=timeout_s)
        try:
            data = json.dumps(body).encode() if isinstance(body, dict) else body
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            text = answer.read()
            is_json = "json" in told.get("content-type", "")
            return Answer(answer.status, told, json.loads(text) if text and is_json else text)
        finally:
            connection.close()

    def surely(self, node: int, method: str, path: str, body: Any = None) -> Any:
        """The same for a client that tries again when it is told to."""
        answers = []

        def is_done() -> bool:
            answers.append(self.ask(node, method, path, body))
            assert answers[-1].status < 300 or answers[-1].is_retriable, answers[-1]
            return answers[-1].status < 300

        eventually(is_done, timeout_s=60)
        return answers[-1].body

    def known(self, node: int, topic: str) -> None:
        """Wait until a node has heard of a topic."""
        eventually(lambda: self.ask(node, "GET", f"/topics/{topic}").status == 200)

    def coordinator(self, group: str, asked: int = 1) -> int:
        path = f"/admin/coordinators/groups/{group}"
        found = []

        def is_known() -> bool:
            found.append(self.surely(asked, "GET", path)["node_id"])
            return found[-1] > 0

        eventually(is_known, timeout_s=60)
        return found[-1]

    def commit(self, node: int, group: str, topic: str, offset: int) -> Answer:
        body = {"offsets": {topic: {"0": offset}}}
        return self.ask(node, "POST", f"/groups/{group}/offsets", body)

    def remote_group(self) -> tuple[str, int, int]:
        """A group, the node that coordinates it, and one that does not."""
        group = Cluster.unique_name()
        there = self.coordinator(group)
        return group, there, next(each for each in NODES if each != there)

    def group_at(self, node: int) -> str:
        """A name for a group that a node coordinates."""
        for number in range(1000):
            name = f"{Cluster.unique_name()}-{number}"
            if self.coordinator(name, node) == node:
                return name
        raise AssertionError(f"node {node} coordinates nothing")

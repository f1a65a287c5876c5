"""Clients that register schemas on any node, two at a time the same one, and read them on all."""

from __future__ import annotations

import json
import random
import threading
import time
from http.client import HTTPException
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from support.cluster_queue import call
from support.oracles.schemas import Read, Registered, Versions, judge
from support.workloads.base import DRAIN_S, Client, Workload

if TYPE_CHECKING:
    from support.cluster_nodes import ClusterNodes
    from support.history import Finding

SUBJECTS: Final = 4
PAUSE_S: Final = 0.1
_AWAY: Final = (0, 408, 429, 500, 502, 503, 504)
"""What a node answers that cannot say, and none at all."""


def schema_of(number: int) -> str:
    """The n-th schema, as every client writes it."""
    fields = [{"name": f"f{number}", "type": ["null", "long"], "default": None}]
    return json.dumps({"type": "record", "name": "Order", "fields": fields}, sort_keys=True)


def as_written(schema: str) -> str:
    """A schema as `schema_of` writes it, however the registry does."""
    return json.dumps(json.loads(schema), sort_keys=True)


class Registrar(Client):
    """Registers the next schema, until that is acknowledged, and reads it on every node."""

    def __init__(self, workload: Schemas, name: str, seed: int) -> None:
        super().__init__(name)
        self._workload = workload
        self._luck = random.Random(seed)

    def work(self, name: str) -> None:
        while not self.stopping.wait(PAUSE_S):
            number = self._workload.number
            subject = f"orders-{self._luck.randrange(SUBJECTS)}"
            schema = schema_of(number)
            body = {"schema": schema}
            path = f"/subjects/{subject}/versions"
            status, answer = self._workload.ask(self._luck.choice((1, 2, 3)), "POST", path, body)
            if status == 200:
                self._workload.registered.append(Registered(subject, schema, answer["id"]))
                self._read(answer["id"])
                self._workload.passed(number)
            elif status not in _AWAY:
                raise RuntimeError(f"{path}: {status} {answer}")

    def _read(self, schema_id: int) -> None:
        for node in (1, 2, 3):
            status, answer = self._workload.ask(node, "GET", f"/schemas/ids/{schema_id}")
            if status == 200:
                self._workload.reads.append(Read(node, schema_id, as_written(answer["schema"])))
            elif status not in _AWAY:
                self._workload.reads.append(Read(node, schema_id, None))
                self.errors.append(f"{schema_id} on node {node}: {status} {answer}")


class Schemas(Workload):
    """Three registrars."""

    def __init__(self, cluster: ClusterNodes, seed: int) -> None:
        self._cluster = cluster
        self._numbers = count(1)
        self._lock = threading.Lock()
        self.number = 0
        """The schema that everybody registers now."""
        self.registered: list[Registered] = []
        self.reads: list[Read] = []
        self.topics = {}
        self.clients = [Registrar(self, f"registrar-{n}", seed + n) for n in range(3)]

    def prepare(self) -> None:
        """Let schemas differ as they like."""
        deadline = time.monotonic() + DRAIN_S
        while self.ask(1, "PUT", "/config", {"compatibility": "NONE"})[0] != 200:
            assert time.monotonic() < deadline, "the registry does not answer"
            time.sleep(0.2)

    def passed(self, number: int) -> None:
        """A schema is registered: the next one is for all."""
        with self._lock:
            if number == self.number and random.random() < 0.5:
                self.number = next(self._numbers)

    def ask(self, node: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request to one node; 0 when it does not answer."""
        try:
            return call(self._cluster.http_url(node), method, path, body, timeout_s=5.0)
        except (OSError, HTTPException):
            return 0, None

    def done(self) -> dict[str, int]:
        return {"registrations": len(self.registered)}

    def finish(self) -> list[Finding]:
        self.stop()
        for number in range(1, 4):  # once more each, on whichever node: nothing is made anew
            schema = schema_of(number)
            for node in (1, 2, 3):
                answer = self._surely(node, "POST", "/subjects/orders-0/versions", schema)
                self.registered.append(Registered("orders-0", schema, answer["id"]))
        listed = {node: self._versions(node) for node in (1, 2, 3)}
        return judge(self.registered, self.reads, listed)

    def _versions(self, node: int) -> Versions:
        found: Versions = {}
        for subject in self._surely(node, "GET", "/subjects"):
            numbers = self._surely(node, "GET", f"/subjects/{subject}/versions")
            versions = [
                self._surely(node, "GET", f"/subjects/{subject}/versions/{number}")
                for number in numbers
            ]
            found[subject] = [
                (each["version"], each["id"], as_written(each["schema"])) for each in versions
            ]
        return found

    def _surely(self, node: int, method: str, path: str, schema: str | None = None) -> Any:
        deadline = time.monotonic() + DRAIN_S
        body = None if schema is None else {"schema": schema}
        while True:
            status, answer = self.ask(node, method, path, body)
            if status == 200:
                return answer
            assert time.monotonic() < deadline, f"{method} {path} on {node}: {status} {answer}"
            time.sleep(0.2)

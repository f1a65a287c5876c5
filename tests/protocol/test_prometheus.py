"""A real Prometheus scrapes a broker under load: every rule and every panel finds its series.

The broker lives through everything once, so that each of its metrics exists, and goes on publishing
while it is watched. Of an alert, what it looks at is asked for without its threshold (see
`support.promql.without_thresholds`), and every series that it starts from on its own: an alert over
a series that nobody records would be silent for ever.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka import Producer

from support.clocks import ManualClock
from support.everything import live_through_everything, node_with_a_past
from support.promql import (
    ROOT,
    dashboard_queries,
    rules,
    selectors,
    tool,
    without_thresholds,
)
from support.server import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goqueue.server.node import Node

INTERVAL = "2s"
"""Also what a scrape may take, which is far less."""
VARIABLES = {
    "$__rate_interval": "1m",
    "$__range": "1m",
    "$node": ".*",
    "$topic": ".*",
    "$group": ".*",
    "$target": "99.9",
}
PATIENCE_S = 120


class BusyNode:
    """A node in a thread of its own that everything has happened to, and that is published to."""

    def __init__(self, folder: Path) -> None:
        self._clock = ManualClock(round(time.time() * 1000))  # the client stamps its messages
        self.node: Node = node_with_a_past(folder, self._clock)
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._ready.set()

    async def _live(self) -> None:
        await self.node.start()
        try:
            await live_through_everything(self.node, self._clock)
            self._ready.set()
            await asyncio.to_thread(self._produce)
        finally:
            await self.node.stop()

    def _produce(self) -> None:
        """Load, from a client that nobody here wrote, until the test is done."""
        producer = Producer({"bootstrap.servers": f"{HOST}:{self.node.kafka.port}"})
        while not self._stopping.is_set():
            for number in range(100):
                producer.produce("t", b"x" * 100, key=str(number))
            producer.flush(PATIENCE_S)
            self._stopping.wait(0.05)


class Prometheus:
    """A server of the package, with the rules that we ship."""

    def __init__(self, folder: Path, target_port: int) -> None:
        self._port = free_port()
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump(_config(target_port)), encoding="utf-8")
        command = [
            tool("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={HOST}:{self._port}",
            "--log.level=warn",
        ]
        self._process = subprocess.Popen(command)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        url = f"http://{HOST}:{self._port}/api/v1/{path}?{query}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)["data"]

    def query(self, expr: str) -> list[Any]:
        try:
            found: list[Any] = self.get("query", query=expr)["result"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                raise  # it starts
            pytest.fail(f"{expr}: {error.read().decode()}")
        return found

    def wait_until_it_has_seen(self, *exprs: str) -> None:
        """Series are not found while a scrape was too slow, and are again after the next one."""
        deadline_s = time.monotonic() + PATIENCE_S
        missing = exprs
        while missing:
            assert time.monotonic() < deadline_s, missing
            with suppress(OSError):  # it does not listen yet
                missing = tuple(expr for expr in missing if not self.query(expr))
            time.sleep(0.1)


def _config(target_port: int) -> dict[str, Any]:
    """What we ship, in a hurry and for this broker."""
    path = ROOT / "deploy/prometheus/prometheus.yml"
    config: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    config["global"]["scrape_timeout"] = INTERVAL
    config["rule_files"] = [str(path.parent / name) for name in config["rule_files"]]
    del config["alerting"]
    (job,) = [job for job in config["scrape_configs"] if job["job_name"] == "goqueue"]
    job["static_configs"] = [{"targets": [f"{HOST}:{target_port}"]}]
    config["scrape_configs"] = [job]
    return config


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    tool("prometheus")
    busy = BusyNode(tmp_path_factory.mktemp("broker"))
    busy.start()
    try:
        server = Prometheus(tmp_path_factory.mktemp("prometheus"), busy.node.http.port)
        try:
            # Rates need two scrapes; a rule over a recorded series needs the one before it.
            server.wait_until_it_has_seen(
                'sum_over_time(up{job="goqueue"}[1m]) > 2',
                *(rule.name for rule in rules() if "record" in rule.fields),
                "rate(goqueue_broker_messages_published_total[1m])",
            )
            yield server
        finally:
            server.stop()
    finally:
        busy.stop()


def test_every_rule_can_be_evaluated(prometheus: Prometheus) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        found = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        assert len(found) == len(rules())
        bad = [rule for rule in found if rule["health"] != "ok"]
        if not bad:
            break
        # Each is evaluated every two seconds, and is unknown before that.
        assert {rule["health"] for rule in bad} == {"unknown"}, bad
        assert time.monotonic() < deadline_s, bad
        time.sleep(0.1)


def test_every_alert_and_recording_rule_finds_its_series(prometheus: Prometheus) -> None:
    prometheus.wait_until_it_has_seen(
        *(
            expr
            for rule in rules()
            for expr in [*without_thresholds(rule.expr), *selectors(rule.expr)]
        )
    )


def test_every_panel_and_every_choice_finds_its_series(prometheus: Prometheus) -> None:
    queries = [expr for _, expr in dashboard_queries()]
    assert len(queries) > 100
    for name, value in VARIABLES.items():
        queries = [expr.replace(name, value) for expr in queries]
    prometheus.wait_until_it_has_seen(*queries)


def test_the_load_is_seen_and_the_broker_is_well(prometheus: Prometheus) -> None:
    alarming = 'ALERTS{alertname=~"GoQueue(NodeDown|BrokerDown|NodeUnhealthy)"}'
    prometheus.wait_until_it_has_seen(
        "sum(rate(goqueue_broker_messages_published_total[1m])) > 0",
        "goqueue_cluster_nodes_healthy == 1",
        f"absent({alarming})",  # one scrape that was too slow has them wait for the next
    )

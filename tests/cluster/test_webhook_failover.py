"""A webhook of a cluster: one node delivers, and when it is killed another goes on."""

from __future__ import annotations

import time
from contextlib import suppress
from http.client import HTTPException
from itertools import cycle
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from goqueue.testing.cluster import Cluster
from support.etcd import need_etcd
from support.http_api import HttpApi
from support.waiting import eventually
from support.webhook_target import WebhookTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SETTINGS = {"webhooks.enabled": True, "webhooks.allow_private": True}
QUICK = {"timeout": "1s", "backoff": "50ms", "max_backoff": "200ms", "max_retries": 249}
WITHIN_S = 120.0
NODES = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3, settings=SETTINGS) as made:
        yield made


def ask(cluster: Cluster, method: str, path: str, body: Any = None) -> Any:
    """Ask one node after the other until one has done it."""
    deadline = time.monotonic() + WITHIN_S
    nodes = cycle(NODES)
    while True:
        assert time.monotonic() < deadline, f"nobody answers {method} {path}"
        node = next(nodes)
        with suppress(OSError, HTTPException):
            api = HttpApi(urlsplit(cluster.http_url(node)).port or 0)
            answer = api.ask(method, path, body)
            api.close()
            if answer.status < 300:
                return answer.json
            if method == "POST" and answer.status == 409:
                return None  # the attempt before has done it
            assert answer.status >= 500, answer
        time.sleep(0.1)


def test_another_node_goes_on_where_the_killed_one_stopped(cluster: Cluster) -> None:
    with WebhookTarget() as target:
        made = ask(
            cluster,
            "POST",
            "/admin/webhooks",
            {"url": target.url, "events": ["topic.created"], **QUICK},
        )
        path = f"/admin/webhooks/{made['id']}"
        names = [f"before-{number}" for number in range(3)]
        for each in names:
            ask(cluster, "POST", "/topics", {"name": each, "num_partitions": 1})

        def taken() -> list[str]:
            events = {event["id"]: event for event in target.taken}
            return [each["data"]["topic"] for each in events.values()]

        eventually(lambda: taken() == names, "all events", WITHIN_S)
        assert len(target.received) == 3, "one node delivers"
        for node in NODES:
            api = HttpApi(urlsplit(cluster.http_url(node)).port or 0)
            assert api.get(path)["url"] == target.url
            assert len(api.get(f"{path}/deliveries")["deliveries"]) == 3, "from every node"
            api.close()
        assert ask(cluster, "POST", f"{path}/test")["outcome"] == "delivered"

        for turn, victim in enumerate(NODES):  # one of them delivers
            target.stop()
            later = [f"turn-{turn}-{number}" for number in range(3)]
            for each in later:
                ask(cluster, "POST", "/topics", {"name": each, "num_partitions": 1})
            names += later
            cluster.kill(victim)
            target.start()
            eventually(lambda: taken() == names, "all events, in order", WITHIN_S)  # noqa: B023 - at once
            cluster.start(victim)
        assert all(each.is_signed_with(made["secret"]) for each in target.received)
        ask(cluster, "DELETE", path)

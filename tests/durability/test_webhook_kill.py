"""`kill -9` and restarts of a broker whose webhook's target is away: nothing lost, order kept."""

from __future__ import annotations

import random
from contextlib import suppress
from http.client import HTTPException
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from support.http_api import HttpApi
from support.server import make_server
from support.waiting import eventually
from support.webhook_target import WebhookTarget

if TYPE_CHECKING:
    from pathlib import Path

    from support.server import ServerProcess

FLAGS = ("--webhooks-enabled", "--webhooks-allow-private")
WEBHOOK = {
    "events": ["topic.created", "broker.ready", "broker.shutdown"],
    "timeout": "1s",
    "max_retries": 249,
    "backoff": "20ms",
    "max_backoff": "200ms",
}


def make_topics(server: ServerProcess, stem: str, count: int) -> list[str]:
    """Make topics; the names of those whose creation was acknowledged."""
    made = []
    api = HttpApi(server.http_port)
    with suppress(OSError, HTTPException):
        for number in range(count):
            name = f"{stem}-{number}"
            if api.ask("POST", "/topics", {"name": name, "num_partitions": 1}).status == 201:
                made.append(name)
    api.close()
    return made


def first_times(target: WebhookTarget) -> list[dict[str, Any]]:
    """The events that were taken, each once, in the order of the first time."""
    return list({event["id"]: event for event in target.taken}.values())


def created(target: WebhookTarget) -> list[str]:
    events = [each for each in first_times(target) if each["type"] == "topic.created"]
    return [each["data"]["topic"] for each in events]


@pytest.mark.timeout(300)
def test_each_event_arrives_in_order_whatever_is_killed_and_however_long_the_target_is_away(
    tmp_path: Path,
) -> None:
    luck = random.Random(20)
    target = WebhookTarget()
    server = make_server(tmp_path / "data", *FLAGS).start()
    api = HttpApi(server.http_port)
    made = api.post("/admin/webhooks", {"url": target.url, **WEBHOOK})
    api.close()
    acknowledged: list[str] = []
    for turn in range(4):  # the target is away in the first two turns
        acknowledged += make_topics(server, f"turn-{turn}", 3)
        if turn == 1:
            target.start()
        if turn == 2:
            eventually(lambda: target.received, "it was called")
            target.stop()
        if luck.random() < 0.5 or turn == 0:
            server.kill()
        else:
            server.stop()
        server.restart()
        if turn == 2:
            target.start()
    acknowledged += make_topics(server, "last", 2)
    eventually(lambda: set(acknowledged) <= set(created(target)), "all events")
    assert created(target) == acknowledged
    kinds = [each["type"] for each in first_times(target)]
    assert kinds.count("broker.ready") == 4
    assert all(each.is_signed_with(made["secret"]) for each in target.received)
    events = first_times(target)
    assert all(one["timestamp"] <= two["timestamp"] for one, two in pairwise(events))
    server.close()
    target.stop()

"""Ten minutes without the target of a webhook with the usual back-off, and a restart in between."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from support.http_api import HttpApi
from support.server import make_server
from support.waiting import eventually
from support.webhook_target import WebhookTarget

if TYPE_CHECKING:
    from pathlib import Path

AWAY_S = 600.0
RETRY_S = 60.0
"""The longest back-off of an endpoint that says none."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_events_of_ten_minutes_without_a_target_arrive_in_order(tmp_path: Path) -> None:
    target = WebhookTarget()  # which refuses connections
    server = make_server(tmp_path / "data", "--webhooks-enabled", "--webhooks-allow-private")
    server.start()
    api = HttpApi(server.http_port)
    api.post("/admin/webhooks", {"url": target.url, "events": ["topic.created"]})
    began = time.monotonic()
    names = []
    while time.monotonic() - began < AWAY_S:
        names.append(f"topic-{len(names)}")
        made = api.ask("POST", "/topics", {"name": names[-1], "num_partitions": 1})
        assert made.status == 201, made
        time.sleep(AWAY_S / 20)
        if len(names) == 10:
            api.close()
            server.restart()
    target.start()
    eventually(lambda: len(_first_times(target)) == len(names), "all events", 2 * RETRY_S)
    assert [each["data"]["topic"] for each in _first_times(target)] == names
    ids = {each["data"]["topic"]: each["id"] for each in target.taken}
    assert all(each["id"] == ids[each["data"]["topic"]] for each in target.taken)
    (hook,) = api.ask("GET", "/admin/webhooks").json["webhooks"]
    dead = api.ask("GET", f"/admin/webhooks/{hook['id']}/dead")
    assert dead.status == 200, dead
    assert dead.json["events"] == []
    api.close()
    server.close()
    target.stop()


def _first_times(target: WebhookTarget) -> list[dict[str, Any]]:
    """The events that were taken, each once, in the order of the first time."""
    return list({event["id"]: event for event in target.taken}.values())

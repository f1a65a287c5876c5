"""The node at a glance: what it says is what there is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.http_api import HttpApi


def overview(api: HttpApi, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first overview that is as expected; one is kept for a second."""
    deadline = time.monotonic() + 90
    while True:
        found: dict[str, Any] = api.get("/overview")
        if until(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_an_overview_has_all_that_a_first_page_shows(api: HttpApi) -> None:
    found = api.get("/overview")
    assert found["health"]["status"] == "ready"
    assert set(found["health"]["checks"].values()) == {"ok"}
    assert found["version"] == api.get("/version")["version"]
    assert found["uptime_ms"] > 0
    assert set(found["rates"]) == {
        *("published_per_s", "consumed_per_s", "acked_per_s", "failed_per_s"),
        *("bytes_in_per_s", "bytes_out_per_s"),
    }
    assert set(found["latency_ms"]["publish"]) == {"p50", "p95", "p99"}
    assert found["disk"]["used_bytes"] + found["disk"]["free_bytes"] == found["disk"]["total_bytes"]
    assert found["process"]["rss_bytes"] > 10_000_000
    assert 0 < found["process"]["open_files"] < found["process"]["max_open_files"]
    assert found["history"]["step_ms"] == 5000
    assert found["totals"]["connections"] >= 1


def test_totals_count_what_there_is(api: HttpApi, topic: str) -> None:
    before = api.get("/overview")["totals"]
    api.publish(topic, "a", "b", "c")
    api.publish(topic, "later", delay="1h")
    api.ask("POST", f"/groups/{topic}-group/offsets", {"offsets": {topic: {"0": 0}}})

    def is_there(found: dict[str, Any]) -> bool:
        api.publish(topic, "d")  # rates look back over a few seconds only
        is_counted: bool = found["totals"]["groups"] > before["groups"]
        return is_counted and found["rates"]["published_per_s"] > 0

    found = overview(api, is_there)
    assert found["totals"]["messages"] >= 3
    assert found["totals"]["topics"] >= 1
    assert found["totals"]["partitions"] >= 2
    assert found["totals"]["delayed"] >= 1
    assert found["totals"]["bytes"] > 0
    assert found["latency_ms"]["publish"]["p99"] > 0


@pytest.mark.parametrize("state", ["failed", "lost"])
def test_a_pipeline_in_trouble_needs_attention(
    api: HttpApi, name: Callable[[str], str], state: str
) -> None:
    pipeline = name('<img src=x onerror="alert(1)">/..')
    said = {"state": "failed" if state == "failed" else "running", "interval_ms": 100}
    path = f"/pipelines/{quote(pipeline, safe='')}"
    assert api.ask("PUT", path, {**said, "error": "no such column"}).status == 200

    def mine(found: dict[str, Any]) -> list[dict[str, Any]]:
        link = f"/console/pipelines/{quote(pipeline, safe='')}"
        return [each for each in found["attention"] if each["link"] == link]

    found = overview(api, lambda each: bool(mine(each)))
    (line,) = mine(found)
    assert (line["severity"], pipeline in line["title"]) == ("critical", True)
    assert state in line["title"]
    api.ask("DELETE", path)
    assert not mine(overview(api, lambda each: not mine(each)))


def test_the_history_of_a_group_has_its_lag(api: HttpApi, topic: str, group: str) -> None:
    api.publish(topic, *"abc", partition=0)
    api.ask("POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 1}}})
    found = api.get(f"/groups/{group}/history")
    assert (found["group"], found["step_ms"]) == (group, 5000)
    assert len(found["lag"]) == len(found["committed_per_s"]) == len(found["published_per_s"])
    assert api.ask("GET", "/groups/nobody/history").code == "unknown_group"

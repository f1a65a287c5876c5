"""Pipelines report of themselves; the newest report of each is there, also after `kill -9`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from support.http_api import HttpApi
from support.server import ServerProcess, make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOSTILE = '<script>alert("1")</script>\x00\x1b[31m\u202e / ? # ü 😀'


def report(**fields: Any) -> dict[str, Any]:
    query = {"name": "totals", "state": "running", "sink": "topic revenue", "sources": ["orders"]}
    return {
        "state": "running",
        "started_at": 1,
        "host": "driver-1",
        "pid": 42,
        "master": "local[2]",
        "interval_ms": 10_000,
        "queries": [{**query, "batch_id": 7, "rows": 100, "rows_per_second": 12.5, "lag": 3}],
        **fields,
    }


@pytest.fixture
def pipeline(name: Callable[[str], str]) -> str:
    return name("pipeline")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = make_server(tmp_path / "data").start()
    yield process
    process.close()


def put(api: HttpApi, pipeline: str, **fields: Any) -> dict[str, Any]:
    answer = api.ask("PUT", f"/pipelines/{quote(pipeline, safe='')}", report(**fields))
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def test_a_report_replaces_the_one_before(api: HttpApi, pipeline: str) -> None:
    first = put(api, pipeline)
    second = put(api, pipeline, state="failed", error="no more disk")
    found = api.get(f"/pipelines/{pipeline}")
    assert found == second
    assert found["updated_at"] >= first["updated_at"]
    assert (found["name"], found["state"], found["error"]) == (pipeline, "failed", "no more disk")
    assert found["queries"][0]["rows_per_second"] == 12.5
    assert found["queries"][0]["watermark"] is None
    listed = api.get("/pipelines")["pipelines"]
    assert [each for each in listed if each["name"] == pipeline] == [found]


def test_a_pipeline_that_is_silent_for_three_intervals_is_lost(api: HttpApi, pipeline: str) -> None:
    put(api, f"{pipeline}-done", interval_ms=100, state="finished")
    assert put(api, pipeline, interval_ms=100)["state"] == "running"
    while api.get(f"/pipelines/{pipeline}")["state"] == "running":
        time.sleep(0.02)  # it was heard of just now; this takes 300 ms
    assert api.get(f"/pipelines/{pipeline}")["state"] == "lost"
    assert api.get(f"/pipelines/{pipeline}-done")["state"] == "finished"


def test_a_deleted_pipeline_is_unknown_until_it_reports_again(api: HttpApi, pipeline: str) -> None:
    put(api, pipeline)
    assert api.ask("DELETE", f"/pipelines/{pipeline}").json == {"removed": pipeline}
    assert api.ask("GET", f"/pipelines/{pipeline}").code == "unknown_pipeline"
    assert api.ask("DELETE", f"/pipelines/{pipeline}").status == 404
    put(api, pipeline)
    assert api.get(f"/pipelines/{pipeline}")["name"] == pipeline


def test_hostile_text_comes_back_as_it_was_sent(api: HttpApi, pipeline: str) -> None:
    name = pipeline + HOSTILE
    put(api, name, error=HOSTILE, host=HOSTILE, name=name)
    found = api.get(f"/pipelines/{quote(name, safe='')}")
    assert (found["name"], found["error"], found["host"]) == (name, HOSTILE, HOSTILE)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (report(state="dancing"), 400),
        (report(name="another"), 400),
        (report(interval_ms=1), 400),
        (report(queries=[{"state": "running"}]), 400),
        (report(file="x" * 300_000), 413),
    ],
)
def test_what_is_no_report_is_refused(
    api: HttpApi, pipeline: str, body: dict[str, Any], status: int
) -> None:
    assert api.ask("PUT", f"/pipelines/{pipeline}", body).status == status
    api.close()
    assert api.ask("GET", f"/pipelines/{pipeline}").status == 404


def test_reports_survive_a_kill(server: ServerProcess) -> None:
    api = HttpApi(server.http_port)
    for number in range(20):
        put(api, f"p{number % 5}", started_at=number, interval_ms=600_000)
    api.ask("DELETE", "/pipelines/p0")
    api.close()
    for _ in range(2):
        server.kill()
        server.restart()
        api = HttpApi(server.http_port)
        found = {each["name"]: each for each in api.get("/pipelines")["pipelines"]}
        assert {name: each["started_at"] for name, each in found.items()} == {
            f"p{number}": 15 + number for number in range(1, 5)
        }
        assert {each["state"] for each in found.values()} == {"running"}
        api.close()
    server.restart()
    api = HttpApi(server.http_port)
    assert len(api.get("/pipelines")["pipelines"]) == 4
    api.close()

"""Events of a real server: they come, they are bounded, they end."""

from __future__ import annotations

import http.client
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from support.http_api import HOST, HttpApi
from support.server import ServerProcess, make_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Events:
    """One stream, read as a browser reads it."""

    def __init__(self, port: int, path: str, headers: dict[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=60)
        self._connection.request("GET", path, headers=headers or {})
        self.response = self._connection.getresponse()

    def next(self) -> tuple[str, Any]:
        """The next event, and its data."""
        fields: dict[str, str] = {}
        while True:
            line = self.response.readline().decode()
            if not line:
                return "end", None
            if line == "\n":
                if "data" in fields:
                    assert int(fields["id"]) > 0
                    return fields["event"], json.loads(fields["data"])
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@contextmanager
def listening(
    port: int, path: str = "/events", headers: dict[str, str] | None = None
) -> Iterator[Events]:
    events = Events(port, path, headers)
    try:
        yield events
    finally:
        events.close()


def test_an_overview_comes_at_once_and_again(broker: ServerProcess, api: HttpApi) -> None:
    with listening(broker.http_port, "/events?topics=overview") as events:
        content_type = events.response.headers["content-type"]
        assert content_type == "text/event-stream; charset=utf-8"
        assert events.response.readline() == b"retry: 2000\n"
        kind, first = events.next()
        assert (kind, set(first)) == ("overview", set(api.get("/overview")))
        kind, second = events.next()
        assert kind == "overview"
        assert second["at"] > first["at"]


def test_whoever_listens_hears_what_changes(
    broker: ServerProcess, api: HttpApi, topic: str, group: str
) -> None:
    wanted = "topics,groups,pipelines,delayed,schemas,dead_letters,transactions"
    with listening(broker.http_port, f"/events?topics={wanted}") as events:
        assert events.response.readline() == b"retry: 2000\n"
        api.post("/topics", {"name": f"{topic}-more", "num_partitions": 1})
        api.ask("POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 0}}})
        api.ask("PUT", f"/pipelines/{group}", {"state": "running"})
        api.publish(topic, "later", delay="1h")
        api.post(f"/schemas/subjects/{topic}/versions", {"schema": '{"type":"object"}'})
        api.post("/topics", {"name": f"{topic}.dlq", "num_partitions": 1})
        heard: set[str] = set()
        while heard < {"topic", "group", "pipeline", "delayed", "schema", "dead_letter"}:
            event, data = events.next()
            assert event == "changed"
            heard.add(data["kind"])
        assert "transaction" not in heard


def test_whoever_comes_back_is_told_to_look_at_everything(broker: ServerProcess) -> None:
    path = "/events?topics=topics,groups"
    with listening(broker.http_port, path, {"Last-Event-ID": "7"}) as events:
        heard = [events.next()[1]["kind"] for _ in range(2)]
        assert sorted(heard) == ["group", "topic"]


@pytest.mark.parametrize("topics", ["nothing", "overview,<script>", "", ","])
def test_what_cannot_be_listened_to_is_refused(api: HttpApi, topics: str) -> None:
    assert api.ask("GET", f"/events?topics={topics}").code == "invalid_field"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = make_server(tmp_path / "data", "--broker-stop-timeout", "10m").start()
    yield process
    process.close()


def test_one_stream_too_many_is_refused_and_a_stop_ends_them_all(server: ServerProcess) -> None:
    port = server.http_port  # of a cluster, each node has a limit of its own
    api = HttpApi(port)
    streams = [Events(port, "/events?topics=topics") for _ in range(100)]
    try:
        assert {each.response.status for each in streams} == {200}
        assert all(each.response.readline() == b"retry: 2000\n" for each in streams)
        assert api.ask("GET", "/events").code == "overloaded"
        streams.pop().close()
        while api.ask("HEAD", "/events").status != 200:
            api.close()
        api.close()
        assert server.stop() == 0
        assert {each.next()[0] for each in streams} == {"end"}
    finally:
        for each in streams:
            each.close()

"""The receiver in docs/how-to/webhooks.md takes what the broker sends, and nothing else."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.webhooks.events import Event, encode
from goqueue.webhooks.signing import headers_of
from support.server import HOST, ServerProcess, free_port, make_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.http_api import HttpApi

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "webhooks.md"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    flags = ("--webhooks-enabled", "--webhooks-allow-private")
    server = make_server(tmp_path_factory.mktemp("receiver") / "data", *flags)
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def verified() -> Callable[..., dict[str, Any]]:
    found = re.search(r"runs this receiver -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None, "docs/how-to/webhooks.md has a receiver"
    names: dict[str, Any] = {}
    exec(found[1], names)
    function: Callable[..., dict[str, Any]] = names["verified"]
    return function


def test_the_receiver_takes_the_events_of_a_broker(
    api: HttpApi, name: Callable[[str], str], verified: Callable[..., dict[str, Any]]
) -> None:
    port, events, secrets = free_port(), [], [""]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            events.append(verified(dict(self.headers), body, secrets[0]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = HTTPServer((HOST, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = api.post("/admin/webhooks", {"url": f"http://{HOST}:{port}/"})
    secrets[0] = made["secret"]
    api.post("/topics", {"name": (topic := name("seen")), "num_partitions": 1})
    eventually(lambda: [each["data"].get("topic") for each in events] == [topic])
    server.shutdown()
    server.server_close()


def test_the_receiver_refuses_what_is_forged_or_old(
    verified: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "0123456789abcdef"
    body = encode(Event("evt_1_1", "topic.created", 1, "goqueue/c/1", {}))
    event = Event("evt_1_1", "topic.created", 1, "goqueue/c/1", {})
    headers = headers_of(event, body, secret, 1_000_000, 1)
    monkeypatch.setattr("time.time", lambda: 1_000_010.0)
    assert verified(headers, body, secret)["id"] == "evt_1_1"
    for forged_body, forged in (
        (body.replace(b"created", b"deleted"), headers),
        (body, {**headers, "X-GoQueue-Timestamp": "1000001"}),
        (body, {**headers, "X-GoQueue-Signature": "sha256=" + "0" * 64}),
    ):
        with pytest.raises(ValueError, match="signature"):
            verified(forged, forged_body, secret)
    monkeypatch.setattr("time.time", lambda: 1_001_000.0)
    with pytest.raises(ValueError, match="old"):
        verified(headers, body, secret)

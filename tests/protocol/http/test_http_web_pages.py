"""What a browser lets any web page do, and what the server makes of it."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.http_api import HttpApi
from support.server import ServerProcess, make_server, siblings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVIL = "https://evil.example"
MESSAGE = json.dumps({"messages": [{"value": "v"}]})


@pytest.fixture
def allowing(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that knows another name and another site."""
    server = make_server(
        tmp_path / "data",
        "--http-allowed-hosts=broker.example.org,*.cluster.local",
        "--http-allowed-origins=https://app.example.org",
    ).start()
    yield server
    server.close()


def count(api: HttpApi, topic: str) -> int:
    partitions = api.get(f"/topics/{topic}/partitions")["partitions"]
    return sum(each["high_watermark"] for each in partitions)


def send(api: HttpApi, topic: str, **headers: str) -> tuple[int, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = api.ask("POST", f"/topics/{topic}/messages", raw=MESSAGE.encode(), headers=named)
    return answer.status, "" if answer.status == 200 else answer.code


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "multipart/form-data; x"])
def test_a_page_of_another_site_stores_nothing(api: HttpApi, topic: str, kind: str) -> None:
    refused = (403, "foreign_origin")
    given = {"content_type": kind, "origin": EVIL}
    assert send(api, topic, **given, sec_fetch_site="cross-site")[0] in {403, 415}
    assert send(api, topic, **given)[0] in {403, 415}
    assert send(api, topic, content_type="application/json", origin=EVIL) == refused
    assert send(api, topic, origin="null") == refused
    assert send(api, topic, sec_fetch_site="cross-site") == refused
    assert send(api, topic, sec_fetch_site="same-site") == refused
    assert count(api, topic) == 0


def test_a_page_of_another_site_reads_nothing(api: HttpApi, topic: str) -> None:
    for path in ("/topics", f"/topics/{topic}", "/metrics", "/events", "/subjects", "/nothing"):
        answer = api.ask("GET", path, headers={"Origin": EVIL, "Sec-Fetch-Site": "cross-site"})
        assert answer.status == 403, path
        assert not any(name.startswith("access-control") for name in answer.headers)
    asks = {"Origin": EVIL, "Access-Control-Request-Method": "DELETE"}
    preflight = api.ask("OPTIONS", f"/topics/{topic}", headers=asks)
    assert preflight.status == 403
    assert "access-control-allow-origin" not in preflight.headers


def test_a_name_that_points_here_by_dns_rebinding_is_refused(broker: ServerProcess) -> None:
    for path in ("/topics", "/console", "/healthz"):
        connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=60)
        connection.request("GET", path, headers={"Host": f"evil.example:{broker.http_port}"})
        answer = connection.getresponse()
        problem = json.loads(answer.read())
        assert (answer.status, problem["code"]) == (403, "foreign_host")
        assert "http.allowed_hosts" in problem["detail"]
        connection.close()


def test_two_names_in_one_request_are_refused(broker: ServerProcess) -> None:
    """One of them would be checked, and a proxy in between may have used the other."""
    for names in (("localhost", "evil.example"), ("evil.example", "localhost")):
        with socket.create_connection(("127.0.0.1", broker.http_port), timeout=60) as raw:
            hosts = "".join(f"Host: {each}\r\n" for each in names)
            raw.sendall(f"GET /topics HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 400"), answer
        assert b"two Host headers" in answer


@pytest.mark.parametrize(
    "headers",
    [
        "Host: evil.example",
        "Host: LOCALHOST.evil.example",
        "Host: 127.0.0.1.evil.example",
        "Host: localhost\r\nOrigin: http://localhost.evil.example",
        "Host: localhost\r\nOrigin: null",
        "Host: localhost\r\nOrigin: http://localhost@evil.example",
        "Host: localhost\r\nSec-Fetch-Site: cross-site",
        "Host: localhost\r\nSec-Fetch-Site: SAME-ORIGIN, cross-site\r\nOrigin: http://evil.example",
    ],
)
def test_names_that_only_look_like_ours_store_nothing(
    broker: ServerProcess, api: HttpApi, topic: str, headers: str
) -> None:
    head = (
        f"POST /topics/{topic}/messages HTTP/1.1\r\n{headers}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(MESSAGE)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", broker.http_port), timeout=60) as raw:
        raw.sendall(head.encode() + MESSAGE.encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 403"), answer
    assert count(api, topic) == 0


def test_names_and_addresses_of_this_machine_are_taken(broker: ServerProcess) -> None:
    port = broker.http_port
    for host in (
        f"localhost:{port}",
        f"127.0.0.1:{port}",
        "[::1]",
        "10.1.2.3",
        socket.gethostname(),
    ):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/healthz", headers={"Host": host})
        assert connection.getresponse().status == 200, host
        connection.close()


def test_bodies_that_only_forms_send_are_refused(api: HttpApi, topic: str) -> None:
    assert send(api, topic, content_type="text/plain") == (415, "unsupported_media_type")
    assert send(api, topic, content_type="multipart/form-data; boundary=x")[0] == 415
    assert count(api, topic) == 0
    assert send(api, topic, content_type="application/json") == (200, "")
    assert send(api, topic) == (200, "")
    assert count(api, topic) == 2


def test_curl_sends_data_as_the_readme_shows_it(
    broker: ServerProcess, api: HttpApi, topic: str
) -> None:
    url = f"{broker.http_url}/topics/{topic}/messages"
    subprocess.run(["curl", "-sSf", url, "-d", MESSAGE], check=True, capture_output=True)
    assert count(api, topic) == 1


def test_the_console_may_use_its_own_server(
    api: HttpApi, broker: ServerProcess, topic: str
) -> None:
    given = {"sec_fetch_site": "same-origin", "content_type": "application/json"}
    assert send(api, topic, **given) == (200, "")
    del given["sec_fetch_site"]  # as a browser leaves it out without TLS, off this machine
    own = {f"http://127.0.0.1:{port}" for port in siblings(broker.http_port)}
    answers = [send(api, topic, **given, origin=each) for each in sorted(own) for _ in own]
    assert answers.count((200, "")) == len(own), "each node is its own server"
    assert {*answers} <= {(200, ""), (403, "foreign_origin")}


def test_other_sites_may_link_to_the_console_and_the_documents(api: HttpApi) -> None:
    link = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    for path in ("/", "/console", "/console/topics/orders", "/docs"):
        assert api.ask("GET", path, headers=link).status in {200, 307}, path
    assert api.ask("GET", "/topics", headers=link).status == 403
    framed = {**link, "Sec-Fetch-Dest": "iframe"}
    assert api.ask("GET", "/docs", headers=framed).status == 403


def test_an_allowed_site_asks_first_and_then_calls(allowing: ServerProcess) -> None:
    api = HttpApi(allowing.http_port)
    site = {"Origin": "https://app.example.org", "Sec-Fetch-Site": "cross-site"}
    asks = {**site, "Access-Control-Request-Method": "POST"}
    preflight = api.ask("OPTIONS", "/topics", headers=asks)
    assert (preflight.status, preflight.body) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == "https://app.example.org"
    assert preflight.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS, POST"
    assert preflight.headers["access-control-max-age"] == "300"
    assert "Content-Type" in preflight.headers["access-control-allow-headers"]
    for path in ("/topics", "/nothing"):
        answer = api.ask("GET", path, headers=site)
        assert answer.status in {200, 404}
        assert answer.headers["access-control-allow-origin"] == "https://app.example.org"
        assert answer.headers["vary"] == "origin"
        assert "X-Request-ID" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in api.ask("GET", "/topics").headers
    assert api.ask("GET", "/topics", headers={"Origin": EVIL}).status == 403
    for host in ("broker.example.org", "goqueue-0.cluster.local:8080"):
        assert api.ask("GET", "/topics", headers={"Host": host}).status == 200
    assert api.ask("GET", "/topics", headers={"Host": "evil.example"}).status == 403
    api.close()

"""What pages of other sites can do to a broker on the user's machine, in a real browser.

The browser takes FOREIGN for 127.0.0.2, where a server of the test plays the attacker's site. It
turns into the broker when it is told to, as a name does whose address changes (DNS rebinding): the
browser then takes the broker for that site.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from browser.conftest import FOREIGN, FOREIGN_ADDRESS
from support.guarded import guarded_server
from support.http_api import HttpApi
from support.server import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page

    from support.guarded import GuardedServer

TOPIC = "orders"
MESSAGES = '{"messages":[{"value":"forged"}]}'
FORMS = {
    # A form of text/plain sends NAME=VALUE: with the `=` inside a string, that is JSON.
    "text/plain": ('{"messages":[{"value":"', '"}]}'),
    "application/x-www-form-urlencoded": (MESSAGES, ""),
    "multipart/form-data": (MESSAGES, ""),
}
SUBMIT = """([action, type, name, value]) => {
    const form = document.createElement("form");
    Object.assign(form, { method: "POST", action, enctype: type, target: "answer" });
    const field = document.createElement("input");
    Object.assign(field, { name, value });
    form.append(field);
    document.body.append(form);
    form.submit();
}"""
FETCH = """async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        return [answer.status, await answer.text()];
    } catch (error) {
        return [-1, ""];
    }
}"""
READ_EVENTS = """(url) => new Promise((done) => {
    const source = new EventSource(url, { withCredentials: true });
    source.onmessage = source.onopen = () => done("open");
    source.onerror = () => done("refused");
})"""
SEND_BEACON = """([url, text]) => {
    navigator.sendBeacon(url, new Blob([text], { type: "text/plain" }));
}"""
PAGE = b"<!doctype html><title>prizes</title><body><iframe name=answer></iframe></body>"


class Site:
    """A site of one page; or, once it is rebound, whoever listens at the same port of this host."""

    def __init__(self, address: str, port: int) -> None:
        self._listener = socket.create_server((address, port))
        self.port: int = self._listener.getsockname()[1]
        self.is_rebound = False
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if self.is_rebound:
                with socket.create_connection(("127.0.0.1", self.port)) as broker:
                    back = threading.Thread(target=_pipe, args=(broker, client), daemon=True)
                    back.start()
                    _pipe(client, broker)
                    back.join()
            elif client.recv(65536):
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}"
                client.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode() + PAGE)


def _pipe(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def site(address: str, port: int = 0) -> Iterator[Site]:
    made = Site(address, port)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def foreign() -> Iterator[Site]:
    with site(FOREIGN_ADDRESS) as made:
        yield made


class Target:
    """A broker as it starts on a laptop, on loopback and open to everybody there; with a topic."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._api = HttpApi(port)
        self._api.ask("DELETE", f"/topics/{TOPIC}")
        self._api.post("/topics", {"name": TOPIC, "num_partitions": 1})

    def stored(self) -> int:
        (partition,) = self._api.get(f"/topics/{TOPIC}/partitions")["partitions"]
        return int(partition["high_watermark"])

    def close(self) -> None:
        self._api.close()


@pytest.fixture
def target(broker: ServerProcess) -> Iterator[Target]:
    made = Target(broker.http_port)
    yield made
    made.close()


def open_foreign(context: BrowserContext, found: Site, host: str = FOREIGN) -> Page:
    page = context.new_page()
    page.goto(f"http://{host}:{found.port}/")
    expect(page).to_have_title("prizes")
    return page


def submit(page: Page, url: str, kind: str) -> str:
    """Send a form of a page to the broker; what the frame with its answer shows."""
    with page.expect_event("response", lambda answer: answer.url == url) as answered:
        page.evaluate(SUBMIT, [url, kind, *FORMS[kind]])
    return str(answered.value.status)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("kind", FORMS)
def test_a_form_of_another_site_publishes_nothing(
    new_context: Callable[[], BrowserContext],
    target: Target,
    foreign: Site,
    kind: str,
    host: str,
) -> None:
    url = f"http://{host}:{target.port}/topics/{TOPIC}/messages"
    page = open_foreign(new_context(), foreign)
    assert submit(page, url, kind) == "403"
    assert target.stored() == 0


@pytest.mark.parametrize("mode", ["cors", "no-cors"])
@pytest.mark.parametrize("kind", ["text/plain", "application/json"])
def test_a_script_of_another_site_publishes_and_reads_nothing(
    new_context: Callable[[], BrowserContext],
    target: Target,
    foreign: Site,
    kind: str,
    mode: str,
) -> None:
    page = open_foreign(new_context(), foreign)
    base = f"http://127.0.0.1:{target.port}"
    post = {"method": "POST", "mode": mode, "body": MESSAGES, "headers": {"Content-Type": kind}}
    unread = ([-1, ""], [0, ""])  # refused by the browser, or an opaque answer
    assert page.evaluate(FETCH, [f"{base}/topics/{TOPIC}/messages", post]) in unread
    for path in ("/topics", "/metrics", "/console", f"/topics/{TOPIC}/search"):
        assert page.evaluate(FETCH, [base + path, {"mode": mode}]) in unread
    assert page.evaluate(READ_EVENTS, f"{base}/events") == "refused"
    page.evaluate(SEND_BEACON, [f"{base}/topics/{TOPIC}/messages", MESSAGES])
    page.evaluate(FETCH, [f"{base}/healthz", {"mode": "no-cors"}])  # behind the beacon
    assert target.stored() == 0


def test_a_name_that_is_made_to_point_here_publishes_and_reads_nothing(
    new_context: Callable[[], BrowserContext],
    target: Target,
) -> None:
    """To the browser the broker is now that site: nothing but the name tells them apart."""
    with site(FOREIGN_ADDRESS, target.port) as rebinding:
        page = open_foreign(new_context(), rebinding)
        rebinding.is_rebound = True
        headers = {"Content-Type": "application/json"}
        post = {"method": "POST", "body": MESSAGES, "headers": headers}
        status, text = page.evaluate(FETCH, [f"/topics/{TOPIC}/messages", post])
        assert (status, "foreign_host" in text) == (403, True)
        for path in ("/topics", "/metrics", "/console", "/session", "/healthz"):
            status, text = page.evaluate(FETCH, [path, {}])
            assert (status, "foreign_host" in text) == (403, True), path
        assert page.evaluate(READ_EVENTS, "/events") == "refused"
    assert target.stored() == 0


def test_a_site_that_is_allowed_publishes(
    new_context: Callable[[], BrowserContext], foreign: Site, tmp_path: Path
) -> None:
    """Which shows that the others were refused for what they are."""
    allowed = f"--http-allowed-origins=http://{FOREIGN}:{foreign.port}"
    server = ServerProcess(tmp_path / "data", allowed).start()
    try:
        target = Target(server.http_port)
        page = open_foreign(new_context(), foreign)
        headers = {"Content-Type": "application/json"}
        post = {"method": "POST", "body": MESSAGES, "headers": headers}
        url = f"http://127.0.0.1:{target.port}/topics/{TOPIC}/messages"
        assert page.evaluate(FETCH, [url, post])[0] == 200
        assert target.stored() == 1
        target.close()
    finally:
        server.close()


# --- With somebody who is signed in ---------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedServer]:
    with guarded_server(tmp_path_factory.mktemp("guarded") / "data") as found:
        yield found


@pytest.fixture
def signed_in(new_context: Callable[[], BrowserContext], guarded: GuardedServer) -> BrowserContext:
    """A browser in which the administrator is signed in to the console."""
    context = new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{guarded.http_port}/console")
    user, password = guarded.login("admin")
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".signed-in")).to_contain_text("admin")
    return context


@pytest.mark.parametrize("address", [FOREIGN_ADDRESS, "127.0.0.1"])
def test_the_session_is_of_no_use_to_other_pages(
    signed_in: BrowserContext, guarded: GuardedServer, address: str
) -> None:
    """Also not to those of another port of this host, with which browsers share cookies."""
    before = guarded.fingerprint()
    base = f"http://127.0.0.1:{guarded.http_port}"
    with site(address) as other:
        host = FOREIGN if address == FOREIGN_ADDRESS else address
        page = open_foreign(signed_in, other, host)
        for kind in FORMS:
            assert submit(page, f"{base}/topics/{TOPIC}/messages", kind) == "403"
        for mode in ("cors", "no-cors"):
            with_cookies = {"mode": mode, "credentials": "include"}
            post = {**with_cookies, "method": "POST", "body": MESSAGES}
            status, text = page.evaluate(FETCH, [f"{base}/topics/{TOPIC}/messages", post])
            assert (status in {-1, 0}, text) == (True, "")
            status, text = page.evaluate(FETCH, [f"{base}/session", with_cookies])
            assert (status in {-1, 0}, text) == (True, "")
        assert submit(page, f"{base}/session", "text/plain") == "403"
    assert guarded.fingerprint() == before

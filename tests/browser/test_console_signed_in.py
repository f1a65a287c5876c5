"""The console of a broker that asks who one is: signing in and out, tenants, webhooks."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from support.console_axe import NARROW, Judge
from support.console_curl import CLIPBOARD, copied, run_curl
from support.guarded import guarded_server
from support.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from support.guarded import GuardedServer

PUBLISH = """async (token) => {
    const proof = token ? { "X-CSRF-Token": token } : {};
    const headers = { "Content-Type": "application/json", ...proof };
    const body = JSON.stringify({ name: "forged", num_partitions: 1 });
    return (await fetch("/topics", { method: "POST", headers, body })).status;
}"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedServer]:
    folder = tmp_path_factory.mktemp("guarded")
    with guarded_server(folder / "data", "--webhooks-allow-private") as found:
        yield found


@pytest.fixture(scope="module")
def broker(guarded: GuardedServer) -> SimpleNamespace:
    return SimpleNamespace(http_url=f"http://127.0.0.1:{guarded.http_port}")


def sign_in(page: Page, user: str, password: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def admin_page(open_page: Callable[..., Page], guarded: GuardedServer) -> Callable[[str], Page]:
    def open_at(path: str) -> Page:
        page = open_page(path)
        sign_in(page, *guarded.login("admin"))
        expect(page.locator(".signed-in")).to_contain_text("admin")
        return page

    return open_at


def test_a_user_signs_in_with_a_password_and_out_again(
    open_page: Callable[..., Page], guarded: GuardedServer
) -> None:
    page = open_page("/topics")
    sign_in(page, *guarded.login("readonly"))
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(page.locator(".signed-in")).to_contain_text("readonly")
    expect(page.get_by_role("button", name="New topic")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_an_api_key_signs_in(open_page: Callable[..., Page], guarded: GuardedServer) -> None:
    page = open_page("/topics")
    page.get_by_role("radio", name="API key").check(force=True)
    page.get_by_label("API key", exact=True).last.fill(guarded.token("producer"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("link", name="orders")).to_be_visible()


@pytest.mark.parametrize(("user", "password"), [("admin", "wrong"), ("nobody", "wrong")])
def test_a_wrong_login_is_refused_in_the_same_words(
    open_page: Callable[..., Page], user: str, password: str
) -> None:
    page = open_page()
    sign_in(page, user, password)
    expect(page.get_by_role("alert")).to_contain_text("authentication failed", ignore_case=True)
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_change_without_the_token_of_the_session_is_refused(
    admin_page: Callable[[str], Page],
) -> None:
    page = admin_page("/topics")
    assert page.evaluate(PUBLISH, None) == 403
    assert page.evaluate(PUBLISH, "forged") == 403
    token = page.evaluate("async () => (await (await fetch('/session')).json()).csrf_token")
    assert page.evaluate(PUBLISH, token) == 201


def test_a_copied_request_takes_the_key_from_the_environment(
    open_page: Callable[..., Page], guarded: GuardedServer
) -> None:
    api = HttpApi(guarded.http_port)
    root = {"X-API-Key": guarded.token("admin")}
    published = {"messages": [{"value": "for curl"}]}
    assert api.ask("POST", "/topics/orders/messages", published, headers=root).status == 200
    api.close()
    page = open_page("/topics/orders", **CLIPBOARD)
    sign_in(page, *guarded.login("admin"))
    page.locator("summary", has_text="Export").click()
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_text("The search request was copied.")).to_be_visible()
    command = copied(page)
    assert command.endswith(' -H "X-API-Key: $GOQUEUE_API_KEY"')
    found = run_curl(command, GOQUEUE_API_KEY=guarded.token("admin"))
    assert [each["value"] for each in found["messages"]][:1] == ["for curl"]
    with pytest.raises(AssertionError, match="authentication failed"):
        run_curl(command, GOQUEUE_API_KEY=guarded.token("wrong"))


def test_a_tenant_is_made_limited_suspended_and_deleted(admin_page: Callable[[str], Page]) -> None:
    page = admin_page("/tenants")
    page.get_by_role("button", name="New tenant").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Id").fill("acme")
    dialog.get_by_role("button", name="Create tenant").click()
    page.get_by_role("link", name="acme").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("acme")
    page.get_by_role("button", name="Change quotas").click()
    dialog.get_by_label("max_topics", exact=True).fill("7")
    dialog.get_by_role("button", name="Change quotas").click()
    row = page.locator("tbody tr", has_text="max_topics")
    expect(row.locator("td").nth(1)).to_have_text("7")
    page.get_by_role("button", name="Suspend").click()
    dialog.get_by_label("Reason").fill("the invoice is unpaid")
    dialog.get_by_role("button", name="Suspend tenant").click()
    expect(page.get_by_text("the invoice is unpaid")).to_be_visible()
    page.get_by_role("button", name="Activate").click()
    expect(page.get_by_role("button", name="Suspend")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    remove = dialog.get_by_role("button", name="Delete tenant")
    expect(remove).to_be_disabled()
    dialog.get_by_role("textbox").fill("acme")
    remove.click()
    dialog.get_by_role("status").wait_for()
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("link", name="acme")).to_have_count(0)


class Target(BaseHTTPRequestHandler):
    """Refuses everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(500)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_webhook_tells_why_its_test_failed(admin_page: Callable[[str], Page]) -> None:
    target = HTTPServer(("127.0.0.1", 0), Target)
    threading.Thread(target=target.serve_forever, daemon=True).start()
    try:
        page = admin_page("/webhooks")
        page.get_by_role("button", name="New webhook").click()
        dialog = page.get_by_role("dialog")
        url = f"http://127.0.0.1:{target.server_port}/hook"
        dialog.get_by_label("URL").fill(url)
        dialog.get_by_role("button", name="Create webhook").click()
        expect(dialog.get_by_text("is shown only now")).to_be_visible()
        dialog.get_by_role("button", name="Close").last.click()
        page.get_by_role("link", name=url).click()
        page.get_by_role("button", name="Send test event").click()
        row = page.get_by_role("region", name="Last attempts").locator("tbody tr").first
        expect(row).to_contain_text("500")
        page.get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete webhook").click()
        dialog.get_by_role("status").wait_for()
        dialog.get_by_role("button", name="Close").last.click()
        expect(page.get_by_role("link", name=url)).to_have_count(0)
    finally:
        target.shutdown()
        target.server_close()


OF_ADMINISTRATORS = {
    "/tenants": "globex",
    "/tenants/globex": "max_topics",
    "/webhooks": "https://hooks.example.com/audit",
    "/access": "readonly",
    "/access?tab=keys": "producer",
    "/access?tab=roles": "consumer",
    "/access?tab=rules": "No rules",
    "/connections": "client",
    "/configuration": "auth.enabled",
    "/cluster": "controller",
}
NEW = {
    "/tenants": "New tenant",
    "/tenants/globex": "Change quotas",
    "/webhooks": "New webhook",
    "/access": "New user",
    "/access?tab=keys": "New key",
    "/access?tab=roles": "New role",
    "/access?tab=rules": "New rule",
}


@pytest.mark.parametrize("viewport", [None, NARROW], ids=["wide", "narrow"])
def test_pages_and_dialogs_of_administrators_shut_nobody_out(
    open_page: Callable[..., Page],
    guarded: GuardedServer,
    axe: str,
    viewport: dict[str, int] | None,
) -> None:
    api = HttpApi(guarded.http_port)
    root = {"X-API-Key": guarded.token("admin")}
    url = "https://hooks.example.com/audit"
    api.ask("POST", "/admin/tenants", {"id": "globex", "name": "Globex"}, headers=root)
    if not api.ask("GET", "/admin/webhooks", headers=root).json["webhooks"]:
        api.ask("POST", "/admin/webhooks", {"url": url, "events": []}, headers=root)
    api.close()
    options = {} if viewport is None else {"viewport": viewport}
    page = open_page("/tenants", color_scheme="light", reduced_motion="reduce", **options)
    judged = Judge(page, axe)
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    judged.look("signing in")
    sign_in(page, *guarded.login("admin"))
    dialog = page.get_by_role("dialog")
    for path, seen in OF_ADMINISTRATORS.items():
        judged.go(path, seen)
        judged.look(path)
        judged.look_in_the_dark(path)
        if path in NEW:
            page.get_by_role("button", name=NEW[path]).first.click()
            expect(dialog).to_be_visible()
            judged.look(f"{NEW[path]} of {path}")
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
    judged.finish()

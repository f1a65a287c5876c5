"""What is around every page of the console: navigation, width, colours, keyboard, a broker away."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from support.http_api import HttpApi
    from support.server import ServerProcess

NARROW = {"width": 360, "height": 740}
GO = """to => {
    history.pushState(null, "", to);
    window.dispatchEvent(new PopStateEvent("popstate"));
}"""
WIDE = {"width": 1440, "height": 900}


def topic_of(api: HttpApi, name: str) -> None:
    """A topic with one partition, unless it is there."""
    assert api.ask("POST", "/topics", {"name": name, "num_partitions": 1}).status in {201, 409}


def sideways(page: Page) -> int:
    """By how much the page is wider than the screen."""
    width: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return width


def test_the_overview_tells_how_the_node_is(open_page: Callable[..., Page], api: HttpApi) -> None:
    topic_of(api, "seen")
    api.publish("seen", *(f"message {number}" for number in range(30)))
    page = open_page()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    expect(page.get_by_text("Healthy")).to_be_visible()
    expect(page.locator(".sidebar .live")).to_have_text("Live")
    held = page.locator(".card", has=page.get_by_role("heading", name="Totals"))
    expect(held.locator("dd").first).not_to_have_text("0")
    assert page.title() == "Overview · GoQueue"


def test_every_entry_of_the_navigation_opens_a_page_that_says_where_it_is(
    open_page: Callable[..., Page],
) -> None:
    page = open_page()
    links = page.get_by_role("navigation", name="Console").get_by_role("link")
    expect(links.first).to_be_visible()  # after the broker was asked who is signed in
    names = [text.splitlines()[0] for text in links.all_inner_texts()]
    assert names[:2] == ["Overview", "Topics"]
    for name in names:
        links.filter(has_text=re.compile(f"^{name}")).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        current = page.locator('nav [aria-current="page"]')
        expect(current).to_have_text(re.compile(f"^{name}"))
        expect(page.get_by_role("alert")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text(names[-2])
    links.first.click()
    expect(page.get_by_role("img", name=re.compile("Messages per second"))).to_be_visible()


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_no_page_is_wider_than_its_screen(
    open_page: Callable[..., Page], api: HttpApi, size: dict[str, int]
) -> None:
    topic_of(api, "narrowed")
    api.publish("narrowed", "x" * 5000, key="k" * 300)
    page = open_page("/topics/narrowed", viewport=size)
    page.locator(".fold").first.click()
    expect(page.get_by_label("Value", exact=True)).to_be_visible()
    assert sideways(page) <= 0
    hrefs = page.locator("nav a").evaluate_all("links => links.map(each => each.pathname)")
    for href in hrefs:
        page.evaluate(GO, href)
        expect(page.locator('nav [aria-current="page"]')).to_have_attribute("href", href)
        expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        assert sideways(page) <= 0, href


def test_a_narrow_screen_has_the_navigation_behind_a_button(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(viewport=NARROW)
    link = page.get_by_role("link", name="Topics", exact=True)
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Open navigation").click()
    expect(link).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    expect(page.get_by_role("button", name="Open navigation")).to_be_focused()
    page.get_by_role("button", name="Open navigation").click()
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    expect(page.get_by_role("link", name="Groups", exact=True)).to_be_hidden()


def test_colours_follow_the_system_until_somebody_chooses(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(color_scheme="dark")

    def background() -> str:
        found: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return found

    dark = background()
    page.get_by_role("button", name="Colours: auto").click()
    expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
    assert background() != dark
    page.reload()
    expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
    assert background() != dark


def test_the_keyboard_alone_gets_from_the_start_to_a_message(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic_of(api, "by-keyboard")
    api.publish("by-keyboard", json.dumps({"found": "by keys"}))
    page = open_page("/topics")
    expect(page.get_by_role("link", name="by-keyboard")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("by-key")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="by-keyboard").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("by-keyboard")
    fold = page.get_by_role("button", name="Message 0/0")
    expect(fold).to_be_visible()
    fold.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Value", exact=True)).to_contain_text('"by keys"')
    page.get_by_role("button", name="Publish", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("button", name="Publish", exact=True)).to_be_focused()


def test_an_address_that_leads_nowhere_says_so(open_page: Callable[..., Page]) -> None:
    page = open_page("/no/such/<b>page</b>")
    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
    page.goto("/console/topics/missing")
    expect(page.get_by_role("alert")).to_contain_text("missing")


def test_a_broker_that_stops_is_told_of_and_the_page_recovers_by_itself(
    open_page: Callable[..., Page], api: HttpApi, broker: ServerProcess
) -> None:
    topic_of(api, "outlasting")
    api.publish("outlasting", "before")
    page = open_page("/topics/outlasting")
    expect(page.locator(".messages tbody tr")).to_have_count(1)
    banner = page.get_by_text("Cannot reach the broker.")
    expect(banner).to_be_hidden()
    broker.stop()
    expect(banner).to_be_visible()
    expect(page.locator(".messages tbody tr")).to_have_count(1)  # what was there stays
    page.get_by_role("navigation", name="Console").get_by_role("link").first.click()
    expect(page.get_by_text("Unknown")).to_be_visible()
    broker.start()
    expect(banner).to_be_hidden()
    page.go_back()
    expect(page.locator(".sidebar .live")).to_have_text("Live")
    page.get_by_role("button", name="Publish", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value", exact=True).fill("after")
    dialog.get_by_role("button", name="Publish", exact=True).click()
    expect(dialog.get_by_text("Stored in partition")).to_be_visible()


def test_a_broker_that_is_slower_than_a_page_asks_is_waited_for(
    open_page: Callable[..., Page],
) -> None:
    page = open_page()
    page.add_init_script("""
        const ask = window.fetch;
        const later = (...wanted) => new Promise((resolve) => setTimeout(resolve, 2500, wanted));
        window.fetch = (...wanted) => later(...wanted).then((them) => ask(...them));
    """)
    page.goto("/console/delayed")  # asked for every two seconds
    expect(page.get_by_text("Pending")).to_be_visible()


def test_a_page_that_gets_no_stream_asks_every_now_and_then(
    open_page: Callable[..., Page],
) -> None:
    page = open_page("/no-such-page")
    page.route("**/events", lambda route: route.fulfill(status=503))
    page.goto("/console")
    expect(page.locator(".sidebar .live")).to_have_text("Polling")
    expect(page.get_by_text("Healthy")).to_be_visible()
    expect(page.get_by_text("Cannot reach the broker.")).to_be_hidden()


def test_traces_begin_with_what_failed_then_the_slow_ones(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic_of(api, "traced")
    joined = api.post("/groups/tracers/join", {"topics": ["traced"], "assignment": "shared"})
    poll = f"/groups/tracers/poll?member_id={joined['member_id']}&timeout=60s&limit=1"

    def receipt(value: str) -> dict[str, str]:
        api.publish("traced", value)
        (message,) = api.get(poll)["messages"]
        assert message["value"] == value
        return {"receipt_handle": message["receipt_handle"]}

    slow = receipt("slow")  # takes longer than what happens before its acknowledgement
    api.post("/messages/reject", {**receipt("failed"), "reason": "no customer"})
    api.post("/messages/ack", receipt("good"))
    api.post("/messages/ack", slow)
    page = open_page("/traces?topic=traced")
    listed = page.get_by_role("region", name="Traces").locator("tbody tr")
    expect(listed).to_have_text(
        [
            re.compile("traced 0/1.*failed"),
            re.compile("traced 0/0.*completed"),
            re.compile("traced 0/2.*completed"),
        ]
    )

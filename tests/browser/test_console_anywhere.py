"""What reaches everywhere: Ctrl-K, who is connected, and the settings of the node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from support.console_web import add_packages

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from support.http_api import HttpApi
    from support.server import ServerProcess

PHONE = {"width": 390, "height": 844}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
JUDGE = """async () => {
    const found = await axe.run(document, { resultTypes: ["violations"] });
    return found.violations.map(each => `${each.id}: ${each.nodes.map(node => node.html)}`);
}"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    packages = add_packages(tmp_path_factory.mktemp("packages"))
    return (packages / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def open_palette(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()  # before that nobody hears keys
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name=re.compile("[Tt]opic"))).to_be_focused()


def test_the_keyboard_alone_goes_to_topics_groups_pages_and_traces(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    api.post("/topics", {"name": "reached", "num_partitions": 1})
    api.post("/groups/reaching/offsets", {"offsets": {"reached": {"0": 0}}})
    page = open_page()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    for typed, address in (
        ("reached", "topics/reached$"),
        ("reaching", "groups/reaching$"),
        ("schemas", "console/schemas$"),
        (TRACE, f"traces/{TRACE}$"),
    ):
        open_palette(page)
        page.keyboard.type(typed)
        chosen = page.locator("dialog").get_by_role("option", selected=True)
        expect(chosen).to_have_text(re.compile(f"^{typed}(Topic|Group|Page|Trace)$", re.IGNORECASE))
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page).to_have_url(re.compile(address))


def test_a_key_is_looked_up_and_a_message_published_from_anywhere(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    api.post("/topics", {"name": "keyed", "num_partitions": 1})
    api.publish("keyed", "first", key="customer-7")
    api.publish("keyed", "other", key="customer-8")
    page = open_page("/groups")
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    open_palette(page)
    page.keyboard.type("customer-7")
    expect(page.locator("dialog").get_by_role("option", selected=True)).to_have_text(
        re.compile("Find key customer-7")
    )
    page.keyboard.press("Enter")
    page.keyboard.type("keyed")
    expect(page.locator("dialog").get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".messages tbody tr")).to_have_count(1)
    expect(page.locator(".messages")).to_contain_text("first")
    open_palette(page)
    page.keyboard.type("publish")
    page.keyboard.press("Enter")
    page.keyboard.type("keyed")
    expect(page.locator("dialog").get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Value", exact=True)).to_be_visible()


def test_the_palette_shuts_nobody_out(open_page: Callable[..., Page], axe: str) -> None:
    page = open_page(viewport=PHONE, color_scheme="light", reduced_motion="reduce")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.evaluate(axe)
    open_palette(page)
    expect(page.locator("dialog").get_by_role("option").first).to_be_visible()
    assert page.evaluate(JUDGE) == []
    page.keyboard.press("ArrowDown")
    expect(page.locator("dialog").get_by_role("option").nth(1)).to_have_attribute(
        "aria-selected", "true"
    )
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_who_is_connected_is_shown_with_what_the_client_says_of_itself(
    open_page: Callable[..., Page], broker: ServerProcess, axe: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka_address, "client.id": "billing-1"})
    producer.list_topics(timeout=60)
    page = open_page("/connections", color_scheme="light", reduced_motion="reduce")
    row = page.locator("tbody tr", has_text="billing-1").first
    expect(row).to_contain_text("Kafka")
    expect(row).to_contain_text("confluent-kafka-python")
    expect(row).to_contain_text("127.0.0.1:")
    expect(page.locator("tbody tr", has_text="Chrome").first).to_contain_text("HTTP")
    page.get_by_role("radio", name="HTTP").check(force=True)
    expect(row).to_have_count(0)
    page.evaluate(axe)
    assert page.evaluate(JUDGE) == []


def test_settings_tell_where_they_come_from(open_page: Callable[..., Page], axe: str) -> None:
    page = open_page("/configuration", color_scheme="light", reduced_motion="reduce")
    page.get_by_role("searchbox").fill("kafka")
    row = page.locator("tbody tr", has_text="listeners.kafka").first
    expect(row).to_contain_text("--kafka-port")
    page.get_by_role("searchbox").fill("log.retention.ms")
    expect(page.locator("tbody tr").first).to_contain_text("at run time")
    page.evaluate(axe)
    assert page.evaluate(JUDGE) == []


@pytest.mark.parametrize("path", ["", "/connections", "/configuration", "/webhooks", "/tenants"])
def test_new_pages_fit_a_phone(open_page: Callable[..., Page], path: str) -> None:
    page = open_page(path, viewport=PHONE)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    width = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert width <= 0

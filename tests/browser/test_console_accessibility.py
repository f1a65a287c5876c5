"""Every page of the console, judged by axe: contrast, names, roles, structure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from support.console_axe import NARROW, Judge
from support.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from support.server import ServerProcess

WIDE = {"width": 1440, "height": 900}
PAGES = {
    "": "Needs attention",
    "/topics": "orders.dlq",
    "/topics/orders": "such an order",
    "/topics/orders?columns=note": "such an order",
    "/topics/orders?tab=partitions": "Largest partitions",
    "/topics/orders?tab=charts": "Bytes",
    "/topics/orders?tab=settings&all_settings=1": "retention.ms",
    "/groups": "readers",
    "/groups/readers": "In and out",
    "/groups/workers": "Members",
    "/queues?group=workers": "Deliveries",
    "/dead-letters": "orders",
    "/dead-letters/orders": "no such customer",
    "/dead-letters/orders?letter=0/0": "Original message",
    "/dead-letters/orders?view=errors": "no such customer",
    "/delayed?topic=orders": "later",
    "/traces": "orders 0/0",
    "/traces/message/orders/0/0": "publish.received",
    "/schemas": "orders-value",
    "/schemas/orders-value": "What changed",
    "/transactions": "tx-1",
    "/pipelines": "revenue",
    "/pipelines/revenue": "no such column",
    "/cluster": "controller",
    "/connections": "HTTP",
    "/configuration": "auth.enabled",
    "/webhooks": "Webhooks",
    "/tenants": "Tenants are off",
    "/access": "Authentication is off",
    "/no-such-page": "Page not found",
    "/topics/no-such-topic": "no-such-topic",
}
DARK = ("", "/topics/orders", "/schemas/orders-value", "/pipelines/revenue")
DIALOGS = {
    "/topics": "New topic",
    "/topics/orders": "Publish",
    "/topics/orders?tab=settings": "Delete…",
    "/groups/readers": "Reset offsets",
    "/queues?group=workers": "Change settings",
    "/schemas/orders-value": "New version",
}


@pytest.fixture(scope="module")
def furnished(broker: ServerProcess) -> None:
    """Something on every page."""
    api = HttpApi(broker.http_port)
    api.post("/topics", {"name": "orders", "num_partitions": 2})
    api.publish("orders", '{"id": 1, "paid": true, "note": "such an order"}', key="k", partition=0)
    api.publish("orders", "later", delay="1h")
    api.post("/groups/readers/offsets", {"offsets": {"orders": {"0": 1}}})
    joined = api.post("/groups/workers/join", {"topics": ["orders"], "assignment": "shared"})
    polled: list[Any] = []
    while not polled:
        poll = f"/groups/workers/poll?member_id={joined['member_id']}&timeout=5s"
        polled = api.get(poll)["messages"]
    handle = polled[0]["receipt_handle"]
    api.post("/messages/reject", {"receipt_handle": handle, "reason": "no such customer"})
    for names in (["id"], ["id", "customer"]):
        fields = [{"name": name, "type": "string", "default": ""} for name in names]
        schema = {"type": "record", "name": "Order", "fields": fields}
        api.post("/subjects/orders-value/versions", {"schema": json.dumps(schema)})
    query = {"name": "out", "state": "failed", "error": "no such column", "sink": "topic revenue"}
    api.ask("PUT", "/pipelines/revenue", {"state": "failed", "error": "bad", "queries": [query]})
    producer = Producer({"bootstrap.servers": broker.kafka_address, "transactional.id": "tx-1"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", b"open", partition=1)
    producer.flush(20)
    api.close()


@pytest.fixture
def judge(open_page: Callable[..., Page], axe: str, furnished: None) -> Callable[..., Judge]:
    def begin(path: str = "", **options: Any) -> Judge:
        chosen = {"color_scheme": "light", "reduced_motion": "reduce", **options}
        return Judge(open_page(path, **chosen), axe)

    return begin


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_no_violation_on_any_page(
    judge: Callable[..., Judge], viewport: dict[str, int]
) -> None:
    judged = judge(viewport=viewport)
    for path, seen in PAGES.items():
        judged.go(path, seen)
        judged.look(path)
        if path in DARK:
            judged.look_in_the_dark(path)
    judged.finish()


def test_axe_finds_no_violation_in_dialogs(judge: Callable[..., Judge]) -> None:
    judged = judge()
    dialog = judged.page.get_by_role("dialog")
    for path, button in DIALOGS.items():
        judged.go(path, button)
        judged.page.get_by_role("button", name=button).first.click()
        expect(dialog).to_be_visible()
        judged.look(f"{button} of {path}")
        judged.page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    judged.finish()


def test_axe_finds_no_violation_in_the_navigation_of_a_narrow_screen(
    judge: Callable[..., Judge],
) -> None:
    judged = judge(viewport=NARROW)
    judged.page.get_by_role("button", name="Open navigation").click()
    expect(judged.page.get_by_role("link", name="Topics", exact=True)).to_be_visible()
    judged.look("the navigation")
    judged.page.get_by_role("link", name="Topics", exact=True).click()
    judged.go("/topics/orders", "such an order")
    judged.page.locator(".fold").first.click()
    expect(judged.page.get_by_label("Value", exact=True)).to_be_visible()
    judged.look("a message")
    judged.look_in_the_dark("a message")
    judged.finish()


def test_axe_finds_a_missing_language_and_low_contrast(judge: Callable[..., Judge]) -> None:
    judged = judge()
    judged.page.evaluate("document.documentElement.removeAttribute('lang')")
    judged.page.get_by_role("heading", level=1).evaluate("each => { each.style.color = '#ddd'; }")
    judged.look("the overview")
    found = "\n".join(judged.found)
    assert "html-has-lang (serious)" in found
    assert "color-contrast (serious)" in found

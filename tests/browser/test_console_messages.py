"""Messages in the console: JSON filters, exports, curl commands, schemas and columns; settings."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from support.console_curl import CLIPBOARD, copied, run_curl

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator, Page

    from support.http_api import HttpApi

AVRO: Final = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
}
JSON_FILTER: Final = '$.city == "Bonn"'
QUOTED: Final = 'it\'s "quoted" $HOME'


def rows(page: Page) -> Locator:
    return page.locator(".messages tbody tr.leads")


@pytest.fixture(scope="module")
def orders() -> str:
    return "orders"


@pytest.fixture(autouse=True)
def furnished(api: HttpApi, orders: str) -> None:
    """A topic with two JSON values, one that quotes, and one that a schema decodes."""
    if api.ask("GET", f"/topics/{orders}").status == 200:
        return
    settings = {"retention.ms": "7200000"}
    api.post("/topics", {"name": orders, "num_partitions": 1, "settings": settings})
    schema_id = api.post(f"/subjects/{orders}-value/versions", {"schema": json.dumps(AVRO)})["id"]
    avro = b"\0" + struct.pack(">I", schema_id) + b"\x0e" + b"\x08Bonn"  # id 7, city Bonn
    messages = [
        {"value": '{"id": 1, "city": "Rome", "paid": {"at": 12}}'},
        {"value": '{"id": 8, "city": "Bonn"}'},
        {"value": QUOTED, "key": "customer's", "headers": {"source": QUOTED}},
        {"value": base64.b64encode(avro).decode(), "encoding": "base64"},
    ]
    api.post(f"/topics/{orders}/messages", {"messages": messages})


def test_a_json_filter_finds_exports_and_copies_the_same_messages(
    open_page: Callable[..., Page], orders: str
) -> None:
    page = open_page(f"/topics/{orders}", **CLIPBOARD)
    expect(rows(page)).to_have_count(4)
    search = page.get_by_role("search")
    search.get_by_label("JSON filter").fill("$.city ==")
    search.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_contain_text("at character 10")
    search.get_by_label("JSON filter").fill(JSON_FILTER)
    search.get_by_role("button", name="Search").click()
    expect(rows(page)).to_have_count(2)
    expect(rows(page).first).to_contain_text("0/3")  # decoded by its schema
    expect(rows(page).nth(1)).to_contain_text("0/1")

    page.locator("summary", has_text="Export").click()
    exported = {}
    for label in ("JSON lines", "CSV", "Parquet"):
        with page.expect_download() as download:
            page.get_by_role("link", name=label).click()
        name = download.value.suggested_filename
        exported[name] = Path(download.value.path()).read_bytes()
    assert list(exported) == [f"{orders}.jsonl", f"{orders}.csv", f"{orders}.parquet"]
    lines = [json.loads(line) for line in exported[f"{orders}.jsonl"].splitlines()]
    assert sorted(each["offset"] for each in lines) == [1, 3]
    assert len(exported[f"{orders}.csv"].splitlines()) == 3  # with the head
    assert exported[f"{orders}.parquet"].startswith(b"PAR1")

    page.get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_text("The search request was copied.")).to_be_visible()
    command = copied(page)
    assert "X-API-Key" not in command  # this broker asks for no login
    assert [each["offset"] for each in run_curl(command)["messages"]] == [3, 1]


def test_the_copied_request_of_a_message_publishes_it_again(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = "quoting"
    api.post("/topics", {"name": topic, "num_partitions": 1})
    message = {"value": QUOTED, "key": "customer's", "headers": {"source": QUOTED}}
    api.post(f"/topics/{topic}/messages", {"messages": [message]})
    page = open_page(f"/topics/{topic}", **CLIPBOARD)
    page.locator(".fold").first.click()
    page.get_by_role("button", name="Copy as curl").last.click()
    expect(page.get_by_text("The publish request was copied.")).to_be_visible()
    run_curl(copied(page))
    stored = api.get(f"/topics/{topic}/partitions/0/messages?offset=0")["messages"]
    one, other = ((each["key"], each["value"], each["headers"]) for each in stored)
    assert one == other


def test_a_value_is_decoded_by_the_schema_that_it_names(
    open_page: Callable[..., Page], orders: str
) -> None:
    page = open_page(f"/topics/{orders}")
    page.get_by_role("button", name="Message 0/3", exact=True).click()
    detail = page.locator("tr.detail")
    expect(detail.get_by_label("Decoded value", exact=True)).to_contain_text('"city": "Bonn"')
    expect(detail.get_by_label("Value as stored", exact=True)).to_be_visible()
    detail.get_by_role("link", name=f"{orders}-value version 1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{orders}-value")


def test_json_fields_become_columns_by_a_click_and_stay(
    open_page: Callable[..., Page], orders: str
) -> None:
    page = open_page(f"/topics/{orders}")
    head = page.locator(".messages thead")
    expect(rows(page)).to_have_count(4)
    for field in ("city", "paid.at"):
        page.locator("summary", has_text="Columns").click()
        page.get_by_role("group", name="JSON fields as columns").get_by_label(
            field, exact=True
        ).check()
        page.keyboard.press("Escape")
        page.locator("summary", has_text="Columns").click()
    expect(head).to_contain_text(re.compile(r"city.*paid\.at"))
    expect(rows(page).nth(3)).to_contain_text(re.compile("Rome.*12"))
    page.reload()
    expect(head).to_contain_text(re.compile(r"city.*paid\.at"))
    page.goto(f"/console/topics/{orders}")  # without the columns in the address
    expect(head).to_contain_text(re.compile(r"city.*paid\.at"))


def test_settings_stand_in_groups_changed_ones_first_and_those_without_effect_on_request(
    open_page: Callable[..., Page], api: HttpApi, orders: str
) -> None:
    settings = api.get(f"/topics/{orders}/settings")["settings"]
    idle = [each["name"] for each in settings if each["effect"] != "obeyed"]
    assert idle
    page = open_page(f"/topics/{orders}?tab=settings")
    groups = page.get_by_role("region", name=re.compile("^Settings: "))
    expect(groups.first).to_have_attribute("aria-label", "Settings: Changed for this topic")
    expect(groups.first.locator("tbody tr")).to_have_count(1)
    expect(groups.first).to_contain_text("7200000 (2 h)")
    expect(groups.nth(1)).to_have_attribute("aria-label", "Settings: Retention and compaction")
    expect(groups.nth(1).get_by_text("retention.ms", exact=True)).to_have_count(0)
    lines = groups.locator("tbody tr")
    expect(lines).to_have_count(len(settings) - len(idle))
    page.get_by_label(f"Show {len(idle)} without effect").check()
    expect(lines).to_have_count(len(settings))
    expect(lines.filter(has=page.get_by_text(idle[0], exact=True))).to_contain_text("No effect:")

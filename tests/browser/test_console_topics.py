"""Topics in the console: made, published to, browsed, configured, purged and deleted."""

from __future__ import annotations

import base64
import json
import re
import time
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator, Page

    from support.http_api import HttpApi

SCRIPT = "<script>document.title = 'owned'</script>"
IMAGE = "<img src=x onerror=\"document.title='owned'\">"


def make(api: HttpApi, name: str, messages: list[dict[str, Any]], partitions: int = 1) -> None:
    api.post("/topics", {"name": name, "num_partitions": partitions})
    if messages:
        api.post(f"/topics/{name}/messages", {"messages": messages})


def rows(page: Page) -> Locator:
    return page.locator(".messages tbody tr.leads")


def unfold(page: Page, offset: int, partition: int = 0) -> Locator:
    """Opens a message in the list, and gives what is shown of it."""
    name = f"Message {partition}/{offset}"
    page.get_by_role("button", name=name, exact=True).click()
    return page.locator("tr.detail")


def test_a_topic_is_made_and_what_the_broker_refuses_is_told_in_its_words(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    page = open_page("/topics")
    page.get_by_role("button", name="New topic").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_be_focused()
    dialog.get_by_label("Name").fill("bad name!")
    dialog.get_by_role("button", name="Create topic").click()
    refused = api.ask("POST", "/topics", {"name": "bad name!"}).json["detail"]
    expect(dialog.get_by_role("alert")).to_contain_text(refused)
    expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_label("Name")).to_be_focused()
    dialog.get_by_label("Name").fill("made-here")
    dialog.get_by_label("Partitions").fill("4")
    dialog.get_by_label("Retention").select_option("1 hour")
    dialog.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("made-here")
    made = api.get("/topics/made-here")
    assert made["num_partitions"] == 4
    assert made["settings"]["retention.ms"] == "3600000"


def test_a_message_is_published_with_all_that_belongs_to_it(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    make(api, "published", [], partitions=2)
    page = open_page("/topics/published")
    page.get_by_role("button", name="Publish", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value", exact=True).fill('{"total": 12.50}')
    dialog.get_by_label("Key").fill("customer-7")
    dialog.get_by_label("Partition").select_option("1")
    dialog.get_by_label("Priority").select_option("high")
    dialog.get_by_role("button", name="Add header").click()
    dialog.get_by_label("Name of header 1").fill("source")
    dialog.get_by_label("Value of header 1").fill("console")
    dialog.get_by_role("button", name="Publish", exact=True).click()
    expect(dialog.get_by_text("Stored in partition 1 at offset 0.")).to_be_visible()
    (stored,) = api.get("/topics/published/messages")["messages"]
    assert (stored["key"], stored["value"]) == ("customer-7", '{"total": 12.50}')
    assert (stored["partition"], stored["priority"]) == (1, "high")
    assert {"name": "source", "value": "console"} in stored["headers"]

    dialog.get_by_label("After a delay").check()
    dialog.get_by_label("Delay", exact=True).fill("1h")
    dialog.get_by_role("button", name="Publish", exact=True).click()
    expect(dialog.get_by_text("It waits")).to_be_visible()
    (waiting,) = api.get("/topics/published/delayed")["messages"]
    assert 3_500_000 < waiting["deliverAt"] - time.time() * 1000 < 3_700_000

    dialog.get_by_label("Delay", exact=True).fill("soon")
    dialog.get_by_role("button", name="Publish", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("delay")
    dialog.get_by_label("At a time").check()
    dialog.get_by_label("Deliver at").fill("")
    dialog.get_by_role("button", name="Publish", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Expected a date and a time.")
    dialog.get_by_role("button", name="Cancel").click()
    expect(rows(page)).to_have_count(1)
    detail = unfold(page, 0, partition=1)
    expect(detail.get_by_label("Value", exact=True)).to_contain_text('"total": 12.50')
    expect(detail.get_by_role("row", name="source console")).to_be_visible()


def test_messages_are_found_by_offset_time_key_and_text(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    day_ms = 86_400_000
    begin_ms = int(time.time() * 1000) - 20 * 60_000
    make(
        api,
        "browsed",
        [
            {
                "key": f"customer-{number % 10}",
                "value": json.dumps({"number": number, "note": "refund" if number == 77 else ""}),
                "timestamp": begin_ms + number * 1000,
                "headers": {"origin": "branch-12"} if number == 150 else {},
            }
            for number in range(200)
        ],
    )
    page = open_page("/topics/browsed", timezone_id="UTC")
    expect(rows(page)).to_have_count(50)
    expect(rows(page).first).to_contain_text("0/199")
    page.get_by_role("button", name="Show more").click()
    expect(rows(page)).to_have_count(100)

    search = page.get_by_role("search")
    search.get_by_label("Partition").select_option("0")
    search.get_by_label("From offset").fill("42")
    search.get_by_role("button", name="Search").click()
    expect(rows(page).first).to_contain_text("0/42")
    expect(page.locator("tr.detail")).to_contain_text("customer-2")  # it is open already
    assert "offset=42" in page.url

    search.get_by_role("button", name="Clear").click()
    expect(rows(page).first).to_contain_text("0/199")
    search.get_by_label("Key").fill("customer-3")
    search.get_by_role("button", name="Search").click()
    expect(rows(page)).to_have_count(20)
    expect(rows(page).first).to_contain_text("0/193")

    search.get_by_label("Key").fill("")
    search.get_by_label("Text").fill("refund")
    search.get_by_role("button", name="Search").click()
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("0/77")
    search.get_by_label("Text").fill("branch-12")
    search.get_by_role("button", name="Search").click()
    expect(rows(page)).to_contain_text("0/150")
    search.get_by_label("Text").fill("nowhere")
    search.get_by_role("button", name="Search").click()
    expect(page.get_by_text("200 messages scanned, no match.")).to_be_visible()

    search.get_by_role("button", name="Clear").click()
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((begin_ms + 120_999) / 1000))
    search.get_by_label("From time").fill(moment)
    search.get_by_role("button", name="Search").click()
    expect(rows(page).first).to_contain_text(re.compile("0/12[01]"))
    page.reload()  # the address says what was searched for
    expect(rows(page).first).to_contain_text(re.compile("0/12[01]"))
    later = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((begin_ms + day_ms) / 1000))
    page.get_by_role("search").get_by_label("From time").fill(later)
    page.get_by_role("search").get_by_role("button", name="Search").click()
    expect(page.get_by_text("No messages in the searched range.")).to_be_visible()


def test_new_messages_come_by_themselves_where_they_are_followed(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    make(api, "followed", [{"value": "first"}])
    page = open_page("/topics/followed")
    expect(rows(page)).to_have_count(1)
    detail = unfold(page, 0)
    page.get_by_label("Follow").check()
    api.publish("followed", "second", "third")
    expect(rows(page)).to_have_count(3)
    expect(rows(page).first).to_contain_text("third")
    expect(detail).to_contain_text("first")  # what was open stays open


def test_hostile_messages_are_shown_as_text(open_page: Callable[..., Page], api: HttpApi) -> None:
    bad = base64.b64encode(b"\xff\xfe\x00\x01bytes").decode()
    make(
        api,
        "hostile",
        [
            {"key": SCRIPT, "value": IMAGE, "headers": {SCRIPT: IMAGE}},
            {"key": "a\u0000b\u001b[31m", "value": "one\ntwo\u202etxt.exe"},
            {"key": bad, "key_encoding": "base64", "value": bad, "encoding": "base64"},
            {"value": '{"id": 12345678901234567890, "id": 2}'},
            {"key": "long", "value": "<b>" + "long " * 200_000},
        ],
    )
    page = open_page("/topics/hostile")
    expect(rows(page)).to_have_count(5)
    expect(rows(page).nth(4)).to_contain_text("<script>")
    expect(rows(page).nth(3)).to_contain_text("a⟨NUL⟩b⟨ESC⟩[31m")
    expect(rows(page).nth(3)).to_contain_text("one↵two⟨U+202E⟩txt.exe")

    detail = unfold(page, 0)
    expect(detail.get_by_label("Value", exact=True)).to_have_text(IMAGE)
    expect(detail.get_by_role("row").nth(1)).to_contain_text(SCRIPT)
    detail = unfold(page, 2)
    expect(detail.get_by_label("Value", exact=True)).to_contain_text("ff fe 00 01 62 79")
    detail = unfold(page, 3)
    expect(detail.get_by_label("Value", exact=True)).to_contain_text('"id": 12345678901234567890,')
    detail = unfold(page, 4)
    value = detail.get_by_label("Value", exact=True)
    expect(value).to_contain_text("<b>long")
    detail.get_by_role("button", name="Fetch the whole value").click()
    expect(detail.get_by_text("of 1,000,003 shown")).to_be_visible()
    detail.get_by_label("Hex").check()
    expect(value).to_contain_text("3c 62 3e 6c 6f 6e 67 20")
    assert page.title() == "hostile · GoQueue"
    assert page.locator("main img, main script, main b").count() == 0


def test_a_long_message_is_published_again_as_a_whole(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = "long"
    api.post("/topics", {"name": topic, "num_partitions": 1})
    page = open_page(f"/topics/{topic}?tab=unheard-of")
    expect(page.get_by_role("tab", name="Messages")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_text("The topic is empty")).to_be_visible()
    long = "x" * 200_000
    api.publish(topic, long)
    page.reload()
    page.locator(".fold").first.click()
    page.get_by_role("button", name="Publish again…").click()
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    expect(page.get_by_role("dialog").get_by_text("Stored in partition 0")).to_be_visible()
    again = api.get(f"/topics/{topic}/partitions/0/messages?offset=1")["messages"]
    assert [each["value"] for each in again] == [long]


def test_a_value_is_copied_also_where_the_browser_gives_no_clipboard(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = "copied"
    api.post("/topics", {"name": topic, "num_partitions": 1})
    api.publish(topic, "take me")
    page = open_page("/nowhere")
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(f"/console/topics/{topic}")
    page.locator(".fold").first.click()
    page.get_by_role("button", name="Copy value").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    page.get_by_role("search").get_by_label("Text").click()
    page.keyboard.press("Control+V")
    expect(page.get_by_role("search").get_by_label("Text")).to_have_value("take me")


def test_settings_are_changed_and_taken_back(open_page: Callable[..., Page], api: HttpApi) -> None:
    make(api, "configured", [])
    page = open_page("/topics/configured?tab=settings")
    line = page.get_by_role("row").filter(has=page.get_by_text("retention.ms", exact=True))
    line.get_by_role("button", name="retention.ms").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value").fill("not a number")
    dialog.get_by_role("button", name="Change setting").click()
    expect(dialog.get_by_role("alert")).to_contain_text("retention.ms")
    dialog.get_by_label("Value").fill("7200000")
    dialog.get_by_role("button", name="Change setting").click()
    expect(line).to_contain_text("7200000 (2 h)")
    expect(line).to_contain_text("topic")
    assert api.get("/topics/configured")["settings"] == {"retention.ms": "7200000"}
    line.get_by_role("button", name="retention.ms").click()
    dialog.get_by_role("button", name="Reset to the default").click()
    expect(line).to_contain_text("default")
    assert api.get("/topics/configured")["settings"] == {}


def test_a_topic_that_is_compacted_says_what_it_keeps(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    settings = {"cleanup.policy": "compact"}
    api.post("/topics", {"name": "newest-only", "num_partitions": 1, "settings": settings})
    page = open_page("/topics/newest-only?tab=settings")
    stat = page.locator(".stat", has_text="Retention")
    expect(stat).to_contain_text("unlimited")
    expect(stat).to_contain_text("the newest of each key")
    page.get_by_role("button", name="Compact…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Compact").click()
    expect(dialog.get_by_role("status")).to_contain_text("There was nothing to compact.")


def test_purging_and_deleting_ask_first_and_say_what_came_of_it(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    make(api, "doomed", [{"value": str(number)} for number in range(25)], partitions=2)
    page = open_page("/topics/doomed?tab=settings")
    page.get_by_role("button", name="Purge…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("25 messages")
    act = dialog.get_by_role("button", name="Purge messages")
    expect(act).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert api.get("/topics/doomed")["total_messages"] == 25
    page.get_by_role("button", name="Purge…").click()
    dialog.get_by_label("Type doomed to confirm").fill("doomed")
    act.click()
    expect(dialog.get_by_role("status")).to_contain_text("25 messages were removed")
    dialog.get_by_role("button", name="Close").last.click()
    assert api.get("/topics/doomed")["total_messages"] == 0

    page.get_by_role("button", name="Add partitions…").click()
    dialog.get_by_label("Total partitions").fill("5")
    dialog.get_by_role("button", name="Add partitions").click()
    expect(page.get_by_text("doomed has 5 partitions now.")).to_be_visible()

    page.get_by_role("button", name="Delete…").click()
    dialog.get_by_label("Type doomed to confirm").fill("doomed")
    dialog.get_by_role("button", name="Delete topic").click()
    expect(dialog.get_by_role("status")).to_contain_text("Topic doomed was deleted.")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    assert api.ask("GET", "/topics/doomed").status == 404

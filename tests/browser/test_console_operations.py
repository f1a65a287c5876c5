"""What operators do in the console: reset, send back, cancel, follow a trace, compare schemas."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator, Page

    from support.http_api import HttpApi
    from support.server import ServerProcess

UNKNOWN = "\u2013"
HOSTILE = "<img src=x onerror=alert(1)>"

DRAWN = """canvas => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.some(each => each > 0);
}"""


def topic_of(api: HttpApi, name: str) -> str:
    api.post("/topics", {"name": name, "num_partitions": 1})
    return name


def row_of(page: Page, text: str) -> Locator:
    return page.locator("tbody tr", has_text=text)


def taken(api: HttpApi, group: str, topic: str, count: int) -> list[dict[str, Any]]:
    """Messages that a member of a queue group has."""
    joined = api.post(f"/groups/{group}/join", {"topics": [topic], "assignment": "shared"})
    member = joined["member_id"]
    found: list[dict[str, Any]] = []
    while len(found) < count:
        found += api.get(f"/groups/{group}/poll?member_id={member}&timeout=60s")["messages"]
    return found


def bury(api: HttpApi, topic: str, group: str, *values: str) -> None:
    """Let messages die."""
    api.publish(topic, *values, key=HOSTILE)
    for message in taken(api, group, topic, len(values)):
        handle = message["receipt_handle"]
        api.post("/messages/reject", {"receipt_handle": handle, "reason": f"no {HOSTILE}"})


def test_offsets_are_reset_after_a_preview_of_what_it_does(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "reset")
    api.publish(topic, *(str(number) for number in range(10)))
    api.post("/groups/readers/offsets", {"offsets": {topic: {"0": 7}}})
    page = open_page("/groups")
    expect(row_of(page, "readers")).to_contain_text("3")
    page.get_by_role("link", name="readers").click()
    expect(row_of(page, topic)).to_contain_text("7")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reset to").select_option("offset")
    dialog.get_by_label("Offset").fill("two")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_label("Offset")).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("Offset").fill("2")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_text("5 messages are read again")).to_be_visible()
    assert api.get("/groups/readers/offsets")["offsets"] == {topic: {"0": 7}}
    dialog.get_by_role("button", name="Reset offsets").click()
    expect(dialog.get_by_role("status")).to_contain_text("1 partition was changed")
    assert api.get("/groups/readers/offsets")["offsets"] == {topic: {"0": 2}}
    dialog.get_by_role("button", name="Close").last.click()
    expect(row_of(page, topic)).to_contain_text("8")
    row_of(page, topic).get_by_role("link").click()
    page.get_by_role("link", name="Consumer groups 1 group").click()
    expect(row_of(page, "readers")).to_contain_text("8")


def test_a_group_that_has_committed_nothing_is_not_said_to_be_done(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "unread")
    api.publish(topic, "one", "two")
    joined = api.post("/groups/hesitant/join", {"topics": [topic], "assignment": "log"})
    alive = {"member_id": joined["member_id"]}
    page = open_page("/groups")
    expect(row_of(page, "hesitant").locator("td").nth(4)).to_have_text("2")
    api.post("/groups/hesitant/heartbeat", alive)
    page.get_by_role("link", name="hesitant").click()
    expect(page.get_by_text("2 of them in partitions without a commit")).to_be_visible()
    expect(row_of(page, topic).last).to_contain_text(UNKNOWN)
    api.post("/groups/hesitant/heartbeat", alive)
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_text("no committed offset before")).to_be_visible()


def test_values_that_are_small_or_alone_are_not_shown_as_nothing(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "seldom")
    api.post("/groups/rare/offsets", {"offsets": {topic: {"0": 0}}})
    page = open_page()
    history = {"step_ms": 5000, "at": 1_767_225_600_000, "oldest_age_ms": None}
    rates = {"lag": [None, 1, None], "committed_per_s": [0, 0.01, 0.02], "published_per_s": [0] * 3}
    page.route(
        "**/groups/rare/history?range=15m",
        lambda route: route.fulfill(json={**history, **rates, "time_to_drain_ms": None}),
    )
    page.goto("/console/groups/rare")
    chart = page.locator(".card", has=page.get_by_role("heading", name="In and out"))
    expect(chart.locator(".legend")).to_contain_text("Consumed 0.02/s")
    plot = chart.get_by_role("img")
    expect(plot).to_have_attribute(
        "aria-label", re.compile(r"Newest: Published 0/s, Consumed 0.02/s$")
    )
    plot.focus()
    page.keyboard.press("ArrowLeft")
    expect(plot).to_have_attribute("aria-label", re.compile(r"Consumed 0.01/s$"))
    assert chart.locator("canvas").evaluate(DRAWN)
    lag = page.locator(".card", has=page.get_by_role("heading", name="Lag", exact=True))
    assert lag.locator("canvas").evaluate(DRAWN)


def test_charts_show_the_range_that_is_chosen(open_page: Callable[..., Page], api: HttpApi) -> None:
    topic = topic_of(api, "charted")
    api.publish(topic, "one")
    page = open_page(f"/topics/{topic}?tab=charts")
    with page.expect_response(f"**/topics/{topic}/history?range=24h"):
        page.get_by_role("radio", name="24 h").check(force=True)
    assert "range=24h" in page.url
    page.reload()
    expect(page.get_by_role("radio", name="24 h")).to_be_checked()
    page.goto("/console?range=1h")
    expect(page.get_by_role("radio", name="1 h", exact=True)).to_be_checked()
    plot = page.get_by_role("img", name=re.compile("Messages per second over the last 1 h"))
    expect(plot).to_be_visible()


def test_a_group_is_deleted_when_its_name_is_typed(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "left")
    api.post("/groups/leavers/offsets", {"offsets": {topic: {"0": 0}}})
    page = open_page("/groups/leavers")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete group")).to_be_disabled()
    dialog.get_by_role("textbox").fill("leavers")
    dialog.get_by_role("button", name="Delete group").click()
    expect(dialog.get_by_role("status")).to_contain_text("was deleted")
    assert api.ask("GET", "/groups/leavers").status == 404


def test_dead_letters_are_looked_at_and_sent_back(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "failing")
    bury(api, topic, "workers", '{"id": 1}', '{"id": 2}', HOSTILE)
    page = open_page()
    page.get_by_role("link", name="3 dead letters of failing").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="Dead letters", exact=True).first.click()
    expect(row_of(page, "failing.dlq")).to_contain_text("3")
    page.get_by_role("link", name="failing", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Open letter 0/2").press("Enter")
    letter = page.locator(".card", has=page.get_by_role("heading", name="Letter 0/2"))
    expect(letter.get_by_label("Value", exact=True)).to_have_text(HOSTILE)
    letter.get_by_role("button", name="Redrive", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_role("button", name="Redrive 1").click()
    expect(dialog.get_by_role("status")).to_contain_text("1 of 1 redriven to failing")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Redrive").first.click()
    dialog.get_by_label("Reason").select_option("REJECTED")
    dialog.get_by_label("Messages per second").fill("slowly")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_label("Messages per second")).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("Messages per second").fill("")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_text("would be redriven")).to_contain_text("2 letters")
    dialog.get_by_role("button", name="Redrive 2").click()
    expect(dialog.get_by_role("status")).to_contain_text("2 of 2 redriven to failing")
    back = {each["value"] for each in taken(api, "workers", topic, 3)}
    assert back == {'{"id": 1}', '{"id": 2}', HOSTILE}


def test_dead_letters_are_selected_edited_and_deleted_and_counted_by_error(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "chosen")
    bury(api, topic, "choosers", '{"id": 1}', '{"id": 2}', '{"id": 3}', '{"id": 4}')
    eventually(lambda: api.get(f"/topics/{topic}/dlq")["total"] == 4)
    page = open_page(f"/dead-letters/{topic}?view=errors")
    expect(row_of(page, "REJECTED")).to_contain_text("100 %")
    error = f"no {HOSTILE}".replace("1", "#")
    row_of(page, "REJECTED").get_by_role("button", name=error, exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(4)
    page.get_by_label("Select letter 0/1").check()
    page.get_by_label("Select letter 0/2").check()
    expect(page.locator(".selection").get_by_role("status")).to_have_text("2 selected")
    expect(page.get_by_role("button", name="Select all 4 that match")).to_be_visible()
    page.get_by_role("button", name="Delete selected").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete 2 letters").click()
    expect(dialog.get_by_role("status")).to_contain_text("Deleted: 2 letters.")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Open letter 0/3").click()
    page.get_by_role("button", name="Edit and redrive").click()
    dialog.get_by_label("Value", exact=True).fill('{"id": 40')
    expect(dialog.get_by_text("no longer valid JSON")).to_be_visible()
    dialog.get_by_label("Value", exact=True).fill('{"id": 40}')
    dialog.get_by_role("button", name="Add header").click()
    dialog.get_by_label("Name of header 1").fill("fixed-by")
    dialog.get_by_label("Value of header 1").fill("hand")
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog.get_by_role("status")).to_contain_text("1 of 1 redriven to chosen")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.locator("tbody tr")).to_have_count(1)
    (fixed,) = api.get(f"/topics/{topic}/search?limit=1")["messages"]
    assert (fixed["key"], fixed["value"]) == (HOSTILE, '{"id": 40}')
    assert {"name": "fixed-by", "value": "hand"} in fixed["headers"]
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Redrive selected").click()
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_role("button", name="Redrive 1").click()
    expect(dialog.get_by_role("status")).to_contain_text("1 of 1 redriven to chosen")
    assert api.get(f"/topics/{topic}/dlq")["total"] == 0


def test_queues_show_what_is_in_flight_and_how_lanes_share_turns(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "working")
    api.publish(topic, "one", "two", priority="high")
    first, _ = taken(api, "crew", topic, 2)
    api.post("/messages/ack", {"receipt_handle": first["receipt_handle"]})
    page = open_page("/queues")
    crew = row_of(page, "crew")
    expect(crew).to_be_visible()
    crew.get_by_role("button", name="crew").press("Enter")
    lane = row_of(page, "high")
    expect(lane).to_be_in_viewport()
    expect(lane).to_contain_text("100 %")
    expect(page.get_by_role("heading", name="Deliveries")).to_be_visible()


def test_settings_of_a_queue_are_changed_and_what_is_refused_is_told_at_the_field(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "tuning")
    api.publish(topic, "one")
    taken(api, "tuned", topic, 1)
    page = open_page("/queues?group=tuned")
    page.get_by_role("button", name="Change settings").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Change settings").click()
    expect(dialog.get_by_role("alert")).to_contain_text("No setting has been changed")
    dialog.get_by_label("Visibility timeout").fill("2m")
    dialog.get_by_label("Weights").fill("1, 2")
    expect(dialog).to_contain_text("Visibility timeout: 30s → 2m")
    dialog.get_by_role("button", name="Change settings").click()
    expect(dialog.locator(".at-fault")).to_contain_text("expected 5 whole numbers")
    assert api.get("/groups/tuned/settings")["settings"]["visibility_timeout"] == 30_000
    dialog.get_by_label("Weights").fill("9, 8, 7, 6, 5")
    dialog.get_by_label("Store dead letters").uncheck()
    expect(dialog).to_contain_text("Messages dead-lettered from then on are dropped.")
    dialog.get_by_role("button", name="Change settings").click()
    expect(dialog).to_be_hidden()
    card = page.locator(".card", has=page.get_by_role("heading", name="Delivery settings"))
    expect(card).to_contain_text("critical 9, high 8, normal 7, low 6, background 5")
    expect(card).to_contain_text("dropped")
    found = api.get("/groups/tuned/settings")["settings"]
    assert (found["visibility_timeout"], found["dead_letters"]) == (120_000, False)
    assert (found["max_deliveries"], found["backoff"]) == (3, 1000)


def test_a_delayed_message_is_seen_coming_and_cancelled(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "later")
    (result,) = api.publish(topic, f"soon {HOSTILE}", delay="1h")
    page = open_page("/delayed")
    expect(page.get_by_role("img", name=re.compile("by due time"))).to_be_visible()
    page.get_by_label("Topic").select_option(topic)
    expect(row_of(page, "soon")).to_contain_text(HOSTILE)
    page.get_by_role("button", name=f"Cancel message {result['id']}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("never be delivered")
    dialog.get_by_role("button", name="Cancel message").click()
    expect(dialog.get_by_role("status")).to_contain_text("is cancelled")
    dialog.get_by_role("button", name="Close").last.click()
    expect(row_of(page, "soon")).to_have_count(0)
    assert api.get(f"/topics/{topic}/delayed")["total"] == 0


def test_a_message_is_followed_from_its_publish_to_its_ack(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    topic = topic_of(api, "followed")
    api.publish(topic, "follow me")
    (message,) = taken(api, "followers", topic, 1)
    api.post("/messages/ack", {"receipt_handle": message["receipt_handle"]})
    page = open_page("/traces?topic=followed")
    expect(row_of(page, "followed 0/0")).to_contain_text("completed")
    row_of(page, "followed 0/0").get_by_role("link").click()
    events = page.get_by_role("list", name="Events in order").get_by_role("listitem")
    expect(events).to_contain_text(
        [
            "publish.received",
            "publish.partitioned",
            "publish.persisted",
            "consume.fetched",
            "consume.acked",
        ]
    )
    events.last.get_by_role("button").click()
    expect(page.locator(".card", has_text="followers").last).to_be_visible()
    page.goto("/console/traces")
    page.get_by_label("Trace, or topic/partition/offset").fill("followed/0/0")
    page.keyboard.press("Enter")
    expect(events.first).to_contain_text("publish.received")
    page.goto(f"/console/traces/{'0' * 32}")
    expect(page.get_by_role("alert")).to_be_visible()


def record(*names: str) -> dict[str, Any]:
    fields = [{"name": name, "type": "string", "default": ""} for name in names]
    return {"type": "record", "name": "Order", "fields": fields}


def test_schemas_are_compared_checked_and_registered(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    for names in (("id",), ("id", "customer")):
        api.post("/subjects/orders-value/versions", {"schema": json.dumps(record(*names))})
    page = open_page("/schemas")
    expect(row_of(page, "orders-value")).to_contain_text("AVRO")
    page.get_by_role("link", name="orders-value").click()
    expect(page.get_by_text("What changed from version 1 to 2")).to_be_visible()
    expect(page.locator("tr.new", has_text="customer")).to_be_visible()
    page.get_by_label("Compared with").select_option(label="Nothing")
    expect(page.get_by_role("heading", name="Schema", exact=True)).to_be_visible()
    level = page.get_by_label("Compatibility")
    level.select_option("NONE")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    expect(level).to_have_value("BACKWARD")
    page.get_by_role("button", name="New version").click()
    page.mouse.click(5, 5)  # beside the dialog: what is written stays
    bad = {**record("id"), "fields": [{"name": "id", "type": "long"}]}
    dialog.get_by_label("Schema").fill(json.dumps(bad))
    dialog.get_by_role("button", name="Check compatibility").click()
    expect(dialog.get_by_text("Not compatible with")).to_be_visible()
    dialog.get_by_label("Schema").fill(json.dumps(record("id", "customer", "city")))
    dialog.get_by_role("button", name="Check compatibility").click()
    expect(dialog.get_by_text("Compatible with earlier")).to_be_visible()
    dialog.get_by_role("button", name="Register").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("orders-value was registered")).to_be_visible()
    assert api.get("/subjects/orders-value/versions") == [1, 2, 3]


def test_a_transaction_that_hangs_is_aborted(
    open_page: Callable[..., Page], api: HttpApi, broker: ServerProcess
) -> None:
    topic = topic_of(api, "hanging")
    producer = Producer(
        {
            "bootstrap.servers": broker.kafka_address,
            "transactional.id": "hangs-1",
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(90)
    producer.begin_transaction()
    producer.produce(topic, b"never")
    producer.flush(90)
    page = open_page("/transactions")
    expect(row_of(page, "hangs-1")).to_contain_text("Ongoing")
    page.get_by_role("button", name="Abort hangs-1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("hanging 0")
    dialog.get_by_role("button", name="Abort transaction").click()
    expect(dialog.get_by_role("status")).to_contain_text("was aborted")
    dialog.get_by_role("button", name="Close").last.click()
    expect(row_of(page, "hangs-1")).to_contain_text("CompleteAbort")


@pytest.mark.parametrize("state", ["running", "failed"])
def test_pipelines_show_how_they_get_on(
    open_page: Callable[..., Page], api: HttpApi, state: str
) -> None:
    query = {
        "name": "revenue-out",
        "id": "1",
        "run_id": "2",
        "state": state,
        "sink": "topic revenue",
        "sources": ["orders"],
        "batch_id": 12,
        "batch_ms": 230,
        "rows": 120_000,
        "rows_per_second": 5120.5,
        "lag": 340,
        "error": f"no column {HOSTILE}\n  at line 3" if state == "failed" else None,
    }
    report = {
        "state": state,
        "master": "local[*]",
        "host": "laptop",
        "queries": [query],
        "interval_ms": 600_000,
    }
    answer = api.ask("PUT", f"/pipelines/revenue-{state}", report)
    assert answer.status == 200, answer.json
    page = open_page("/pipelines")
    line = row_of(page, f"revenue-{state}")
    expect(line).to_contain_text("5.1k/s")
    expect(line).to_contain_text("340")
    line.get_by_role("link").click()
    expect(row_of(page, "revenue-out")).to_contain_text("230 ms")
    if state == "failed":
        told = page.locator(".lines", has_text="no column").inner_text()
        assert told == f"no column {HOSTILE}\n  at line 3"
    page.get_by_role("button", name="Forget").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(page.get_by_role("status").last).to_contain_text("is forgotten")
    assert api.ask("GET", f"/pipelines/revenue-{state}").status == 404

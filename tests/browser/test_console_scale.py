"""The console on a broker that holds a lot."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from support.console_axe import NARROW, Judge
from support.dead_letters import add_dead_letters

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from support.http_api import HttpApi

TOPICS: Final = 500
GROUPS: Final = 50
MANY: Final = 1_000_000
LETTERS: Final = 10_000
BATCH: Final = 10_000
TRIES: Final = 3
WITHIN_MS: Final = 1000

WATCH: Final = """
    window.shownAfter = null;
    new MutationObserver(() => {
        if (window.shownAfter === null && document.querySelector(%s)) {
            window.shownAfter = performance.now();
        }
    }).observe(document, { childList: true, subtree: true });
"""


PALETTE: Final = """async (typed) => {
    const begun = performance.now();
    const found = async (selector, text) => {
        for (;;) {
            const all = [...document.querySelectorAll(selector)];
            const element = all.find(each => text === null || each.textContent === text);
            if (element) return element;
            await new Promise(resolve => requestAnimationFrame(resolve));
        }
    };
    const press = { key: "k", ctrlKey: true, bubbles: true, cancelable: true };
    document.body.dispatchEvent(new KeyboardEvent("keydown", press));
    const box = await found("dialog [role=combobox]", null);
    box.value = typed;
    box.dispatchEvent(new InputEvent("input", { bubbles: true }));
    await found("dialog .palette-title", typed);
    return performance.now() - begun;
}"""


def shown_after_ms(
    open_page: Callable[..., Page], path: str, selector: str, **options: Any
) -> float:
    """From the beginning of the navigation to what was waited for, at its best of a few tries."""
    found = []
    for _ in range(TRIES):
        page = open_page("/no-such-page", **options)
        page.add_init_script(WATCH % json.dumps(selector))
        page.goto(f"/console{path}")
        expect(page.locator(selector).first).to_be_visible()
        found.append(float(page.evaluate("window.shownAfter")))
        page.context.close()
    return min(found)


def are_usable(open_page: Callable[..., Page], axe: str, pages: dict[str, str]) -> None:
    """Pages show what they are about within a second, on any screen, and axe finds nothing."""
    slow, problems = [], []
    for options in ({}, {"viewport": NARROW}):
        for path, selector in pages.items():
            took_ms = shown_after_ms(open_page, path, selector, **options)
            if took_ms >= WITHIN_MS:
                slow.append(f"{path} {options}: {took_ms:.0f} ms")
            page = open_page(path, color_scheme="light", reduced_motion="reduce", **options)
            expect(page.locator(selector).first).to_be_visible()
            judged = Judge(page, axe)
            judged.look(f"{path} {options}")
            problems += judged.found
            page.context.close()
    assert not slow
    assert not problems


@pytest.mark.slow
def test_with_500_topics_and_50_groups_pages_are_usable_within_a_second(
    open_page: Callable[..., Page], api: HttpApi, axe: str
) -> None:
    for number in range(TOPICS):
        api.post("/topics", {"name": f"topic-{number:03}", "num_partitions": 3})
        api.publish(f"topic-{number:03}", "one", "two", "three")
    for number in range(GROUPS):
        topics = [f"topic-{(number * 10 + each) % TOPICS:03}" for each in range(10)]
        api.post(f"/groups/group-{number:02}/join", {"topics": topics})
        queue = {"topics": topics[:1], "assignment": "shared"}
        api.post(f"/groups/queue-{number:02}/join", queue)
    row = "tbody tr"
    pages = {"": ".stats", **dict.fromkeys(["/topics", "/groups", "/cluster"], row)}
    are_usable(open_page, axe, pages | dict.fromkeys(["/queues", "/traces"], row))
    last = f"topic-{TOPICS - 1}"
    took_ms = []
    for _ in range(TRIES):
        page = open_page()
        expect(page.locator(".stats").first).to_be_visible()
        took_ms.append(float(page.evaluate(PALETTE, last)))
        page.context.close()
    assert min(took_ms) < WITHIN_MS
    page = open_page("/cluster")
    listed = page.get_by_role("region", name="Partitions", exact=True).locator("tbody tr")
    expect(page.get_by_text(re.compile(r"The first 1,000 of 1,\d+"))).to_be_visible()
    page.get_by_role("searchbox", name="Filter partitions").fill(last)
    expect(listed).to_have_count(3)
    expect(listed.first).to_contain_text(f"{last}-0")


@pytest.mark.slow
def test_ten_thousand_dead_letters_are_usable_within_a_second(
    open_page: Callable[..., Page], api: HttpApi, axe: str
) -> None:
    add_dead_letters(api, "dying", LETTERS)
    listed = "/dead-letters/dying"
    pages = [listed, f"{listed}?view=errors", f"{listed}?reason=TTL_EXPIRED"]
    are_usable(open_page, axe, dict.fromkeys([*pages, "/dead-letters"], "tbody tr"))


def test_all_of_many_dead_letters_are_paged_counted_and_selected(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    add_dead_letters(api, "many", 400)
    page = open_page("/dead-letters/many")
    pager = page.get_by_role("navigation", name="Pages of dead letters")
    expect(pager).to_contain_text("1\u2013100 of 400")
    page.get_by_label("Next page").click()
    expect(pager).to_contain_text("101\u2013200 of 400")
    page.get_by_label("By error", exact=True).check()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.first).to_contain_text("no customer #")
    expect(rows.first).to_contain_text("150")
    rows.first.get_by_role("button", name="no customer #", exact=True).click()
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Select all 150 that match").click()
    page.get_by_role("button", name="Delete selected").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete 150 letters").click()
    expect(dialog.get_by_role("status")).to_contain_text("Deleted: 150 letters.")
    assert api.get("/topics/many/dlq")["total"] == 250


@pytest.mark.slow
def test_a_topic_with_a_million_messages_opens_as_fast_as_one_with_a_few(
    open_page: Callable[..., Page], api: HttpApi, axe: str
) -> None:
    for name, count in (("short", 100), ("long", MANY)):
        api.post("/topics", {"name": name, "num_partitions": 1})
        for first in range(0, count, BATCH):
            messages = [{"value": str(each)} for each in range(first, min(first + BATCH, count))]
            api.post(f"/topics/{name}/messages", {"messages": messages})
    row = ".messages tbody tr"
    few = shown_after_ms(open_page, "/topics/short", row)
    many = shown_after_ms(open_page, "/topics/long", row)
    middle = shown_after_ms(open_page, f"/topics/long?partition=0&offset={MANY // 2}", row)
    assert many < 2 * few + 100
    assert middle < 2 * few + 100
    are_usable(open_page, axe, {"/topics/long": row, "/topics/long?tab=partitions": "tbody tr"})

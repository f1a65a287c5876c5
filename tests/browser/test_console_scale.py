"""The console on a broker that holds a lot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from support.http_api import HttpApi

TOPICS: Final = 500
GROUPS: Final = 50
MANY: Final = 1_000_000
BATCH: Final = 10_000
TRIES: Final = 3

WATCH: Final = """
    window.shownAfter = null;
    new MutationObserver(() => {
        if (window.shownAfter === null && document.querySelector(%s)) {
            window.shownAfter = performance.now();
        }
    }).observe(document, { childList: true, subtree: true });
"""


def shown_after_ms(open_page: Callable[..., Page], path: str, selector: str) -> float:
    """From the beginning of the navigation to what was waited for, at its best of a few tries."""
    found = []
    for _ in range(TRIES):
        page = open_page("/no-such-page")
        page.add_init_script(WATCH % json.dumps(selector))
        page.goto(f"/console{path}")
        expect(page.locator(selector).first).to_be_visible()
        found.append(float(page.evaluate("window.shownAfter")))
        page.context.close()
    return min(found)


@pytest.mark.slow
def test_with_500_topics_and_50_groups_the_first_page_is_usable_within_a_second(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    for number in range(TOPICS):
        api.post("/topics", {"name": f"topic-{number:03}", "num_partitions": 3})
        api.publish(f"topic-{number:03}", "one", "two", "three")
    for number in range(GROUPS):
        topics = [f"topic-{(number * 10 + each) % TOPICS:03}" for each in range(10)]
        api.post(f"/groups/group-{number:02}/join", {"topics": topics})
    assert shown_after_ms(open_page, "", ".stats") < 1000
    assert shown_after_ms(open_page, "/topics", "tbody tr") < 1000
    assert shown_after_ms(open_page, "/groups", "tbody tr") < 1000


@pytest.mark.slow
def test_a_topic_with_a_million_messages_opens_as_fast_as_one_with_a_few(
    open_page: Callable[..., Page], api: HttpApi
) -> None:
    for name, count in (("few", 100), ("many", MANY)):
        api.post("/topics", {"name": name, "num_partitions": 1})
        for first in range(0, count, BATCH):
            messages = [{"value": str(each)} for each in range(first, min(first + BATCH, count))]
            api.post(f"/topics/{name}/messages", {"messages": messages})
    row = ".messages tbody tr"
    few = shown_after_ms(open_page, "/topics/few", row)
    many = shown_after_ms(open_page, "/topics/many", row)
    middle = shown_after_ms(open_page, f"/topics/many?partition=0&offset={MANY // 2}", row)
    assert many < 2 * few + 100
    assert middle < 2 * few + 100

"""The charts of the console on a broker that was stopped and killed."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from support.http_api import HttpApi
    from support.server import ServerProcess

PUBLISHED: Final = re.compile(r"Published (?:[1-9]|0\.\d*[1-9])")
POINTS: Final = 60
WITHIN_S: Final = 90


def shows_published(page: Page) -> bool:
    """Whether a point of the chart, as the arrow keys go through them, has a published message."""
    plot = page.get_by_role("img", name=re.compile("^Messages per second"))
    plot.focus()
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        for _ in range(POINTS):
            if PUBLISHED.search(plot.get_attribute("aria-label") or ""):
                return True
            page.keyboard.press("ArrowLeft")
        plot.blur()
        plot.focus()
    return False


@pytest.mark.slow
def test_points_from_before_a_restart_and_a_kill_are_still_in_the_charts(
    open_page: Callable[..., Page], broker: ServerProcess, api: HttpApi
) -> None:
    def published() -> list[Any]:
        found = api.get("/topics/charted/history?range=5m")
        return [each for each in found["published_per_s"] if each]

    api.post("/topics", {"name": "charted", "num_partitions": 1})
    api.publish("charted", *("message" for _ in range(50)))
    eventually(published)
    page = open_page("/topics/charted?tab=charts&range=5m")
    assert shows_published(page)
    for end in (broker.stop, broker.kill):
        end()
        broker.start()  # which publishes nothing: what is shown is from before
        page.reload()
        expect(page.get_by_role("tab", name="Charts")).to_have_attribute("aria-selected", "true")
        assert shows_published(page)

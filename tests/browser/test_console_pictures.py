"""The pictures of the console in the documentation: taken of a broker with something to show."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from support.dead_letters import add_dead_letters
from support.pictures import CLUSTER, DOCS, WIDE, take_picture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from support.http_api import HttpApi

NARROW: Final = {"width": 390, "height": 844}
COLUMNS: Final = "columns=customer.country,amount,status"
PICTURES: Final[dict[str, tuple[str, str, dict[str, int]]]] = {
    "console-overview": ("", "Needs attention", WIDE),
    "console-messages": (f"/topics/orders?{COLUMNS}", "shipped", WIDE),
    "console-queue-settings": ("/queues?group=billing", "Deliveries", WIDE),
    "console-dead-letters": ("/dead-letters/payments?letter=0/3", "Original message", WIDE),
    "console-dead-letter-errors": ("/dead-letters/payments?view=errors", "no customer #", WIDE),
    "console-topic-settings": ("/topics/orders?tab=settings", "Changed for this topic", WIDE),
    "console-traces": ("/traces", "Slower than 1 s", WIDE),
    "console-narrow": ("/dead-letters/payments?view=errors", "no customer #", NARROW),
}
"""The page of each, what is waited for, and the size."""


def furnish(api: HttpApi) -> None:
    """Orders that are read, rejected, delayed and dead."""
    settings = {"retention.ms": "86400000", "max.message.bytes": "2000000"}
    api.post("/topics", {"name": "orders", "num_partitions": 3, "settings": settings})
    statuses = ("new", "paid", "shipped")
    orders = [
        {
            "order_id": 100_000 + at,
            "status": statuses[at % 3],
            "customer": {"id": at * 31 % 500, "country": ("DE", "FR", "US")[at % 3]},
            "amount": at * 1777 % 90_000 / 100,
        }
        for at in range(500)
    ]
    messages = [
        {"key": f"customer-{at % 97}", "value": json.dumps(each)} for at, each in enumerate(orders)
    ]
    api.post("/topics/orders/messages", {"messages": messages})
    joined = api.post("/groups/billing/join", {"topics": ["orders"], "assignment": "shared"})
    member = joined["member_id"]
    found: list[dict[str, Any]] = []
    while len(found) < 20:
        poll = f"/groups/billing/poll?member_id={member}&timeout=60s&limit=20"
        found += api.get(poll)["messages"]
    handles = [each["receipt_handle"] for each in found]
    api.post("/messages/ack/batch", {"receipt_handles": handles[:15]})
    reason = {"reason": "no customer 4711"}
    api.post("/messages/reject/batch", {"receipt_handles": handles[15:18], **reason})
    add_dead_letters(api, "payments", 2000)


@pytest.mark.slow
def test_pictures_of_the_documentation_show_the_console_as_it_is(
    open_page: Callable[..., Page], api: HttpApi, tmp_path: Path
) -> None:
    furnish(api)
    for name, (path, seen, size) in PICTURES.items():
        page = open_page(path, viewport=size, color_scheme="light")
        expect(page.locator("main").get_by_text(seen).first).to_be_visible()
        if name == "console-queue-settings":
            page.get_by_role("button", name="Change settings").click()
            expect(page.get_by_role("dialog")).to_be_visible()
        take_picture(page, name, tmp_path)
        page.context.close()


def test_every_picture_of_the_console_is_taken_and_shown() -> None:
    page = (DOCS / "console.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\]\(images/([a-z-]+)\.png\)", page))
    kept = {each.stem for each in (DOCS / "images").glob("console-*.png")}
    assert shown == kept == {*PICTURES, CLUSTER}

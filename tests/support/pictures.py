"""Pictures of the console in the documentation: stored by `make pictures`, dropped otherwise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

DOCS: Final = Path(__file__).parents[2] / "docs"
WIDE: Final = {"width": 1280, "height": 860}
CLUSTER: Final = "console-cluster"
_EMPTY_BYTES: Final = 10_000


def take_picture(page: Page, name: str, folder: Path) -> None:
    """Store what a page shows as `docs/images/NAME.png`, or in the folder of a test."""
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    file = (DOCS / "images" if os.environ.get("GOQUEUE_PICTURES") else folder) / f"{name}.png"
    page.screenshot(path=file, animations="disabled")
    assert file.stat().st_size > _EMPTY_BYTES

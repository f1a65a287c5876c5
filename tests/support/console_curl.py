"""Commands that the console copies, run as a person would paste them."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

CLIPBOARD: Final = {"permissions": ["clipboard-read", "clipboard-write"]}
"""What a page's browser context needs for `copied`."""


def copied(page: Page) -> str:
    """The text on the clipboard."""
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def run_curl(command: str, **environment: str) -> Any:
    """The JSON that a command prints in a shell; an AssertionError with the body if it fails."""
    assert command.startswith("curl '")
    strict = command.replace("curl ", "curl -sS --fail-with-body -m 60 ", 1)
    shell = subprocess.run(
        ["sh", "-c", strict],
        check=False,
        capture_output=True,
        timeout=90,
        env=os.environ | environment,
    )
    assert shell.returncode == 0, shell.stdout
    return json.loads(shell.stdout)

"""The console in a real browser: Debian's Chromium, driven by Playwright.

One browser serves all files of this folder (`tests/conftest.py` gives them to one worker), each
test gets a profile of its own. Playwright keeps an event loop of its own in this thread, in which
other tests could not run theirs: so the browser ends with the last test of the folder, not with the
run.

Whatever a test does, these hold at its end: no script has thrown, nothing was asked of another
host, and nothing broke the page's content security policy.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from support.console_web import add_packages
from support.http_api import HttpApi
from support.server import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import BrowserContext, ConsoleMessage, Request

FOREIGN: Final = "prizes.example"
FOREIGN_ADDRESS: Final = "127.0.0.2"
FLAGS: Final = (
    f"--host-resolver-rules=MAP {FOREIGN} {FOREIGN_ADDRESS}",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE: Final = {"width": 1440, "height": 900}
PATIENCE_MS: Final = 90_000
"""What a page may take to show something; it mostly takes a thousandth of it."""

expect.set_options(timeout=PATIENCE_MS)


class Chromium:
    """The browser, started when somebody needs it."""

    def __init__(self) -> None:
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def get(self) -> Browser:
        if self._browser is None:
            path = shutil.which("chromium")
            if path is None:
                reason = "Chromium is not installed (Debian: apt-get install chromium)"
                pytest.fail(reason) if "CI" in os.environ else pytest.skip(reason)
            self._playwright = sync_playwright().start()
            sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
            self._browser = self._playwright.chromium.launch(
                executable_path=path, args=[*FLAGS, *sandbox], timeout=2 * PATIENCE_MS
            )
        return self._browser

    def close(self) -> None:
        if self._browser is not None:
            self._browser.close()
            self._browser = None
        if self._playwright is not None:
            self._playwright.stop()
            self._playwright = None


_chromium = Chromium()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _chromium.close()


class Faults:
    """What must not happen in any test."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.found: list[str] = []

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.found.append(f"a script threw: {error}"))
        page.on("request", self._asked)
        page.on("console", self._said)
        page.on("dialog", lambda dialog: self.found.append(f"a dialog opened: {dialog.message}"))

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self._origin, "blob:", "data:")):
            self.found.append(f"another host was asked: {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.found.append(message.text)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests of a file, in a process of its own."""
    server = ServerProcess(tmp_path_factory.mktemp("broker") / "data")
    server.start()
    yield server
    server.close()


@pytest.fixture
def api(broker: ServerProcess) -> Iterator[HttpApi]:
    """The broker's API, to prepare what the browser is to show, and to see what it did."""
    found = HttpApi(broker.http_port)
    yield found
    found.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core."""
    packages = add_packages(tmp_path_factory.mktemp("packages"))
    return (packages / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def new_context() -> Iterator[Callable[[], BrowserContext]]:
    """Makes fresh profiles, for pages that are not the console's."""
    made: list[BrowserContext] = []

    def make() -> BrowserContext:
        made.append(_chromium.get().new_context())
        made[-1].set_default_timeout(PATIENCE_MS)
        return made[-1]

    yield make
    for context in made:
        context.close()


@pytest.fixture
def open_page(broker: ServerProcess) -> Iterator[Callable[..., Page]]:
    """Opens a path below /console in a fresh profile; options are those of a browser context."""
    contexts = []
    faults = Faults(broker.http_url)

    def open_at(path: str = "", **options: Any) -> Page:
        context = _chromium.get().new_context(
            **{"base_url": broker.http_url, "viewport": WIDE, **options}
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        faults.watch(page)
        page.goto(f"/console{path}")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert not faults.found

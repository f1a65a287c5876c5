"""The web console in a real browser: how soon its pages can be used, whatever the broker holds."""

from __future__ import annotations

import http.client
import json
import os
import shutil
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks._brokers import http_port, start_goqueue
from benchmarks._spark_data import Topic
from benchmarks._turns import expect
from benchmarks.harness import Run, benchmark, percentiles, timed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

TOPICS: Final = 500
GROUPS: Final = 50
MESSAGES: Final = int(os.environ.get("GOQUEUE_BENCH_CONSOLE_MESSAGES", "10000000"))
TURNS: Final = 9
CALLS: Final = 50
_FLAGS: Final = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")


class Bench:
    """A broker, and a browser that looks at it."""

    def __init__(self, address: str, port: int, browser: Browser) -> None:
        self.address = address
        self._port = port
        self._browser = browser

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Ask the API; a refusal ends the benchmark."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"content-type": "application/json"})
            answer = connection.getresponse()
            found = json.loads(answer.read() or b"null")
            expect(answer.status < 300, f"{method} {path}: {answer.status} {found}")
            return found
        finally:
            connection.close()

    def opened_s(self, path: str, usable: str) -> float:
        """From typing an address, with nothing cached, to the content that makes it usable."""
        context = self._browser.new_context(viewport={"width": 1440, "height": 900})
        page: Page = context.new_page()
        try:
            with timed() as watch:
                page.goto(f"http://127.0.0.1:{self._port}/console{path}", wait_until="commit")
                page.wait_for_selector(usable)
            return watch.seconds
        finally:
            context.close()


@contextmanager
def looking(folder: Path) -> Iterator[Bench]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - this group alone

    chromium = shutil.which("chromium")
    expect(chromium is not None, "Chromium is not installed (Debian: apt-get install chromium)")
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with start_goqueue(folder) as broker, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*_FLAGS, *root])
        yield Bench(broker.address, http_port(broker), browser)
        browser.close()


USABLE: Final = {
    "": ".card:has(h2:text('What it holds')) dd",
    "/topics": "tbody tr",
    "/groups": "tbody tr, .empty",
}


@benchmark("first_page", "The first page with 500 topics and 50 groups, against an empty broker")
def first_page(run: Run) -> None:
    with looking(run.scratch / "few") as bench:
        bench.call("POST", "/topics", {"name": "alone", "num_partitions": 1})
        few = _opened(run, bench)
    with looking(run.scratch / "many") as bench:
        for number in range(TOPICS):
            bench.call("POST", "/topics", {"name": f"topic-{number:03d}", "num_partitions": 1})
        for number in range(GROUPS):
            offsets = {f"topic-{number * 7 % TOPICS:03d}": {"0": 0}}
            bench.call("POST", f"/groups/group-{number:02d}/offsets", {"offsets": offsets})
        many = _opened(run, bench)
        answers_s = []
        for _ in range(CALLS):
            with timed() as watch:
                bench.call("GET", "/overview")
            answers_s.append(watch.seconds)
    for path in USABLE:
        name = f"/console{path}"
        run.row(f"{name}, one topic", few[path] * 1000, "ms")
        run.row(
            f"{name}, {TOPICS} topics, {GROUPS} groups",
            many[path] * 1000,
            "ms",
            many[path] / few[path],
            "one topic",
        )
    for name, value in percentiles(answers_s).items():
        run.row(f"GET /overview, {TOPICS} topics, {name}", value * 1000, "ms")
    run.note(f"medians of {TURNS} turns in headless Chromium, each with an empty profile")
    run.note("from typing the address to the first figures or rows on the page")


def _opened(run: Run, bench: Bench) -> dict[str, float]:
    taken: dict[str, list[float]] = {path: [] for path in USABLE}
    for path, usable in USABLE.items():
        bench.opened_s(path, usable)
    for _ in run.progress(TURNS, "opening"):
        for path, usable in USABLE.items():
            taken[path].append(bench.opened_s(path, usable))
    return {path: median(found) for path, found in taken.items()}


@benchmark("browse", "Browsing a topic of ten million messages, against one of three thousand")
def browse(run: Run) -> None:
    with looking(run.scratch / "broker") as bench:
        sizes = {"small": 3000, "large": MESSAGES}
        for name, count in sizes.items():
            Topic(bench.address, name, 6).fill(count)
        pages: dict[str, list[float]] = {name: [] for name in sizes}
        calls: dict[str, list[float]] = {name: [] for name in sizes}
        for name in sizes:
            bench.opened_s(f"/topics/{name}", ".messages tbody tr")
        for _ in run.progress(TURNS, "browsing"):
            for name in sizes:
                pages[name].append(bench.opened_s(f"/topics/{name}", ".messages tbody tr"))
                for _ in range(CALLS // TURNS):
                    with timed() as watch:
                        bench.call("GET", f"/topics/{name}/search?limit=50")
                    calls[name].append(watch.seconds)
    for what, found in (("page", pages), ("newest 50 by the API", calls)):
        small, large = median(found["small"]), median(found["large"])
        run.row(f"{what}, 3000 messages", small * 1000, "ms")
        run.row(f"{what}, {MESSAGES} messages", large * 1000, "ms", large / small, "3000 messages")
    run.note(f"medians of {TURNS} turns; 6 partitions, 100-byte values")

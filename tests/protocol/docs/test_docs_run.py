"""Every command and program of the documentation runs, in the order of its page."""

from __future__ import annotations

import re
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from goqueue.testing import Broker
from support.doc_hook import PAGE, on_page_markdown
from support.doc_pages import ROOT, pages, read_page
from support.doc_scripts import draw_ports, environment_of, script_of, starts_a_broker
from support.etcd import need_etcd
from support.server import HOST

if TYPE_CHECKING:
    from pathlib import Path

    from support.doc_pages import Page

LIMIT_S = 540
PAGES = [page for page in pages() if page.has_commands and not page.run_by]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.is_slow else [])
        for page in PAGES
    ],
)
def test_the_commands_of_a_page_run_and_print_what_it_says(page: Page, tmp_path: Path) -> None:
    if "cluster" in page.words:
        need_etcd()
    ports = draw_ports()
    if starts_a_broker(page):
        output = run(page, tmp_path, script_of(page, tmp_path, ports), environment_of(ports))
    else:
        settings = {
            "listeners.kafka": f"{HOST}:{ports.kafka}",
            "listeners.http": f"{HOST}:{ports.http}",
            "listeners.grpc": f"{HOST}:{ports.grpc}",
        }
        with Broker(data_dir=tmp_path / "broker", settings=settings):
            output = run(page, tmp_path, script_of(page, tmp_path, ports), environment_of(ports))
    printed = {normal(line) for line in output.splitlines()}
    missing = [
        f"line {block.line}: {line}"
        for block in page.blocks
        if block.is_checked
        for line in block.text.splitlines()
        if line.strip() not in {"", "..."} and normal(line) not in printed
    ]
    assert missing == [], output


def run(page: Page, folder: Path, script: str, environment: dict[str, str]) -> str:
    """Run a page; its output."""
    file = folder / ".page.sh"
    file.write_text(script)
    out = folder / ".output"
    with out.open("w") as stream:
        done = subprocess.run(
            ["bash", str(file)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
    output = out.read_text(errors="replace")
    assert done.returncode == 0, f"{page.name}\n{output[-6000:]}"
    return output


def normal(line: str) -> str:
    """A line without what differs from run to run: numbers, times, ids, spaces of a table."""
    line = re.sub(r"\b[0-9a-f]{8,}(-[0-9a-f]{4,})*\b", "0", line)
    line = re.sub(r"\d+([.,:T-]\d+)*Z?", "0", line)
    return re.sub(r"[\s─-]+", " ", line).strip()


def test_every_page_that_another_test_runs_is_named_by_that_test() -> None:
    elsewhere = [page for page in pages() if page.run_by]
    assert elsewhere
    for page in elsewhere:
        text = (ROOT / page.run_by).read_text(encoding="utf-8")
        assert page.path.name in text, f"{page.run_by} does not name {page.name}"


def test_the_site_lists_every_block_that_is_not_run_with_its_reason() -> None:
    left_out = [block for page in pages() for block in page.blocks if block.is_left_out]
    shown = on_page_markdown("", page=SimpleNamespace(file=SimpleNamespace(src_uri=PAGE)))
    assert len(left_out) > 10
    assert shown.count("\n| ") == len(left_out) + 2  # and the two lines of its head
    assert all(f"| {block.reason} |" in shown for block in left_out)


def test_a_page_says_which_blocks_are_not_run_and_which_are_files(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- snippets: slow -->\n\n```sh\n$ a \\\n  b\nout\n```\n\n<!-- not run: no AWS -->\n\n"
        '```sh\nc\n```\n\n```python title="x.py"\nd\n```\n\n<!-- checked -->\n\n```text\ne\n```\n'
    )
    read = read_page(page)
    assert read.is_slow
    assert [block.is_run for block in read.blocks] == [True, False, False, False]
    assert [block.reason for block in read.blocks] == ["", "no AWS", "", ""]
    assert [block.title for block in read.blocks] == ["", "", "x.py", ""]
    assert [block.is_checked for block in read.blocks] == [False, False, False, True]

"""Every command and program of the documentation runs, in the order of its page."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from goqueue.testing import Broker
from support.doc_hook import PAGE, on_page_markdown
from support.doc_pages import ROOT, pages, read_page
from support.doc_runs import run_page
from support.doc_scripts import draw_ports, environment_of, starts_a_broker
from support.etcd import need_etcd
from support.server import HOST

if TYPE_CHECKING:
    from pathlib import Path

    from support.doc_pages import Page

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
    environment = environment_of(ports)
    if starts_a_broker(page):
        run_page(page, tmp_path, ports, environment)
        return
    settings = {
        "listeners.kafka": f"{HOST}:{ports.kafka}",
        "listeners.http": f"{HOST}:{ports.http}",
        "listeners.grpc": f"{HOST}:{ports.grpc}",
    }
    with Broker(data_dir=tmp_path / "broker", settings=settings):
        run_page(page, tmp_path, ports, environment)


def test_every_page_that_another_test_runs_is_named_by_that_test() -> None:
    elsewhere = [page for page in pages() if page.run_by]
    assert elsewhere
    for page in elsewhere:
        text = (ROOT / page.run_by).read_text(encoding="utf-8")
        assert page.path.name in text, f"{page.run_by} does not name {page.name}"


def test_a_test_that_a_reason_names_exists() -> None:
    reasons = " ".join(block.reason for page in pages() for block in page.blocks)
    named = set(re.findall(r"tests/[\w/.]+\w", reasons))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


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

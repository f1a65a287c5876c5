"""The pages of the documentation as programs: which blocks run, in which order, and which do not.

A page says what to do with its blocks in HTML comments, which readers do not see:

- `<!-- not run: REASON -->` before a block: it cannot run here, and is listed on the site.
- A block of `json` or `yaml` is data for its own reader: `tests/unit/docs/test_doc_data.py`.
- `<!-- checked -->` before a block of output: each of its lines is printed by the page's blocks, in
  any order. Numbers may differ; a line `...` stands for any lines.
- `<!-- until: PATTERN -->` before a block: it is run again until its output matches.
- `<!-- snippets: slow -->`: the page runs with the slow tests.
- `<!-- snippets: run by tests/FILE.py -->`: another test runs the whole page.
- `<!-- snippets: cluster -->`: the page starts a cluster and needs etcd.

`PYTHONPATH=tests python -m support.doc_pages` lists what does not run, as the site does.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
RUNNABLE: Final = {"sh", "bash", "console", "python"}
OUTPUT: Final = "text"
DATA: Final = {"json", "yaml"}
_FENCE = re.compile(
    r'^(?P<indent> *)```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?[^\n]*\n'
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(
    r"<!-- (not run: (?P<reason>[^>]+?)|(?P<checked>checked)|until: (?P<until>.+?)) -->\s*\Z"
)
_PAGE = re.compile(r"<!-- snippets: (?P<words>[^>]+?) -->")
_RUN_BY = re.compile(r"run by (tests/\S+\.py)")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    line: int
    language: str
    title: str
    """The file that it is, where it is one."""
    text: str
    reason: str
    """Why it is not run; empty for those that are."""
    is_checked: bool
    until: str = ""
    """A pattern that its output matches sooner or later."""

    @property
    def is_run(self) -> bool:
        return self.language in RUNNABLE and not self.reason and not self.title

    @property
    def is_left_out(self) -> bool:
        return self.language != OUTPUT and bool(self.reason)


@dataclass(frozen=True)
class Page:
    """One page with its blocks."""

    path: Path
    blocks: tuple[Block, ...]
    words: frozenset[str]

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def run_by(self) -> str:
        """The test that runs this page, where it is not the common one."""
        found = [_RUN_BY.match(word) for word in self.words]
        return next((each.group(1) for each in found if each), "")

    @property
    def is_slow(self) -> bool:
        return "slow" in self.words

    @property
    def has_commands(self) -> bool:
        return any(block.is_run for block in self.blocks)


def read_page(path: Path) -> Page:
    """Parse a page."""
    text = path.read_text(encoding="utf-8")
    blocks = []
    for match in _FENCE.finditer(text):
        comment = _COMMENT.search(text[: match.start()])
        indent = match["indent"]
        lines = [line.removeprefix(indent) for line in match["text"].splitlines()]
        blocks.append(
            Block(
                line=text.count("\n", 0, match.start()) + 1,
                language=match["language"],
                title=match["title"] or "",
                text="\n".join(lines) + "\n",
                reason=(comment["reason"] or "") if comment else "",
                is_checked=bool(comment and comment["checked"]),
                until=(comment["until"] or "") if comment else "",
            )
        )
    return Page(path, tuple(blocks), frozenset(each["words"] for each in _PAGE.finditer(text)))


def pages() -> list[Page]:
    """Every page with blocks, README first."""
    paths = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in map(read_page, paths) if page.blocks]


def commands_of(block: Block) -> str:
    """What is run of a block; of one with `$ ` before its commands, only these."""
    lines = block.text.splitlines()
    if not any(line.startswith("$ ") for line in lines):
        return block.text
    taken, goes_on = [], False
    for line in lines:
        if line.startswith("$ ") or goes_on:
            taken.append(line.removeprefix("$ "))
            goes_on = line.endswith("\\")
    return "\n".join(taken) + "\n"


def table_of_left_out() -> str:
    """What no test runs, with the reasons, as the site shows it."""
    lines = ["| page | begins with | reason |", "| --- | --- | --- |"]
    for page in pages():
        link = "README" if page.path.name == "README.md" else page.path.relative_to(DOCS).as_posix()
        name = link if link == "README" else f"[{link}](../{link})"
        for block in page.blocks:
            if block.is_left_out:
                first = commands_of(block).splitlines()[0].replace("|", "\\|")
                lines.append(f"| {name} | `{first}` | {block.reason} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table_of_left_out())

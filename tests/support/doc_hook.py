"""What mkdocs calls while it builds the site: it fills the page of commands that no test runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.doc_pages import table_of_left_out

PAGE = "reference/not-run.md"


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Add the table to its page; mkdocs calls this for every page."""
    return f"{markdown}\n\n{table_of_left_out()}" if page.file.src_uri == PAGE else markdown

"""Fill the tables of docs/performance.md with the last recorded run of each benchmark.

    python -m benchmarks._performance_page

The page names a benchmark in a pair of comments, with a pattern of labels if not all rows are
wanted, and what stands between the comments is made anew. Below the table of a whole benchmark
stands what was asked for and not reached.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from benchmarks.harness import RECORDED_RESULTS, ROOT, readable

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = ROOT / "docs" / "performance.md"
_TABLE: Final = re.compile(r"(<!-- begin (\S+?)(?:: (.+?))? -->\n).*?(<!-- end -->)", re.DOTALL)
_GB: Final = 1 << 30
MISSED: Final = "MISSED"
"""What the notes of a run begin with that say what was asked for and not reached."""


def filled(page: str, results: Path = RECORDED_RESULTS) -> str:
    """The page with the tables that the results make."""
    last: dict[str, dict[str, Any]] = {}
    for line in results.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        last[entry["benchmark"]] = entry

    def table(found: re.Match[str]) -> str:
        begin, name, wanted, end = found.groups()
        return f"{begin}\n{_table(name, wanted or '', last.get(name))}\n\n{end}"

    return _TABLE.sub(table, page)


def _table(name: str, wanted: str, entry: dict[str, Any] | None) -> str:
    if entry is None:
        return f"`{name}` has not been recorded yet."
    lines = [_origin(entry), "", "| what | value | ratio |", "| --- | ---: | ---: |"]
    for row in entry["rows"]:
        if not re.search(wanted, row["label"]):
            continue
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
        lines.append(f"| {row['label']} | {readable(row['value'])} {row['unit']} | {ratio} |")
    missed = [note for note in entry["notes"] if note.startswith(MISSED) and not wanted]
    return "\n".join([*lines, *([""] if missed else []), *(f"- {note}" for note in missed)])


def _origin(entry: dict[str, Any]) -> str:
    where = machine_of(entry)
    return f"`{entry['benchmark']}` at {entry['commit'][:8]}, {entry['time'][:10]}, on {where}:"


def machine_of(entry: dict[str, Any]) -> str:
    """What a run was measured on."""
    machine = entry["machine"]
    memory = f"{machine['memory_bytes'] / _GB:.0f} GB"
    return f"{machine['cpu']}, {machine['cores']} cores, {memory}, Python {machine['python']}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

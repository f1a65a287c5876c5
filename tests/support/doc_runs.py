"""Pages of the documentation, run as the scripts that `doc_scripts` makes of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Final

from support.doc_scripts import script_of

if TYPE_CHECKING:
    from pathlib import Path

    from support.doc_pages import Page
    from support.doc_scripts import Ports

LIMIT_S: Final = 480.0
_END_S: Final = 30.0


def run_page(page: Page, folder: Path, ports: Ports, environment: dict[str, str]) -> None:
    """Run its blocks in their order; they succeed and print what the page says that they do."""
    file, out = folder / ".page.sh", folder / ".output"
    file.write_text(script_of(page, folder, ports))
    with out.open("w") as stream:
        running = subprocess.Popen(
            ["bash", str(file)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            ended = f"ended with {running.wait(LIMIT_S)}"
        except subprocess.TimeoutExpired:
            ended = f"still runs after {LIMIT_S:.0f} s"
            _end(running)
    output = out.read_text(errors="replace")
    assert running.returncode == 0, f"{page.name} {ended}\n{output[-6000:]}"
    missing = _missing(page, output)
    assert missing == [], output


def _end(running: subprocess.Popen[bytes]) -> None:
    """End a script with everything that it has started, servers of its page too."""
    os.killpg(running.pid, signal.SIGTERM)
    try:
        running.wait(_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _missing(page: Page, output: str) -> list[str]:
    """Lines that the page shows as output, and that were not printed."""
    printed = {_normal(line) for line in output.splitlines()}
    return [
        f"line {block.line}: {line}"
        for block in page.blocks
        if block.is_checked
        for line in block.text.splitlines()
        if line.strip() not in {"", "..."} and _normal(line) not in printed
    ]


def _normal(line: str) -> str:
    """A line without what differs from run to run: numbers, times, ids, spaces of a table."""
    line = re.sub(r"\b[0-9a-f]{8,}(-[0-9a-f]{4,})*\b", "0", line)
    line = re.sub(r"\d+([.,:T-]\d+)*Z?", "0", line)
    return re.sub(r"[\s─-]+", " ", line).strip()

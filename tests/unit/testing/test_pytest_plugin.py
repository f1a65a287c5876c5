"""Another project gets the broker by its fixture's name alone, as docs/how-to/testing.md shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "testing.md"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def files_of_the_page() -> dict[str, str]:
    """Every block of the page that begins with the name of its file."""
    blocks = re.findall(
        r"^```python\n# (\S+\.py)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return dict(blocks)


def test_the_project_of_the_page_passes_as_it_is_written(tmp_path: Path) -> None:
    files = files_of_the_page()
    assert {"test_orders.py", "test_restart.py", "test_async.py", "conftest.py"} <= set(files)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = run_pytest(tmp_path, "-q", "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)


def test_fixtures_are_listed_with_what_they_are(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--fixtures")
    for name in ("goqueue_broker", "goqueue_topic", "goqueue_settings"):
        assert name in done.stdout


def test_a_suite_without_such_tests_does_not_pay_for_them(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\n\ndef test_nothing() -> None:\n"
        "    loaded = {'goqueue.server', 'kio', 'grpc', 'goqueue.testing.brokers'}\n"
        "    assert loaded.isdisjoint(sys.modules)\n"
    )
    done = run_pytest(tmp_path, "-q")
    assert done.returncode == 0, done.stdout + done.stderr

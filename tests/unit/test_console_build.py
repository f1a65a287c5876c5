"""What is served as the console is what its source gives."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.console_web import CONSOLE, WEB, add_packages, find_npm

if TYPE_CHECKING:
    from pathlib import Path

STATIC = CONSOLE / "static"
SOURCES = sorted([*WEB.glob("src/**/*.ts*"), *WEB.glob("src/**/*.css"), *WEB.glob("public/*")])


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """A copy of the source, ready to be built."""
    copy = tmp_path / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules"))
    add_packages(copy)
    return copy


def test_the_served_files_are_built_from_the_source(web: Path, tmp_path: Path) -> None:
    npm = find_npm()
    subprocess.run([npm, "run", "--silent", "check"], cwd=web, check=True, timeout=280)
    out = tmp_path / "static"
    build = [npm, "run", "--silent", "build", "--", "--out", str(out)]
    subprocess.run(build, cwd=web, check=True, timeout=280)
    built = {path.name: path.read_bytes() for path in out.iterdir()}
    served = {path.name: path.read_bytes() for path in STATIC.iterdir()}
    assert sorted(built) == sorted(served)
    differing = [name for name, content in built.items() if content != served[name]]
    assert not differing, f"`make console` would change {differing}"


def test_nothing_of_the_console_names_another_host() -> None:
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    for path in STATIC.iterdir():
        named = set(re.findall(r"https?://[^\s\"'`)<>$]+", path.read_text(encoding="utf-8")))
        assert named <= namespaces | {"http://www.w3.org/1998/Math/MathML"}, path.name


def test_no_source_of_the_console_writes_markup_or_styles_past_the_policy() -> None:
    assert len(SOURCES) > 20
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\bstyle=|eval\("
    )
    for path in SOURCES:
        found = forbidden.findall(path.read_text(encoding="utf-8"))
        assert not found, f"{path.relative_to(CONSOLE)}: {found}"

"""The documentation of several releases, side by side on one branch."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AUTHOR = ("-c", "user.name=test", "-c", "user.email=test@example.org")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *AUTHOR, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of its own with the files of this one as they are now."""
    folder = tmp_path / "checkout"
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split(
        "\0"
    ):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    git(folder, "init", "--quiet")
    git(folder, "config", "user.name", "test")
    git(folder, "config", "user.email", "test@example.org")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "one release")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_of_a_release_is_added_to_those_of_earlier_ones(checkout: Path) -> None:
    for version in ("0.1.0", "0.2.0"):
        done = subprocess.run(
            [".ci/docs-deploy", version], cwd=checkout, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    versions = json.loads(git(checkout, "show", "gh-pages:versions.json"))
    assert [(each["version"], each["aliases"]) for each in versions] == [
        ("0.2.0", ["latest"]),
        ("0.1.0", []),
    ]
    for version in ("0.1.0", "0.2.0"):
        assert "curl" in git(
            checkout, "show", f"gh-pages:{version}/tutorials/first-message/index.html"
        )
    assert "latest" in git(checkout, "show", "gh-pages:index.html")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_builds_without_a_warning_and_lists_what_is_not_run(tmp_path: Path) -> None:
    mkdocs = ROOT / ".venv/bin/mkdocs"
    command = [str(mkdocs), "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = (tmp_path / "site/reference/not-run/index.html").read_text()
    assert "needs Docker" in listed

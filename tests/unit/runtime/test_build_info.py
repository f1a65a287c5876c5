from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import goqueue
from goqueue.runtime.build_info import UNKNOWN, build_info, commit_of

if TYPE_CHECKING:
    from pathlib import Path


def git(folder: Path, *words: str) -> str:
    named = ("-c", "user.name=T", "-c", "user.email=t@example.com")
    asked = ["git", *named, *words]
    return subprocess.run(asked, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "first")
    return folder


def test_the_commit_of_a_branch_is_read_as_git_tells_it(repository: Path) -> None:
    assert commit_of(repository) == git(repository, "rev-parse", "HEAD").strip()


def test_the_commit_of_a_packed_branch_is_found(repository: Path) -> None:
    git(repository, "pack-refs", "--all")
    assert commit_of(repository) == git(repository, "rev-parse", "HEAD").strip()


def test_the_commit_of_a_detached_head_and_of_a_linked_work_tree_is_found(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    git(tmp_path / "linked", "commit", "--quiet", "--allow-empty", "--message", "second")
    commit = git(tmp_path / "linked", "rev-parse", "HEAD").strip()
    assert commit_of(tmp_path / "linked") == commit
    git(repository, "checkout", "--quiet", "--detach", commit)
    assert commit_of(repository) == commit


def test_a_folder_without_a_repository_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == UNKNOWN


def test_the_command_tells_version_commit_and_build_in_one_line() -> None:
    asked = [sys.executable, "-m", "goqueue.cli", "--version"]
    line = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    build = build_info()
    commit = build.commit[:12]
    assert line == f"goqueue {goqueue.__version__} (commit {commit}, built {build.built})\n"

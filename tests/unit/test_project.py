"""The tree keeps the promises that its own pages make."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from benchmarks._comparison_page import filled as compared
from benchmarks._performance_page import filled

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "goqueue"
PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))

# Every package that the product may have. Another one is a decision first, then a line here.
ALLOWED = {
    "server",
    "cli",
    "protocols",
    "broker",
    "administration",
    "backup",
    "insight",
    "configs",
    "transactions",
    "webhooks",
    "queues",
    "quotas",
    "groups",
    "delays",
    "schemas",
    "access",
    "audit",
    "pipelines",
    "state",
    "publishing",
    "reading",
    "partitions",
    "tracing",
    "topics",
    "cluster",
    "storage",
    "wire",
    "records",
    "runtime",
    "model",
    "metrics",
    "client",
    "spark",
    "console",
    "testing",
    "worker",
}

# Written in two halves, so that this file passes its own test.
REGISTRY_MARKS = [
    left + right
    for left, right in [
        ("pypi", ".org"),
        ("python", "hosted.org"),
        ("npm", "js.org"),
        ("index", "-url"),
        ("find", "-links"),
        ("/simple", "/"),
    ]
]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", text_of("Makefile"), flags=re.MULTILINE))


def layers() -> list[list[str]]:
    """The packages of each layer of the import contract; `(name)` means that it may be missing."""
    settings = tomllib.loads(text_of("pyproject.toml"))
    (contract,) = (
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and contract["containers"] == ["goqueue"]
    )
    return [[name.strip() for name in re.split(r"[|:]", layer)] for layer in contract["layers"]]


def source_files() -> list[Path]:
    """Everything that could be committed: no environments, builds or caches."""
    made = {"build", "dist", "site", "data", "__pycache__", "node_modules"}
    found = []
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part not in {".ci", ".gitignore"} for part in parts)
        generated = not made.isdisjoint(parts) or any(part.endswith(".egg-info") for part in parts)
        if path.is_file() and not hidden and not generated:
            found.append(path)
    return found


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_every_make_verb_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"(?:`|^\s*)make ([a-z-]+)", text_of(page), flags=re.MULTILINE))
    assert "test" in named
    assert named <= make_targets()


def test_the_map_names_every_package_and_no_other() -> None:
    named = re.findall(r"^\| `([a-z]+)/` \|", text_of("src/goqueue/README.md"), re.MULTILINE)
    assert sorted(named) == PACKAGES


def test_every_layer_of_the_import_contract_is_a_package_of_the_design() -> None:
    named = [name for layer in layers() for name in layer]
    assert {name.strip("()") for name in named} <= ALLOWED
    assert {name for name in named if not name.startswith("(")} <= set(PACKAGES)


def test_no_package_escapes_the_import_contract() -> None:
    named = {name.strip("()") for layer in layers() for name in layer}
    assert set(PACKAGES) <= named


def test_the_map_and_the_import_contract_agree_on_the_order() -> None:
    mapped = re.findall(r"^\| `([a-z]+)/` \|", text_of("src/goqueue/README.md"), re.MULTILINE)
    level = {name.strip("()"): depth for depth, layer in enumerate(layers()) for name in layer}
    assert [level[name] for name in mapped] == sorted(level[name] for name in mapped)


def test_every_decision_is_in_the_navigation_of_the_docs() -> None:
    pages = {f"decisions/{path.name}" for path in (ROOT / "docs" / "decisions").glob("*.md")}
    assert pages
    listed = re.findall(r"decisions/[\w-]+\.md", str(yaml.safe_load(text_of("mkdocs.yml"))["nav"]))
    assert sorted(listed) == sorted(pages)


def test_decisions_are_numbered_without_gaps_and_say_what_they_cost() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(page.name[:3]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Context", "Choice", "What it costs"], page.name


def test_the_changelog_names_the_on_disk_format_that_the_code_writes() -> None:
    from goqueue.storage.checkpoints.checkpoint import FORMAT_VERSION  # noqa: PLC0415 - only this test needs it

    assert f"**On-disk format: {FORMAT_VERSION}.**" in text_of("CHANGELOG.md")


def test_the_page_of_figures_has_the_last_recorded_ones() -> None:
    page = text_of("docs/performance.md")
    assert filled(page) == page, "make it anew: python -m benchmarks._performance_page"


def test_the_comparison_has_the_last_run_of_all_its_figures() -> None:
    page = text_of("docs/explanation/comparison.md")
    assert compared(page) == page, "make it anew: python -m benchmarks._comparison_page"


def test_every_benchmark_that_the_page_of_figures_shows_exists() -> None:
    named = re.findall(r"<!-- begin (\S+?)(?::.*)? -->", text_of("docs/performance.md"))
    for name in named:
        group, _, short = name.partition(".")
        assert f'@benchmark("{short}"' in text_of(f"benchmarks/{group}.py"), name


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *PACKAGE.glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_file_names_a_package_registry() -> None:
    for path in source_files():
        text = path.read_text(encoding="utf-8", errors="ignore").lower()
        found = [mark for mark in REGISTRY_MARKS if mark in text]
        assert not found, f"{path.relative_to(ROOT)} names {found}"


def test_no_two_test_files_share_a_name() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))  # pytest imports them by their names alone


def test_the_ci_script_is_executable_and_stops_at_the_first_failure() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")

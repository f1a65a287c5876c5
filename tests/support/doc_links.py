"""Links of the documentation: those inside it are checked by a test, the others every night.

`PYTHONPATH=tests python -m support.doc_links` asks for every external link and names dead ones.
"""

from __future__ import annotations

import re
import sys
import unicodedata
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)
SITE: Final = "https://goqueue.github.io/goqueue/"
_OURS: Final = (SITE, "https://github.com/goqueue/")
"""Not there before the first release."""
_TIMEOUT_S: Final = 30
_AT_ONCE: Final = 8
_REFUSES_PROGRAMS: Final = {401, 403, 405, 406, 429, 999}
"""What sites tell programs about pages that browsers get."""


def pages() -> list[Path]:
    """Every page that a reader may meet."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def links_of(page: Path) -> Iterator[str]:
    """Where a page links to, code left out."""
    yield from _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))


def anchors_of(page: Path) -> set[str]:
    """The ids of a page's headings, as mkdocs makes them."""
    text = re.sub(
        r"^( *)```.*?^\1```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    found: set[str] = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        anchor, number = _slug(plain), 1
        while anchor in found:
            anchor, number = f"{_slug(plain)}_{number}", number + 1
        found.add(anchor)
    return found


def _slug(heading: str) -> str:
    """What the toc extension of Python-Markdown makes of a heading."""
    text = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def broken_inside() -> list[str]:
    """Links between pages that lead nowhere, or to a heading that is not there."""
    broken = []
    for page in pages():
        for link in links_of(page):
            name, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            target = (page.parent / name).resolve() if name else page
            there = target.exists()
            if there and anchor and target.suffix == ".md":
                there = anchor in anchors_of(target)
            if not there:
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    return broken


def external() -> dict[str, str]:
    """Every link to another site, with a page that has it."""
    return {
        link.partition("#")[0]: str(page.relative_to(ROOT))
        for page in pages()
        for link in links_of(page)
        if link.startswith(("http://", "https://")) and not link.startswith(_OURS)
    }


def broken_to_site() -> list[str]:
    """Links to the site, in what is released beside it, that lead to no page of `latest`."""
    found = re.compile(re.escape(SITE) + r"[^\s\"'<>)]*")
    released = [ROOT / "pyproject.toml", ROOT / "clients/typescript/package.json"]
    released += [each for each in sorted((ROOT / "deploy").rglob("*")) if each.is_file()]
    return [
        f"{file.relative_to(ROOT)}: {link}"
        for file in released
        for link in found.findall(file.read_text("utf-8"))
        if not _is_page_of_site(link.removeprefix(SITE).partition("#")[0])
    ]


def _is_page_of_site(path: str) -> bool:
    version, _, page = path.rstrip("/").partition("/")
    if version not in {"", "latest"}:  # `.ci/docs-deploy`: only the root leads on to `latest`
        return False
    return not page or (ROOT / "docs" / f"{page}.md").is_file()


def dead(link: str) -> str:
    """Why a link is dead; empty for one that is not."""
    request = urllib.request.Request(link, headers={"User-Agent": "Mozilla/5.0 (link check)"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
            return ""
    except urllib.error.HTTPError as error:
        return "" if error.code in _REFUSES_PROGRAMS else f"{error.code} {error.reason}"
    except OSError as error:
        return str(error)


def main() -> int:
    """Ask for every external link; 1 if one is dead."""
    found = external()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        reasons = dict(zip(found, pool.map(dead, found), strict=True))
    for link, reason in reasons.items():
        if reason:
            sys.stdout.write(f"{found[link]}: {link}: {reason}\n")
    sys.stdout.write(f"{len(found)} links, {sum(map(bool, reasons.values()))} dead\n")
    return int(any(reasons.values()))


if __name__ == "__main__":
    sys.exit(main())

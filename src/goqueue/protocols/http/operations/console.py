"""The web console's page and what it needs, out of the installed package.

Every file is read and compressed once, with the first request for the console, and found by its
name in a table: no path of a client ever becomes a path of the disk.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cached_property
from http import HTTPStatus
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from goqueue.model.tuples import NamedTuple
from goqueue.protocols.http.api.errors import NoSuchPathError, UnavailableError
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.responses import Response
from goqueue.protocols.http.api.rights import PUBLIC
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import doc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_TAG: Final = "console"
_INDEX: Final = "index.html"
_MAX_DEPTH: Final = 3
"""Folders in folders that are looked into."""
_HASHED: Final = re.compile(r"[-.][0-9A-Za-z]{8,}\.[a-z0-9]+$")
"""A name that changes with its content, as bundlers write it: `app-K3JQ2L4X.js`."""
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_COMPRESSED: Final = frozenset({".png", ".woff2", ".ico"})
"""Gains nothing from being compressed once more."""
_SOURCES: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)
_POLICY: Final = (
    ("content-security-policy", _SOURCES),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
)
"""Nothing from elsewhere, nothing inline: text of a message that looks like a script stays text."""


class ConsolePath(msgspec.Struct, frozen=True):
    """A page of the console, or one of its files."""

    page: Annotated[str, doc("Anything.", "topics")]


class Asset(NamedTuple):
    """One file, ready to be sent."""

    content_type: str
    body: bytes
    packed: bytes | None
    """Compressed; None where that would not be smaller."""
    etag: str
    cache: str

    @classmethod
    def of(cls, name: str, body: bytes) -> Asset:
        """A file of that name."""
        suffix = PurePosixPath(name).suffix
        packed = None if suffix in _COMPRESSED else gzip.compress(body, mtime=0)
        is_hashed = _HASHED.search(name) is not None
        return cls(
            _TYPES.get(suffix, "application/octet-stream"),
            body,
            packed if packed is not None and len(packed) < len(body) else None,
            f'"{hashlib.sha256(body).hexdigest()[:24]}"',
            "public, max-age=31536000, immutable" if is_hashed else "no-cache",
        )


class ConsoleRoutes:
    """The console."""

    @cached_property
    def _assets(self) -> dict[str, Asset]:
        folder = resources.files("goqueue").joinpath("console").joinpath("static")
        return {name: Asset.of(name, data) for name, data in _files(folder)}

    @route(
        "GET", "/", right=PUBLIC, tag=_TAG, is_page=True, answers={307: "text/plain"}, place=LOCAL
    )
    async def root(self, request: Request) -> Response:
        """Redirect to the console."""
        if request.raw_path != b"/":
            raise NoSuchPathError("no resource at this path; /docs lists the API")
        where = (("location", "/console"), ("cache-control", "no-cache"))
        return Response(HTTPStatus.TEMPORARY_REDIRECT, b"/console\n", "text/plain", where)

    @route(
        "GET",
        "/console",
        right=PUBLIC,
        tag=_TAG,
        is_page=True,
        answers={200: "text/html", 304: "text/html"},
        place=LOCAL,
    )
    async def index(self, request: Request) -> Response:
        """The web console."""
        page = self._assets.get(_INDEX)
        if page is None:
            raise UnavailableError("this installation was built without the console")
        return _answer(page, request)

    @route(
        "GET",
        "/console/{page}",
        right=PUBLIC,
        tag=_TAG,
        takes_rest=True,
        is_page=True,
        answers={200: "*/*", 304: "*/*"},
        place=LOCAL,
    )
    async def page(self, path: ConsolePath, request: Request) -> Response:
        """A file of the console, or its page for any other path."""
        asset = self._assets.get(path.page)
        if asset is not None:
            return _answer(asset, request)
        # A topic's name may have dots, a page of the console has none: this was once a file.
        if "." in path.page and "/" not in path.page:
            raise NoSuchPathError("the console has no such file; reload the page")
        return await self.index(request)


def _files(folder: Traversable, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_file():
            yield prefix + entry.name, entry.read_bytes()
        elif depth < _MAX_DEPTH:
            yield from _files(entry, f"{prefix}{entry.name}/", depth + 1)


def _answer(asset: Asset, request: Request) -> Response:
    headers: tuple[tuple[str, str], ...] = (
        ("etag", asset.etag),
        ("cache-control", asset.cache),
        *_POLICY,
    )
    if asset.packed is not None:
        headers = (*headers, ("vary", "accept-encoding"))
    if asset.etag in request.header(b"if-none-match"):
        return Response(304, b"", "", headers)
    if asset.packed is not None and _takes_gzip(request.header(b"accept-encoding")):
        return Response(
            200, asset.packed, asset.content_type, (*headers, ("content-encoding", "gzip"))
        )
    return Response(200, asset.body, asset.content_type, headers)


def _takes_gzip(accepted: str) -> bool:
    for coding in accepted.lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() in {"gzip", "*"}:
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False

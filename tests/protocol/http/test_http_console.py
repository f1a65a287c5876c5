"""The console's files come out of the package, and nothing else does."""

from __future__ import annotations

import gzip
from importlib import resources
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.http_api import HttpApi

INDEX = resources.files("goqueue").joinpath("console").joinpath("static").joinpath("index.html")


@pytest.mark.parametrize(
    "path",
    [
        *("/console", "/console/", "/v1/console", "/console/index.html"),
        *("/console/topics/orders.v1", "/console/groups/a%2Fb", "/console/a/b/c/d/e"),
        "/console/topics/%3Cscript%3E",
    ],
)
def test_every_page_of_the_console_is_its_one_page(api: HttpApi, path: str) -> None:
    answer = api.ask("GET", path)
    assert (answer.status, answer.body) == (200, INDEX.read_bytes())
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/console/../connection.py",
        "/console/..%2f..%2f__init__.py",
        "/console/%2e%2e/%2e%2e/__init__.py",
        "/console//etc/passwd",
        "/console/web/package.json",
        "/console/%00",
    ],
)
def test_no_path_leads_out_of_the_console(api: HttpApi, path: str) -> None:
    assert api.ask("GET", path).body == INDEX.read_bytes()


def test_the_server_by_itself_leads_to_the_console(api: HttpApi) -> None:
    answer = api.ask("GET", "/")
    assert (answer.status, answer.headers["location"]) == (307, "/console")


def test_a_file_that_the_console_does_not_have_is_not_found(api: HttpApi) -> None:
    assert api.ask("GET", "/console/app-0LDHASH0.js").code == "no_such_path"


def test_a_path_that_is_not_utf_8_is_refused(api: HttpApi) -> None:
    assert api.ask("GET", "/console/%ff%fe").code == "malformed_request"


def test_a_page_that_the_browser_has_is_not_sent_again(api: HttpApi) -> None:
    etag = api.ask("GET", "/console").headers["etag"]
    answer = api.ask("GET", "/console", headers={"If-None-Match": etag})
    assert (answer.status, answer.body) == (304, b"")
    assert "content-length" not in answer.headers
    assert api.ask("GET", "/console", headers={"If-None-Match": '"old"'}).status == 200


def test_a_browser_that_takes_gzip_gets_it(api: HttpApi) -> None:
    answer = api.ask("GET", "/console", headers={"Accept-Encoding": "gzip, br"})
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body) == INDEX.read_bytes()
    assert answer.headers["vary"] == "accept-encoding"
    plain = api.ask("GET", "/console", headers={"Accept-Encoding": "gzip;q=0, br"})
    assert "content-encoding" not in plain.headers


def test_the_head_of_a_page_has_no_body(api: HttpApi) -> None:
    answer = api.ask("HEAD", "/console")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) == len(INDEX.read_bytes())

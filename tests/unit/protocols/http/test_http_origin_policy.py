"""By which names the server may be called, and from which web pages."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.protocols.http.api.errors import (
    ForeignHostError,
    ForeignOriginError,
    UnsupportedMediaTypeError,
)
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.server.origin_policy import OriginPolicy

HERE: dict[str, Any] = {"host": "localhost:8080"}
JSON = {"content-type": "application/json", "content-length": "2"}


def asked(policy: OriginPolicy, *, is_page: bool = False, **headers: Any) -> Request:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    request = Request("POST", b"/topics", named)
    policy.check(request, is_page=is_page)
    return request


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost.:8080",
        "broker.localhost:8080",
        "127.0.0.1:8080",
        "192.0.2.7",
        "[::1]:8080",
        "broker-1:8080",
        "kafka.example.org",
        "a.svc.cluster.local:80",
    ],
)
def test_its_own_names_and_any_address_are_taken(host: str) -> None:
    policy = OriginPolicy(["broker-1", "Kafka.Example.Org", "*.svc.cluster.local"])
    for _ in range(2):
        asked(policy, host=host)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080", "broker-1.evil", ""],
)
def test_a_name_that_a_page_made_point_here_is_refused(host: str) -> None:
    with pytest.raises(ForeignHostError, match=r"http\.allowed_hosts"):
        asked(OriginPolicy(["broker-1", "*.good.example"]), host=host)


def test_any_name_can_be_allowed() -> None:
    asked(OriginPolicy(["*"]), host="evil.example")


def test_names_that_are_remembered_are_bounded() -> None:
    policy = OriginPolicy()
    for number in range(3000):
        asked(policy, host=f"10.0.{number // 256}.{number % 256}")
    assert len(policy._good_hosts) <= 1024


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost:8080"},
        {"origin": "http://localhost:8080", "sec_fetch_site": "same-origin"},
        # a proxy in front that calls the server by another name
        {"origin": "https://console.example.org", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
    ],
)
def test_programs_and_the_servers_own_pages_are_taken(headers: dict[str, Any]) -> None:
    assert asked(OriginPolicy(), **HERE, **headers).cors == ()


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://localhost:3000"},
        {"origin": "null"},
        {"origin": "http://localhost:8080", "sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"},
    ],
)
def test_pages_of_other_sites_are_refused(headers: dict[str, Any]) -> None:
    for is_page in (False, True):
        with pytest.raises(ForeignOriginError, match=r"http\.allowed_origins"):
            asked(OriginPolicy(), is_page=is_page, **HERE, **headers)


def test_links_of_other_sites_lead_to_pages_and_to_nothing_else() -> None:
    link: dict[str, Any] = {
        "sec_fetch_site": "cross-site",
        "sec_fetch_mode": "navigate",
        "sec_fetch_dest": "document",
    }
    asked(OriginPolicy(), is_page=True, **HERE, **link)
    with pytest.raises(ForeignOriginError):
        asked(OriginPolicy(), **HERE, **link)
    with pytest.raises(ForeignOriginError):
        asked(OriginPolicy(), is_page=True, **HERE, **{**link, "sec_fetch_dest": "iframe"})


def test_an_allowed_origin_may_read_the_answers() -> None:
    policy = OriginPolicy(origins=["https://App.example.org", "http://localhost:3000"])
    given: dict[str, Any] = {
        "origin": "https://app.example.org",
        "sec_fetch_site": "cross-site",
        **HERE,
    }
    cors = dict(asked(policy, **given).cors)
    assert cors["access-control-allow-origin"] == "https://app.example.org"
    assert cors["vary"] == "origin"
    assert "Retry-After" in cors["access-control-expose-headers"]
    everybody = asked(OriginPolicy(origins=["*"]), origin="null", **HERE)
    assert dict(everybody.cors)["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("kind", "of_browser", "is_taken"),
    [
        ("application/json", True, True),
        ("application/vnd.schemaregistry.v1+json", False, True),
        ("application/octet-stream", False, True),
        ("application/x-www-form-urlencoded", False, True),
        ("application/x-www-form-urlencoded", True, False),
        ("text/plain;charset=UTF-8", False, False),
        ("Multipart/Form-Data; boundary=x", False, False),
    ],
)
def test_bodies_of_forms_are_refused(kind: str, of_browser: bool, is_taken: bool) -> None:
    headers: dict[str, Any] = {**HERE, **JSON, "content_type": kind}
    headers.pop("content-type")
    if of_browser:
        headers["origin"] = "http://localhost:8080"
    if is_taken:
        asked(OriginPolicy(), **headers)
    else:
        with pytest.raises(UnsupportedMediaTypeError, match="application/json"):
            asked(OriginPolicy(), **headers)
    asked(OriginPolicy(), host="localhost", content_type=kind)  # without a body it says nothing

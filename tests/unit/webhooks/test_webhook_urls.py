"""The URL of a webhook: one reading of it, and everything ambiguous is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import WebhookTargetError
from goqueue.webhooks.urls import parse_target

REFUSED = [
    "",
    "example.com/hook",
    "//example.com/hook",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com:6379/_INFO",
    "unix:/run/docker.sock",
    "http:///hook",
    "http://:80/",
    "http://alice@example.com/",
    "http://alice:secret@example.com/",
    "http://example.com@10.0.0.1/",
    "http://example.com:80@10.0.0.1:80/",
    "http://example.com\\@10.0.0.1/",
    "http://example.com/#fragment",
    "http://example.com:0x50/",
    "http://example.com:99999/",
    "http://example.com/a b",
    "http://example.com/\r\nHost: other",
    "http://example.com/%0d%0a\n",
    "http://exa mple.com/",
    "http://-example.com/",
    "http://exam_ple..com/",
    "http://bücher.example/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://0x7f.0.0.1/",
    "http://0x7f000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.0x1/",
    "http://127.0.0.1.0x7f/",
    "http://256.0.0.1/",
    "http://①②⑦.0.0.1/",
    "http://[::1%25eth0]/",
    "http://[::1/",
    "http://[not-ipv6]/",
    "http://[v1.fe80]/",
    "https://example.com/" + "a" * 2000,
]


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_two_parsers_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(WebhookTargetError, match="expected"):
        parse_target(url)


def test_a_url_is_taken_apart() -> None:
    found = parse_target("https://hooks.Example.com/a/b?c=d")
    assert found.endpoint == ("hooks.example.com", 443, True)
    assert found.endpoint.authority == "hooks.example.com"
    assert found.path == "/a/b?c=d"
    assert parse_target("http://example.com.").endpoint == ("example.com", 80, False)
    assert parse_target("http://example.com:8080").endpoint.authority == "example.com:8080"
    assert parse_target("http://[::ffff:7f00:1]:80/").endpoint.host == "::ffff:7f00:1"
    assert parse_target("http://[::1]:8080/").endpoint.authority == "[::1]:8080"


@given(st.text(max_size=60))
def test_no_text_does_more_than_parse_or_be_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://{text}/x"):
        try:
            found = parse_target(url)
        except WebhookTargetError:
            continue
        head = f"POST {found.path} HTTP/1.1\r\nHost: {found.endpoint.authority}"
        assert head.count("\r\n") == 1
        assert head.isascii()
        assert " " not in found.path

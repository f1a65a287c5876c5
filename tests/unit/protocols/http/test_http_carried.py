"""Requests of the HTTP API that another protocol carries: which are answered, and which refused."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from goqueue.model.errors import UnknownTopicError
from goqueue.protocols.http.api.app import HttpApp
from goqueue.protocols.http.api.carried import answer_carried
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.responses import Response, Stream
from goqueue.protocols.http.api.rights import ANYONE
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.router import Router
from goqueue.protocols.http.limits import MAX_CARRIED_HEADERS, MAX_HEAD_BYTES


class Said(msgspec.Struct):
    """A word."""

    word: str


class Routes:
    """One route of each kind."""

    @route("GET", "/words", tag="t", right=ANYONE)
    async def words(self) -> Said:
        """Answer."""
        return Said("yes")

    @route("PUT", "/words", tag="t", max_body_bytes=20, right=ANYONE)
    async def put(self, body: Said) -> Said:
        """Answer what was sent."""
        return body

    @route("GET", "/unknown", tag="t", right=ANYONE)
    async def unknown(self) -> Said:
        """Refuse."""
        raise UnknownTopicError("there is no such topic")

    @route("GET", "/wait", tag="t", polls=True, right=ANYONE)
    async def wait(self) -> Said:
        """Wait for ever."""
        await asyncio.Event().wait()
        return Said("never")

    @route("GET", "/page", tag="t", is_page=True, right=ANYONE)
    async def page(self) -> Response:
        """A page."""
        return Response(200, b"<html>", "text/html")

    @route("GET", "/stream", tag="t", polls=True, right=ANYONE)
    async def stream(self) -> Stream:
        """A stream."""
        raise AssertionError("a stream is refused before it is begun")


def ask(method="GET", target=b"/v1/words", body=b"", headers=(), *, may_wait=True):
    app = HttpApp(lambda: Router(Routes()))
    request = Request(method, target, body=body)
    return asyncio.run(answer_carried(app, request, headers, lambda: may_wait, poll_s=0.01))


def test_an_answer_is_that_of_the_route():
    assert ask() == Response(200, b'{"word":"yes"}')
    assert ask("PUT", body=b'{"word": "no"}').body == b'{"word":"no"}'


def test_head_is_answered_without_a_body():
    assert ask("HEAD") == Response(200, b"")


def test_a_refusal_carries_its_error():
    answer = ask(target=b"/unknown")
    assert answer.status == 404
    assert type(answer.error) is UnknownTopicError
    assert json.loads(answer.body)["code"] == "unknown_topic"


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"target": b"/nowhere"}, 404, "no_such_path"),
        ({"method": "DELETE"}, 405, "method_not_allowed"),
        ({"method": "OPTIONS"}, 405, "method_not_allowed"),
        ({"method": "M" * 17}, 400, "malformed_request"),
        ({"target": b""}, 400, "malformed_request"),
        ({"target": b"words"}, 400, "malformed_request"),
        ({"target": b"/page"}, 400, "http_only"),
        ({"target": b"/stream"}, 400, "http_only"),
        ({"method": "PUT", "body": b"x" * 21}, 413, "body_too_large"),
        ({"method": "PUT", "body": b"{"}, 400, "malformed_body"),
        ({"method": "PUT", "body": b'{"word": 1}'}, 400, "invalid_field"),
        ({"headers": [(b"a", b"x" * MAX_HEAD_BYTES)]}, 431, "head_too_large"),
        ({"headers": [(b"a", b"")] * (MAX_CARRIED_HEADERS + 1)}, 431, "head_too_large"),
        ({"target": b"/wait"}, 504, "deadline_exceeded"),
    ],
)
def test_what_cannot_be_answered_is_a_problem(asked, status, code):
    answer = ask(**asked)
    assert (answer.status, json.loads(answer.body)["code"]) == (status, code)


def test_nothing_waits_for_a_client_that_has_gone():
    assert ask(target=b"/wait", may_wait=False) is None

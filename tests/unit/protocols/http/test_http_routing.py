from __future__ import annotations

import asyncio
import gc
import json
import weakref

import msgspec
import pytest

from goqueue.model.errors import InvalidGroupRequestError
from goqueue.protocols.http.api.app import HttpApp
from goqueue.protocols.http.api.errors import (
    FieldError,
    MalformedRequestError,
    MethodNotAllowedError,
    NoSuchPathError,
)
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.responses import Response
from goqueue.protocols.http.api.rights import ANYONE
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.router import Router


class Place(msgspec.Struct, frozen=True):
    town: str
    number: int


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    loud: bool = False
    times: int = 1


class Said(msgspec.Struct, weakref=True):
    words: list[str]


class Echo:
    @route("GET", "/towns/{town}/houses/{number}", tag="t", right=ANYONE)
    @route("GET", "/homes/{town}/{number}", tag="t", right=ANYONE)
    async def house(self, path: Place, query: Wish) -> Said:
        word = f"{path.town} {path.number}"
        return Said([word.upper() if query.loud else word] * query.times)

    @route("GET", "/towns/all", tag="t", right=ANYONE)
    async def everyone(self) -> Said:
        return Said(["all"])

    @route("POST", "/towns", tag="t", status=201, right=ANYONE)
    async def found(self, body: Wish, request: Request) -> Said:
        return Said([request.client_host] * body.times)

    @route("GET", "/raw", tag="t", right=ANYONE)
    async def raw(self) -> Response:
        return Response(418, b"tea", "text/plain")

    @route("GET", "/broken", tag="t", right=ANYONE)
    async def broken(self) -> Said:
        raise RuntimeError("a secret")


@pytest.fixture
def router() -> Router:
    return Router(Echo())


def ask(router: Router, method: str, target: bytes, body: bytes = b"") -> Response:
    async def scenario() -> Response:
        app = HttpApp(lambda: router)
        request = Request(method, target, {}, body, "here", "id")
        answer = await app.answer(request, app.match(request))
        assert isinstance(answer, Response)
        return answer

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (b"/towns/Ulm/houses/7", ["Ulm 7"]),
        (b"/homes/Ulm/7", ["Ulm 7"]),
        (b"/v1/homes/Ulm/7", ["Ulm 7"]),
        (b"/homes/Ulm/7/", ["Ulm 7"]),
        (b"/homes/a%2Fb%20c/7", ["a/b c 7"]),
        ("/homes/Köln/7".encode(), ["Köln 7"]),
        (b"/homes/Ulm/7?loud", ["ULM 7"]),
        (b"/homes/Ulm/7?loud=false&times=2", ["Ulm 7", "Ulm 7"]),
        (b"/towns/all", ["all"]),
    ],
)
def test_a_path_reaches_its_handler_with_what_it_says(
    router: Router, target: bytes, words: list[str]
) -> None:
    for _ in range(2):  # the second time from memory
        answer = ask(router, "GET", target)
        assert (answer.status, json.loads(answer.body)) == (200, {"words": words})


def test_a_handler_may_take_the_body_and_the_request(router: Router) -> None:
    answer = ask(router, "POST", b"/towns", b'{"times": 2}')
    assert (answer.status, answer.body) == (201, b'{"words":["here","here"]}')
    assert ask(router, "POST", b"/towns").body == b'{"words":["here"]}'


def test_a_handler_may_answer_as_it_likes(router: Router) -> None:
    assert ask(router, "GET", b"/raw") == Response(418, b"tea", "text/plain")


def test_an_error_that_nobody_foresaw_is_an_answer_without_secrets(router: Router) -> None:
    answer = ask(router, "GET", b"/broken")
    assert (answer.status, json.loads(answer.body)["code"]) == (500, "internal_error")
    assert b"secret" not in answer.body


@pytest.mark.parametrize(
    ("method", "target", "error"),
    [
        ("GET", b"/", NoSuchPathError),
        ("GET", b"/towns/Ulm", NoSuchPathError),
        ("GET", b"/towns/Ulm/houses", NoSuchPathError),
        ("GET", b"/towns/Ulm/houses/7/8", NoSuchPathError),
        ("GET", b"/v1/v1/raw", NoSuchPathError),
        ("GET", b"/%74owns/all", NoSuchPathError),
        ("GET", b"/homes/%ff/7", MalformedRequestError),
        ("GET", b"/homes/Ulm/seven", FieldError),
        ("DELETE", b"/homes/Ulm/7", MethodNotAllowedError),
        ("BREW", b"/raw", MethodNotAllowedError),
    ],
)
def test_what_has_no_handler_is_refused(
    router: Router, method: str, target: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        ask(router, method, target)


def test_two_handlers_of_one_path_are_a_mistake(router: Router) -> None:
    with pytest.raises(ValueError, match="two handlers declare GET"):
        Router(Echo(), Echo())


def test_the_paths_that_are_remembered_are_bounded(router: Router) -> None:
    for number in range(10_000):
        router.match("GET", b"/homes/Ulm/%d" % number)
    assert len(router._remembered) <= 4096


def test_long_paths_are_served_and_not_remembered(router: Router) -> None:
    for number in range(100):
        router.match("GET", b"/homes/%s/%d" % (b"u" * 60_000, number))
    assert sum(len(path) for _, path in router._remembered) < 60_000


class Held:
    """Refuses, and keeps the refusal in a frame of it, as whoever collects outcomes does."""

    def __init__(self) -> None:
        self.said: weakref.ref[Said] | None = None

    @route("POST", "/held", tag="t", right=ANYONE)
    async def held(self, body: Said) -> Said:
        self.said = weakref.ref(body)
        outcomes = [InvalidGroupRequestError("no")]
        raise outcomes[0]


def test_a_request_that_was_refused_does_not_wait_for_a_collection_of_garbage() -> None:
    held = Held()
    gc.disable()
    try:
        assert ask(Router(held), "POST", b"/held", b'{"words": []}').status == 400
        assert held.said is not None
        assert held.said() is None
    finally:
        gc.enable()

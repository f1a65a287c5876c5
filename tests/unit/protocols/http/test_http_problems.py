from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError, InvariantError, UnknownTopicError
from goqueue.protocols.http.api import errors as http
from goqueue.protocols.http.api.problems import PROBLEMS, field_error, kind_of, problem_of
from goqueue.protocols.http.topics.topics import CreateTopic

if TYPE_CHECKING:
    from types import ModuleType


def classes(module: ModuleType) -> list[type[GoQueueError]]:
    return [
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, GoQueueError)
        and f"{kind.__module__}.".startswith(f"{module.__name__}.")
    ]


@pytest.mark.parametrize("kind", [*classes(model), *classes(http)], ids=lambda kind: kind.__name__)
def test_every_error_has_a_line_of_its_own(kind: type[GoQueueError]) -> None:
    status, code, _ = PROBLEMS[kind]
    assert 400 <= status < 600
    assert code == code.lower()
    assert " " not in code


@pytest.mark.parametrize("kind", classes(model), ids=lambda kind: kind.__name__)
def test_a_client_is_never_told_that_a_retry_of_a_bad_request_may_help(
    kind: type[GoQueueError],
) -> None:
    if kind.retriable:
        assert PROBLEMS[kind].status not in {400, 401, 403, 413, 422}


def test_a_class_without_a_line_takes_its_ancestor_s() -> None:
    class NarrowError(UnknownTopicError):
        pass

    assert kind_of(NarrowError) == kind_of(NarrowError("x")) == PROBLEMS[UnknownTopicError]


def test_what_went_wrong_inside_is_not_told() -> None:
    said = json.loads(problem_of(InvariantError("the secret is 42"), "id-1").body)
    assert "42" not in str(said)
    assert (said["status"], said["request_id"]) == (500, "id-1")


def test_a_retry_is_dated_where_it_may_help() -> None:
    assert ("retry-after", "1") in problem_of(http.OverloadedError("full")).headers
    assert problem_of(UnknownTopicError("none")).headers == ()


def test_a_refusal_at_a_known_field_says_both() -> None:
    error = http.AtFieldError(UnknownTopicError("there is no topic 'x'"), "topics[2]")
    said = json.loads(problem_of(error).body)
    assert (said["code"], said["status"], said["field"]) == ("unknown_topic", 404, "topics[2]")
    assert said["retriable"] is True


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    number: int


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: list[Inner]
    by_name: dict[str, dict[int, int]] = {}


@pytest.mark.parametrize(
    ("body", "kind", "field", "expected"),
    [
        (b'{"name": 5}', CreateTopic, "name", "str"),
        (b"{}", CreateTopic, "name", None),
        (b'{"name": "a", "b": 1}', CreateTopic, "b", None),
        (b"[]", CreateTopic, "body", "object"),
        (b'{"name": "a", "retention_hours": -9}', CreateTopic, "retention_hours", "int >= -1"),
        (b'{"inner": [{"number": 1}, {"number": "x"}]}', Outer, "inner[1].number", "int"),
        (b'{"inner": [{}]}', Outer, "inner[0].number", None),
        (b'{"inner": [{"number": 1, "x": 2}]}', Outer, "inner[0].x", None),
        (b'{"inner": 5}', Outer, "inner", "array"),
        (b'{"inner": [], "by_name": {"a": {"b": 1}}}', Outer, "by_name[...]", "int"),
        (b'{"inner": [], "by_name": {"a": {"1": "c"}}}', Outer, "by_name[...][...]", "int"),
    ],
)
def test_the_sentences_of_the_decoder_give_the_field_and_what_was_expected(
    body: bytes, kind: type[msgspec.Struct], field: str, expected: str | None
) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(body, type=kind)
    error = field_error(caught.value, "body")
    assert (error.field, error.expected, error.location) == (field, expected, "body")
    assert "`" not in str(error)


def test_a_sentence_that_nobody_foresaw_is_passed_on() -> None:
    error = field_error(msgspec.ValidationError("Something else"), "query")
    assert (error.field, str(error)) == ("query", "the query: something else")

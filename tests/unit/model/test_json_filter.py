"""Conditions on JSON documents: what fits, what does not, and what is no condition."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, strategies as st

from goqueue.model.json_filter import parse_filter
from goqueue.model.json_path import JsonPathError

ORDER = {
    "user": {"name": "Ada", "age": 36, "odd name": "x", "it's": 1},
    "items": [{"price": 20}, {"price": 120.5, "tags": ["new", "sale"]}],
    "country": "DE",
    "paid": True,
    "note": None,
    "ü": 1,
}


@pytest.mark.parametrize(
    "text",
    [
        "$.user.age > 30",
        "$.user.age>=36",
        "$.user.age == 36.0",
        "$.user.age != 35",
        '$.country == "DE"',
        "$.country = 'DE'",
        r'$.country == "\u0044E"',
        "$['user']['odd name'] == 'x'",
        "$[\"user\"]['it\\'s'] == 1",
        "$.ü == 1",
        "$.items[0].price < 100",
        "$.items[-1].price > 1.2e2",
        "$.items[*].price > 100",
        "$.items[*].tags[*] == 'sale'",
        "$.items[1].tags contains 'new'",
        "$.user.name contains 'da'",
        "$.user.name =~ '^A.a$'",
        "$.paid == true",
        "$.note == null",
        "$.note",
        "$",
        "$.missing != 3",
        "!$.missing",
        "!($.paid == false) && ($.user.age < 10 || $.country >= 'DA')",
        "  $.paid   ==   true  ",
        "$.user.* == 36",
    ],
)
def test_a_document_fits(text: str) -> None:
    assert parse_filter(text).matches(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "$.user.age > 36",
        "$.user.age > '30'",
        "$.user.age == '36'",
        "$.paid == 1",
        "$.note == false",
        "$.note != null",
        "$.missing",
        "$.missing == null",
        "$.items[2]",
        "$.items[-3]",
        "$.country[0]",
        "$.items[*].price != 20",
        "$.user > 3",
        "$.user.name =~ 'b'",
        "$.paid && $.missing",
    ],
)
def test_a_document_does_not_fit(text: str) -> None:
    assert not parse_filter(text).matches(ORDER)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at character 1: expected a condition such as"),
        ("user.age > 30", "at character 1: expected a condition such as"),
        ("$.user.age > thirty", "at character 14: found 'thirty', expected a string"),
        ("$.user.age >", "at character 13: found ''"),
        ("$..age", "at character 2: '..age' is no step of a path"),
        ("$.items[x]", "no step of a path"),
        ("$.a == 1 $.b", "at character 10: '$.b' follows a whole condition"),
        ("($.a == 1", "expected a closing )"),
        ("$.a < true", "< needs a number or a string, not True"),
        ("$.a =~ 3", "=~ needs a string in quotes"),
        ("$.a =~ '('", "does not compile"),
        (r"$.a == '\q'", "no string of JSON"),
        ("!" * 60 + "$.a", "nested too deeply"),
        ("$" + ".a" * 600, "up to 1000 are allowed"),
        ("$.a == 12x", "found '12x'"),
    ],
)
def test_a_text_that_is_no_filter_says_where_and_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(JsonPathError) as caught:
        parse_filter(text)
    assert said in str(caught.value)


def test_values_that_are_no_json_do_not_fit() -> None:
    wanted = parse_filter("!$.a")
    assert wanted.matches_text(b'{"b": 1}')
    assert not wanted.matches_text(b"no json")
    assert not wanted.matches_text(b"\xff")
    assert not wanted.matches_text(None)
    assert not wanted.matches_text("[" * 100_000)


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    with contextlib.suppress(JsonPathError):
        assert parse_filter(text).matches(ORDER) in {True, False}


@given(
    st.dictionaries(st.text(max_size=5), st.integers(-5, 5), max_size=4),
    st.text(max_size=5),
    st.integers(-5, 5),
)
def test_a_member_compares_as_python_compares_it(
    document: dict[str, int], name: str, number: int
) -> None:
    wanted = parse_filter(f"$[{json.dumps(name)}] < {number}")
    assert wanted.matches(document) == (name in document and document[name] < number)

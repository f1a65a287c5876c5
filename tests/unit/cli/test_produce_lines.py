"""Lines become messages, or say what is wrong with them; no line is taken for another."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.produce_lines import json_lines, text_lines


def test_comments_and_empty_lines_do_not_count_but_are_counted() -> None:
    lines = [b"# a comment\n", b'{"value": "one"}\n', b"\n", b"  # another\n", b'{"value": null}']
    found = [(line.number, line.message) for line in json_lines(lines)]
    assert found == [(2, {"value": "one"}), (5, {"value": None})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"hello", "not JSON"),
        (b'{"value": "x"', "not JSON: .* at character 14"),
        (b'"text"', "expected an object"),
        (b"[1]", "expected an object"),
        (b"{}", '"value" is missing'),
        (b'{"value": "x", "vlaue": 1}', "did you mean 'value'"),
        (b'{"value": "x", "qqq": 1}', "there are: value, key"),
        (b'{"value": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_reported_with_its_number_and_the_next_one_is_read(
    line: bytes, said: str
) -> None:
    bad, good = json_lines([line + b"\n", b'{"value": "after"}\n'])
    assert bad.message is None
    assert bad.number == 1
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(bad.error)
    assert (good.number, good.message) == (2, {"value": "after"})


@pytest.mark.parametrize("value", [{"id": 1}, [1, "ü"], 3, True, 1.5])
def test_a_value_that_is_no_text_is_sent_as_its_json(value: object) -> None:
    (line,) = json_lines([json.dumps({"value": value}).encode()])
    assert line.message is not None
    assert json.loads(line.message["value"]) == value


@given(st.lists(st.binary().filter(lambda data: b"\n" not in data and not data.endswith(b"\r"))))
def test_every_line_of_text_is_sent_byte_for_byte(values: list[bytes]) -> None:
    stream = [value + b"\n" for value in values]
    sent = []
    for line in text_lines(stream):
        assert line.message is not None
        value = line.message["value"]
        is_bytes = line.message.get("encoding") == "base64"
        sent.append(base64.b64decode(value) if is_bytes else value.encode())
    assert sent == values

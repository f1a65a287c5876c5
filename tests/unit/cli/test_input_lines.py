"""Lines become messages, or say what is wrong with them; no line is taken for another."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from goqueue.cli.messages.input_lines import (
    _MAX_LINE_BYTES,
    Line,
    json_lines,
    split_lines,
    text_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def there(lines: Iterable[Line | None]) -> list[Line]:
    return [line for line in lines if line is not None]


@given(st.lists(st.none() | st.binary(max_size=8) | st.just(b"a\nb\n")))
def test_lines_are_the_same_however_their_bytes_come(chunks: list[bytes | None]) -> None:
    whole = b"".join(chunk for chunk in chunks if chunk is not None)
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    found = list(split_lines(chunks))
    assert [line for line in found if line is not None] == expected
    assert found.count(None) == chunks.count(None)


@pytest.mark.parametrize("read", [text_lines, json_lines])
def test_a_line_without_an_end_takes_no_more_memory_than_a_request_may(read) -> None:
    chunks = [b"x" * (1 << 20)] * (2 * (_MAX_LINE_BYTES >> 20)) + [b'\n{"value": "after"}\n']
    kept = list(split_lines(chunks))
    assert [len(line or b"") for line in kept] == [_MAX_LINE_BYTES + 1, 18]
    bad, good = there(read(kept))
    assert "longer than" in bad.error
    assert good.number == 2


def test_comments_and_empty_lines_do_not_count_but_are_counted() -> None:
    lines = [b"# a comment", b'{"value": "one"}', b"", b"  # another", b'{"value": null}']
    found = [(line.number, line.message) for line in there(json_lines(lines))]
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
    bad, good = there(json_lines([line, b'{"value": "after"}']))
    assert bad.message is None
    assert bad.number == 1
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(bad.error)
    assert (good.number, good.message) == (2, {"value": "after"})


@pytest.mark.parametrize("value", [{"id": 1}, [1, "ü"], 3, True, 1.5])
def test_a_value_that_is_no_text_is_sent_as_its_json(value: object) -> None:
    (line,) = there(json_lines([json.dumps({"value": value}).encode()]))
    assert line.message is not None
    assert json.loads(line.message["value"]) == value


@given(st.lists(st.binary().filter(lambda data: b"\n" not in data and not data.endswith(b"\r"))))
def test_every_line_of_text_is_sent_byte_for_byte(values: list[bytes]) -> None:
    sent = []
    for line in there(text_lines(values)):
        assert line.message is not None
        value = line.message["value"]
        is_bytes = line.message.get("encoding") == "base64"
        sent.append(base64.b64decode(value) if is_bytes else value.encode())
    assert sent == values

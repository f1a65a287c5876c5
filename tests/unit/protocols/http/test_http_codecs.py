from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from goqueue.protocols.http.api.codecs import duration_ms, time_ms, to_bytes, to_text
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.limits import MAX_TIME_MS

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NO_END = 10**18

parts = st.lists(
    st.tuples(st.integers(0, 999), st.sampled_from(sorted(UNITS_MS))), min_size=1, max_size=4
)


@given(parts)
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    expected = sum(number * UNITS_MS[unit] for number, unit in parts)
    assert duration_ms(text, "wait", at_most_ms=NO_END) == expected


@given(st.integers(0, 10**12))
def test_a_duration_without_a_unit_is_milliseconds(number: int) -> None:
    assert duration_ms(number, "wait", at_most_ms=NO_END) == number
    assert duration_ms(str(number), "wait", at_most_ms=NO_END) == number


@pytest.mark.parametrize(
    ("text", "expected"), [("1.5s", 1500), ("0.25m", 15_000), ("1h0.5s", 3_600_500)]
)
def test_a_duration_may_have_a_fraction(text: str, expected: int) -> None:
    assert duration_ms(text, "wait", at_most_ms=NO_END) == expected


@pytest.mark.parametrize(
    "value", ["", "s", "5 s", "-5s", "5x", "5s ", "5s5", "1e3", "½s", "٣s", ".5s", -1, "9" * 400]
)
def test_what_is_no_duration_is_refused_by_its_field(value: int | str) -> None:
    with pytest.raises(FieldError, match=r"wait is .*, expected a duration") as caught:
        duration_ms(value, "wait", at_most_ms=NO_END)
    assert caught.value.field == "wait"


def test_a_duration_may_be_as_long_as_its_bound_and_no_longer() -> None:
    assert duration_ms("1m", "wait", at_most_ms=60_000) == 60_000
    with pytest.raises(FieldError, match="from 0 to 60000 ms"):
        duration_ms("60001ms", "wait", at_most_ms=60_000)


moments = st.integers(0, MAX_TIME_MS * 1000 - 3 * 86_400_000_000).map(
    lambda microseconds: datetime(1970, 1, 2, tzinfo=UTC) + timedelta(microseconds=microseconds)
)
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(moments, offsets)
def test_a_time_is_the_same_moment_in_every_zone(moment: datetime, zone: timezone) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert time_ms(moment.astimezone(zone).isoformat(), "time") == expected
    assert time_ms(moment.isoformat().replace("+00:00", "Z"), "time") == expected


@given(st.integers(0, MAX_TIME_MS))
def test_a_time_without_punctuation_is_milliseconds(number: int) -> None:
    assert time_ms(number, "time") == number
    assert time_ms(str(number), "time") == number


@pytest.mark.parametrize(
    "value",
    [
        "",
        "noon",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-13-01T00:00:00Z",
        "2024-02-30T00:00:00Z",
        "1969-12-31T23:59:59Z",
        -1,
        MAX_TIME_MS + 1,
        "9" * 400,
    ],
)
def test_what_is_no_time_is_refused_by_its_field(value: int | str) -> None:
    with pytest.raises(FieldError, match=r"from_time is .*, expected a time") as caught:
        time_ms(value, "from_time")
    assert caught.value.field == "from_time"


@given(st.binary())
def test_bytes_come_back_whether_they_are_text_or_not(data: bytes) -> None:
    text, encoding = to_text(data)
    assert to_bytes(text, encoding, "value") == data
    forced, how = to_text(data, force_base64=True)
    assert (forced, how) == (base64.b64encode(data).decode(), "base64")
    assert to_bytes(forced, how, "value") == data


@given(st.text())
def test_text_stays_text(text: str) -> None:
    assert to_text(text.encode()) == (text, "text")


@given(st.binary(max_size=8))
def test_bytes_are_base64_exactly_where_they_are_not_utf_8(data: bytes) -> None:
    try:
        data.decode()
        is_text = True
    except UnicodeDecodeError:
        is_text = False
    assert (to_text(data)[1] == "text") == is_text


@pytest.mark.parametrize("text", ["%%%%", "YQ", "YQ=", "YQ==YQ==", "Y Q=", "YQ==\n", "ü"])
def test_what_is_not_base64_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(FieldError, match="key is not base64") as caught:
        to_bytes(text, "base64", "key")
    assert caught.value.field == "key"


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(FieldError, match="surrogate"):
        to_bytes("\ud800", "text", "value")

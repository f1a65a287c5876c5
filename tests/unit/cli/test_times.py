from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from goqueue.cli.errors import UsageError
from goqueue.cli.times import (
    parse_retention_ms,
    parse_span_ms,
    parse_time_ms,
    show_size,
    show_span,
    show_time,
)

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:00.250+01:00", 250),
        ("12345", 12345),
        ("15m", NOW_MS - 15 * 60_000),
        ("1h30m", NOW_MS - 90 * 60_000),
        ("0s", NOW_MS),
    ],
)
def test_a_time_is_a_date_milliseconds_or_how_long_ago(text: str, expected: int) -> None:
    assert parse_time_ms(text, "--from-time", NOW_MS) == expected


def test_a_date_without_a_zone_is_one_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        assert parse_time_ms("1970-01-01 02:00:05", "--from-time", NOW_MS) == 5000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "now", "yesterday", "-5", "9" * 16, "12:00", "99999d99999d"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match=r"--to-time: .* is no time; expected .* 15m"):
        parse_time_ms(text, "--to-time", NOW_MS)


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - bounds are naive
def test_a_shown_time_reads_back(moment: datetime) -> None:
    whole = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    ms = round(whole.timestamp() * 1000)
    assert parse_time_ms(show_time(ms), "test", NOW_MS) == ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("168", 168 * HOUR_MS),
        ("168h", 168 * HOUR_MS),
        ("7d", 168 * HOUR_MS),
        ("30m", HOUR_MS // 2),
        ("forever", -1),
        ("-1", -1),
    ],
)
def test_a_retention_is_in_hours_unless_it_says_otherwise(text: str, expected: int) -> None:
    assert parse_retention_ms(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-5", "long", "1x", "h"])
def test_what_is_no_retention_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--retention"):
        parse_retention_ms(text)


def test_spans_add_up_and_nothing_else_is_one() -> None:
    assert parse_span_ms("1d2h3m4s5ms") == 93_784_005
    assert parse_span_ms("1.5s") == 1500
    assert [parse_span_ms(text) for text in ("", "5", "s", "1s ", "1s-2s")] == [None] * 5


def test_figures_are_shown_for_people() -> None:
    assert [show_size(size) for size in (0, 1023, 1536, 5 << 20, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KB",
        "5.0 MB",
        "3.0 TB",
    ]
    assert [show_span(s) for s in (0.2, 59, 3661, 90_000)] == ["0s", "59s", "1h 1m", "1d 1h"]
    assert show_time(-1) == "-1"

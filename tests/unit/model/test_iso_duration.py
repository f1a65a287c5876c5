"""Durations as ISO 8601 and Java write them."""

from __future__ import annotations

import pytest

from goqueue.model.iso_duration import iso_duration_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4S", 93_784_000),
        ("pt1.5s", 1500),
        ("PT0.001S", 1),
        ("PT0S", 0),
        ("+PT1H", 3_600_000),
        ("PT1H-30M", 1_800_000),
        ("PT-0.5S", None),
        ("-PT1H", None),
        ("PT-1H", None),
        ("", None),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1Y", None),
        ("P1W", None),
        ("1H", None),
        ("P" + "9" * 5000 + "D", None),
    ],
)
def test_durations_are_read_as_java_reads_them(text, expected_ms):
    assert iso_duration_ms(text) == expected_ms

"""Which errors of dead letters are the same, and how many groups are kept."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from goqueue.queues.dead_letters.error_groups import _MAX_GROUPS, ErrorGroups
from goqueue.queues.dead_letters.error_patterns import error_pattern
from goqueue.queues.dead_letters.letters import Letter
from goqueue.records import Record


def letter(offset: int, error: str) -> Letter:
    return Letter(0, Record(offset, offset, None, b""), {"reason": "REJECTED", "error": error})


@pytest.mark.parametrize(
    ("error", "pattern"),
    [
        ("no customer 4711", "no customer #"),
        ("order 6f1c2a9e-5b7d-4c1f-8a3e-0123456789ab is gone", "order # is gone"),
        ("object at 0x7f3a2c is broken", "object at # is broken"),
        ("commit 3e8f1a2bc4 refused", "commit # refused"),
        ("deadbeef is a word", "deadbeef is a word"),
        ("timeout after 2.5 s", "timeout after #.# s"),
        ("", ""),
    ],
)
def test_numbers_and_ids_do_not_tell_errors_apart(error: str, pattern: str) -> None:
    assert error_pattern(error) == pattern


@given(st.text(alphabet="0123456789abcdefx-# .", max_size=60))
def test_the_pattern_of_a_pattern_is_itself(error: str) -> None:
    pattern = error_pattern(error)
    assert error_pattern(pattern) == pattern


def test_letters_of_more_groups_than_are_kept_are_counted_as_others() -> None:
    groups = ErrorGroups()
    names = [chr(0x4E00 + number) for number in range(_MAX_GROUPS + 5)]
    groups.add(letter(at, name) for at, name in enumerate([*names, names[0]]))
    found = groups.largest_first()
    assert (found[0].error, found[0].count, found[0].newest_ms) == (names[0], 2, len(names))
    assert (len(found), groups.others, groups.letters) == (_MAX_GROUPS, 5, len(names) + 1)

"""Where `goqueue consume` starts, of what its options say."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from goqueue.cli.errors import UsageError
from goqueue.cli.messages.topic_reader import Start
from goqueue.cli.times import moment_ms

BEGINNING: Final = Start("offset", "earliest")
LATEST: Final = Start("offset", "latest")
_EXPECTED: Final = (
    "expected an offset such as 42, -10 for the last ten of each partition, earliest, latest, or "
    "@TIME as in @15m or @2025-01-31T12:00:00Z"
)


class Started(NamedTuple):
    """Where to start, and the option that said so."""

    option: str
    start: Start
    """Of the kind `offset`, `time` or `last`, which counts from the end of each partition."""


def started(
    offset: str | None, from_time: str | None, *, from_beginning: bool, from_latest: bool
) -> Started | None:
    """The one start that was given; None if there was none.

    Raises:
        UsageError: there are two, or one makes no sense.
    """
    begin_ms = moment_ms(from_time, "--from-time")
    given = [
        Started(option, start)
        for option, start in {
            "--offset": None if offset is None else parse_offset(offset),
            "--from-beginning": BEGINNING if from_beginning else None,
            "--from-latest": LATEST if from_latest else None,
            "--from-time": None if begin_ms is None else Start("time", begin_ms),
        }.items()
        if start is not None
    ]
    if len(given) > 1:
        names = " and ".join(each.option for each in given)
        raise UsageError(f"{names} are two starting positions: give only one")
    return given[0] if given else None


def parse_offset(text: str) -> Start:
    """An offset, one from the end, a name or a time.

    Raises:
        UsageError: it is none of them.
    """
    if text in {"earliest", "beginning"}:
        return BEGINNING
    if text in {"latest", "end"}:
        return LATEST
    if text.startswith("@") and (found := moment_ms(text[1:], "--offset")) is not None:
        return Start("time", found)
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise UsageError(f"--offset: {text!r} is no offset; {_EXPECTED}")
    number = int(text)
    return Start("last", -number) if text.startswith("-") else Start("offset", number)


def is_absolute(start: Start) -> bool:
    """Whether it is an offset that means something in one partition only."""
    return start.kind == "offset" and isinstance(start.value, int)

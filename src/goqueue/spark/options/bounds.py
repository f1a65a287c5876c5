"""Where a read starts and ends, as options say it: an end of the log, offsets, or moments."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.consuming.log_offsets import EARLIEST, LATEST
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MAX_MS: Final = 2**63 - 1
WORDS: Final = {"latest": LATEST, "earliest": EARLIEST}


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of what is read. Exactly one of the four says it."""

    everywhere: int | None = None
    """`EARLIEST` or `LATEST` in all partitions."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """An offset, `EARLIEST` or `LATEST` for each partition."""
    moment_ms: int | None = None
    """The first message of this time or later, in all partitions."""
    moments: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The same for each partition."""

    @property
    def is_by_time(self) -> bool:
        """Whether the broker has to look for times."""
        return self.moment_ms is not None or bool(self.moments)

    @property
    def places(self) -> frozenset[TopicPartition] | None:
        """The partitions that it names; None when it holds for all."""
        named = self.offsets or self.moments
        return frozenset(named) if named else None


def parse_offsets(text: str) -> Bound:
    """`earliest`, `latest` or `{"orders": {"0": 23, "1": -2}}`.

    Raises:
        ValueError: it is none of them; the text says what was expected.
    """
    word = WORDS.get(text.strip().lower())
    if word is not None:
        return Bound(everywhere=word)
    offsets = parse_places(text, 'earliest, latest or {"topic": {"0": 23, "1": -2}}')
    if any(offset < EARLIEST for offset in offsets.values()):
        raise ValueError("offsets are 0 and up, -1 for latest, -2 for earliest")
    return Bound(offsets=offsets)


def parse_moment(text: str) -> int:
    """Milliseconds since 1970, or a moment with its zone as in 2026-01-31T12:00:00+00:00.

    Raises:
        ValueError: it is neither.
    """
    text = text.strip()
    if text.isdecimal():
        return _checked_ms(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            f"{text!r} is no moment: expected milliseconds since 1970, or a time with its zone, "
            "as in 2026-01-31T12:00:00Z"
        )
    if moment < _EPOCH:
        raise ValueError(f"{text!r} is before 1970, when the broker's time begins")
    return -((_EPOCH - moment) // _MILLISECOND)  # rounded up: messages know milliseconds only


def parse_moments(text: str) -> Bound:
    """`{"orders": {"0": 1700000000000}}`: the moment of each partition.

    Raises:
        ValueError: it is something else.
    """
    moments = parse_places(text, '{"topic": {"0": milliseconds}}')
    return Bound(moments={place: _checked_ms(moment) for place, moment in moments.items()})


def _checked_ms(moment: int) -> int:
    if not 0 <= moment <= _MAX_MS:
        raise ValueError(f"moments are milliseconds since 1970, 0 and up, not {moment}")
    return moment


def parse_places(text: str, expected: str) -> dict[TopicPartition, int]:
    """A number for each partition, from JSON by topic and partition.

    Raises:
        ValueError: the JSON is of another shape.
    """
    problem = f"expected {expected}"
    tree = _json(text, problem)
    if not isinstance(tree, dict) or not tree:
        raise ValueError(problem)
    found: dict[TopicPartition, int] = {}
    for topic, numbers in tree.items():
        if not isinstance(numbers, dict) or not numbers:
            raise ValueError(f"{problem}; topic {topic!r} has no partitions")
        for partition, number in numbers.items():
            if not partition.isdecimal() or type(number) is not int:
                raise ValueError(f"{problem}; not {partition!r}: {number!r}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def parse_assignment(text: str) -> frozenset[TopicPartition]:
    """`{"orders": [0, 1], "refunds": [2]}`.

    Raises:
        ValueError: it is something else.
    """
    problem = 'expected {"topic": [0, 1]}'
    tree = _json(text, problem)
    if not isinstance(tree, dict) or not tree:
        raise ValueError(problem)
    found = set()
    for topic, numbers in tree.items():
        if not isinstance(numbers, list) or not numbers:
            raise ValueError(f"{problem}; topic {topic!r} has no partitions")
        for number in numbers:
            if type(number) is not int or number < 0:
                raise ValueError(f"{problem}; not {number!r}")
            found.add(TopicPartition(topic, number))
    return frozenset(found)


def _json(text: str, problem: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{problem}; this is no JSON: {error}") from error

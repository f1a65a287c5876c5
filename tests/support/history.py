"""What clients did with a topic, one line an operation, and a judge who has seen nothing else.

Every value names its producer and its number, and is sent once. The judge looks for what Jepsen's
tests of Kafka and Redpanda look for:

    lost            acknowledged with acks=all, and not in the log at the end
    gone            read by somebody, and not in the log at the end
    inconsistent    one offset, two values
    duplicate       one value of an idempotent producer at two offsets
    reordered       two values of one producer in one partition, not in the order they were sent
    skipped         a consumer went past a message within one assignment
    went back       a consumer got an offset again, or an earlier one, within one assignment
    forgotten       an assignment began below an offset whose commit had been acknowledged
    passed over     below a group's committed offset, and none of its members ever got it
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


class Send(msgspec.Struct, tag="send", tag_field="op"):
    """A producer was given a value; nothing is known of it yet."""

    at_s: float
    producer: str
    number: int
    partition: int


class Ack(msgspec.Struct, tag="ack", tag_field="op"):
    """The value is at this offset, for good; None where a broker only said that it is there."""

    at_s: float
    producer: str
    number: int
    partition: int
    offset: int | None


class Fail(msgspec.Struct, tag="fail", tag_field="op"):
    """The producer was told an error: the value may be there, or not."""

    at_s: float
    producer: str
    number: int
    error: str


class Assign(msgspec.Struct, tag="assign", tag_field="op"):
    """A consumer begins with a partition, where its group has committed."""

    at_s: float
    group: str
    consumer: str
    partition: int


class Poll(msgspec.Struct, tag="poll", tag_field="op"):
    """A consumer got messages of one partition: offsets and values."""

    at_s: float
    group: str
    consumer: str
    partition: int
    messages: list[tuple[int, str]]


class Commit(msgspec.Struct, tag="commit", tag_field="op"):
    """A group's offset was committed: the next message to read. `asked_s` is when it was sent."""

    at_s: float
    group: str
    consumer: str
    partition: int
    offset: int
    asked_s: float


class Fault(msgspec.Struct, tag="fault", tag_field="op"):
    """Something was done to the cluster; only for whoever reads the file."""

    at_s: float
    what: str


Operation = Send | Ack | Fail | Assign | Poll | Commit | Fault


class Finding(NamedTuple):
    """Something that must not be."""

    kind: str
    told: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.told}"


def value_of(producer: str, number: int) -> str:
    """What a producer sends as its n-th."""
    return f"{producer}:{number}"


class History:
    """Operations in the order in which they ended; threads add to it."""

    def __init__(self, file: Path | None = None) -> None:
        self.operations: list[Operation] = []
        self._lock = threading.Lock()
        self._file = file.open("ab") if file is not None else None

    def add(self, operation: Operation) -> None:
        with self._lock:
            self.operations.append(operation)
            if self._file is not None:
                self._file.write(msgspec.json.encode(operation) + b"\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    @staticmethod
    def now() -> float:
        """A time of this history; it only grows."""
        return time.monotonic()

    def count(self, kind: type[Operation]) -> int:
        with self._lock:
            return sum(isinstance(each, kind) for each in self.operations)


def read(file: Path) -> list[Operation]:
    """A history that was written to a file; a last line that is cut off does not count."""
    decode: Callable[[bytes], Operation] = msgspec.json.Decoder(Operation).decode
    lines = file.read_bytes().split(b"\n")
    return [decode(line) for line in lines[:-1]]


Log = dict[int, dict[int, str]]
"""By partition: what is at each offset."""


def judge(operations: Iterable[Operation], log: Log) -> list[Finding]:
    """Everything that is wrong with a history, given the whole log as it was read at the end."""
    history = list(operations)
    findings = list(_inconsistent(history, log))
    findings += _lost(history, log)
    findings += _gone(history, log)
    findings += _duplicate(log)
    findings += _reordered(log)
    findings += _assignments(history, log)
    findings += _passed_over(history, log)
    return findings


def _inconsistent(history: list[Operation], log: Log) -> Iterator[Finding]:
    """Two values at one offset, whoever saw them."""
    seen = {(part, offset): value for part, at in log.items() for offset, value in at.items()}
    for each in history:
        if isinstance(each, Ack) and each.offset is not None:
            told = [(each.offset, value_of(each.producer, each.number))]
        elif isinstance(each, Poll):
            told = each.messages
        else:
            continue
        for offset, value in told:
            first = seen.setdefault((each.partition, offset), value)
            if first != value:
                yield Finding("inconsistent", f"{each.partition}@{offset}: {first} and {value}")


def _lost(history: list[Operation], log: Log) -> Iterator[Finding]:
    found = {part: set(at.values()) for part, at in log.items()}
    for each in history:
        if isinstance(each, Ack):
            value = value_of(each.producer, each.number)
            if value not in found.get(each.partition, ()):
                yield Finding("lost", f"{value}, acknowledged as {each.partition}@{each.offset}")


def _gone(history: list[Operation], log: Log) -> Iterator[Finding]:
    for each in history:
        if isinstance(each, Poll):
            at = log.get(each.partition, {})
            for offset, value in each.messages:
                if offset not in at:
                    where = f"{each.partition}@{offset}"
                    yield Finding("gone", f"{value} at {where}, read by {each.consumer}")


def _duplicate(log: Log) -> Iterator[Finding]:
    places: dict[str, list[str]] = defaultdict(list)
    for part, at in log.items():
        for offset, value in at.items():
            places[value].append(f"{part}@{offset}")
    for value, where in places.items():
        if len(where) > 1:
            yield Finding("duplicate", f"{value} at {', '.join(where)}")


def _reordered(log: Log) -> Iterator[Finding]:
    for part, at in log.items():
        newest: dict[str, tuple[int, int]] = {}
        for offset, value in sorted(at.items()):
            producer, _, text = value.rpartition(":")
            number = int(text)
            before = newest.get(producer)
            if before is not None and number < before[0]:
                told = f"{value} at {part}@{offset} after {producer}:{before[0]} at {before[1]}"
                yield Finding("reordered", told)
            else:
                newest[producer] = (number, offset)


class _Assignment(msgspec.Struct):
    """Where a consumer is in one partition, since it has it."""

    began_s: float
    last: int = -1


def _assignments(history: list[Operation], log: Log) -> Iterator[Finding]:
    """What consumers got between two assignments of a partition, one after the other."""
    held: dict[tuple[str, int], _Assignment] = {}
    committed: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
    for each in history:
        if isinstance(each, Commit):
            committed[each.group, each.partition].append((each.at_s, each.offset))
        elif isinstance(each, Assign):
            held[each.consumer, each.partition] = _Assignment(each.at_s)
        elif isinstance(each, Poll) and each.messages:
            mine = held.setdefault((each.consumer, each.partition), _Assignment(0.0))
            if mine.last < 0:
                commits = committed[each.group, each.partition]
                yield from _forgotten(each, mine.began_s, commits)
            yield from _steps(each, mine, log.get(each.partition, {}))


def _forgotten(poll: Poll, began_s: float, commits: list[tuple[float, int]]) -> Iterator[Finding]:
    """The first messages of an assignment begin where the group had committed, or later."""
    before = [offset for at_s, offset in commits if at_s < began_s]
    first = poll.messages[0][0]
    if before and first < before[-1]:
        where = f"{poll.partition}@{first}"
        told = f"{poll.consumer} of {poll.group} began at {where}, committed was {before[-1]}"
        yield Finding("forgotten", told)


def _steps(poll: Poll, mine: _Assignment, at: dict[int, str]) -> Iterator[Finding]:
    for offset, value in poll.messages:
        where = f"{poll.consumer}: {poll.partition}@{offset} ({value}) after {mine.last}"
        if offset <= mine.last:
            yield Finding("went back", where)
        elif mine.last >= 0:
            missed = [between for between in range(mine.last + 1, offset) if between in at]
            if missed:
                yield Finding("skipped", f"{where}; {len(missed)} between, from {missed[0]}")
        mine.last = max(mine.last, offset)


def _passed_over(history: list[Operation], log: Log) -> Iterator[Finding]:
    """Below the highest offset that a group has committed, somebody of it got everything."""
    highest: dict[tuple[str, int], int] = defaultdict(int)
    got: dict[tuple[str, int], set[int]] = defaultdict(set)
    for each in history:
        if isinstance(each, Commit):
            key = each.group, each.partition
            highest[key] = max(highest[key], each.offset)
        elif isinstance(each, Poll):
            got[each.group, each.partition].update(offset for offset, _ in each.messages)
    for (group, part), end in highest.items():
        missed = [each for each in log.get(part, {}) if each < end and each not in got[group, part]]
        if missed:
            told = f"{group} has committed {part}@{end} and never got {len(missed)} below it"
            yield Finding("passed over", f"{told}, from {min(missed)}")

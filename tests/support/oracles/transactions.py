"""Judge of consume-transform-produce: one committed output for each input.

Every input is a value of its own. An output names the transaction that wrote it and how many
outputs that had. Workers also write outputs in transactions that they abort, named as such.

    lost            an input that was acknowledged and is not in the source
    no output       an input whose output is not in the target
    doubled         an input with two committed outputs
    invented        an output of no input
    aborted read    an output of a transaction that its worker aborted
    torn            some outputs of a transaction are there, and others are not
    reordered       outputs of one partition, not in the order of their inputs
    gone            an output that a reader of committed messages saw, and that is not there
    offsets         a committed offset that is not the end of what was transformed
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from support.history import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Stored(NamedTuple):
    """A message of the source."""

    partition: int
    offset: int
    value: str


class Output(NamedTuple):
    """A message of the target, as a reader of committed messages gets it."""

    partition: int
    offset: int
    value: str
    """That of its input."""
    transaction: str
    size: int
    """How many outputs its transaction has."""
    is_aborted: bool = False
    """Whether its worker has aborted that transaction."""


class Transformed(NamedTuple):
    """A run, once everything is done."""

    acked: set[str]
    """Inputs that the broker has acknowledged."""
    source: list[Stored]
    target: list[Output]
    seen: list[Output]
    """What a reader got while all went on."""
    committed: dict[int, int]
    """By partition of the source: the offset that the workers have committed."""


def judge(run: Transformed) -> list[Finding]:
    """Everything that is wrong with a run."""
    findings = [Finding("lost", each) for each in run.acked - {one.value for one in run.source}]
    findings += _outputs(run.source, run.target)
    findings += _torn(run.target)
    findings += _reordered(run.source, run.target)
    findings += _gone(run.target, run.seen)
    findings += _offsets(run.source, run.committed)
    return findings


def _outputs(source: Iterable[Stored], target: Iterable[Output]) -> Iterator[Finding]:
    inputs, outputs = {each.value for each in source}, Counter[str]()
    for each in target:
        if each.is_aborted:
            yield Finding("aborted read", f"{each.value} at {each.partition}@{each.offset}")
        else:
            outputs[each.value] += 1
    for value in inputs - outputs.keys():
        yield Finding("no output", value)
    for value, times in outputs.items():
        if value not in inputs:
            yield Finding("invented", value)
        elif times > 1:
            yield Finding("doubled", f"{value}, {times} times")


def _torn(target: Iterable[Output]) -> Iterator[Finding]:
    written: dict[str, list[Output]] = defaultdict(list)
    for each in target:
        written[each.transaction].append(each)
    for name, outputs in written.items():
        if len(outputs) != outputs[0].size:
            yield Finding("torn", f"{name}: {len(outputs)} of {outputs[0].size}")


def _reordered(source: Iterable[Stored], target: Iterable[Output]) -> Iterator[Finding]:
    places = {each.value: each.offset for each in source}
    last: dict[int, tuple[int, str]] = {}
    for each in sorted(target):
        if each.value in places and not each.is_aborted:
            before = last.get(each.partition, (-1, ""))
            if places[each.value] < before[0]:
                where = f"{each.partition}@{each.offset}"
                yield Finding("reordered", f"{each.value} at {where} after {before[1]}")
            last[each.partition] = max(before, (places[each.value], each.value))


def _gone(target: Iterable[Output], seen: Iterable[Output]) -> Iterator[Finding]:
    found = {(each.partition, each.offset): each for each in target}
    for each in seen:
        where = each.partition, each.offset
        if each.is_aborted:
            yield Finding("aborted read", f"{each.value} at {where}, seen meanwhile")
        elif found.get(where) != each:
            yield Finding("gone", f"{each.value} at {where}; there is {found.get(where)}")


def _offsets(source: Iterable[Stored], committed: dict[int, int]) -> Iterator[Finding]:
    ends: dict[int, int] = {}
    for each in source:
        ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
    for partition, end in ends.items():
        if committed.get(partition) != end:
            told = f"{partition} is committed up to {committed.get(partition)}, and ends at {end}"
            yield Finding("offsets", told)

"""Judge of a schema registry with a writer that dies: one id a schema, readable at once everywhere.

two ids         one schema, registered under two ids
inconsistent    one id, two schemas, whoever has read them
unreadable      a node did not know an id that a registration had been answered with before
lost            a registration that was acknowledged, and no version of its subject has it
doubled         one schema, two versions of one subject
gap             the versions of a subject are not 1, 2, 3 and so on
differing       nodes list different versions of a subject at the end
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from support.history import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Registered(NamedTuple):
    """A registration was acknowledged."""

    subject: str
    schema: str
    id: int


class Read(NamedTuple):
    """A node was asked for an id after its registration had been answered."""

    node: int
    id: int
    schema: str | None
    """None: it said that there is no such id."""


Versions = dict[str, list[tuple[int, int, str]]]
"""By subject: each version with its id and its schema."""


def judge(
    registered: Iterable[Registered], reads: Iterable[Read], listed: dict[int, Versions]
) -> list[Finding]:
    """Everything that is wrong, given what each node lists at the end."""
    registered, reads = list(registered), list(reads)
    findings = list(_ids(registered, reads, listed))
    findings += [
        Finding("unreadable", f"{each.id} on node {each.node}")
        for each in reads
        if each.schema is None
    ]
    for node, versions in listed.items():
        findings += _kept(node, registered, versions)
    if len({repr(sorted(each.items())) for each in listed.values()}) > 1:
        findings.append(Finding("differing", f"{listed}"[:500]))
    return findings


def _ids(
    registered: list[Registered], reads: list[Read], listed: dict[int, Versions]
) -> Iterator[Finding]:
    told = [(each.id, each.schema) for each in registered]
    told += [(each.id, each.schema) for each in reads if each.schema is not None]
    for versions in listed.values():
        told += [(at, schema) for some in versions.values() for _, at, schema in some]
    by_id, by_schema = defaultdict[int, set[str]](set), defaultdict[str, set[int]](set)
    for schema_id, schema in told:
        by_id[schema_id].add(schema)
        by_schema[schema].add(schema_id)
    for schema_id, schemas in by_id.items():
        if len(schemas) > 1:
            yield Finding("inconsistent", f"{schema_id}: {sorted(schemas)}")
    for schema, ids in by_schema.items():
        if len(ids) > 1:
            yield Finding("two ids", f"{schema}: {sorted(ids)}")


def _kept(node: int, registered: list[Registered], versions: Versions) -> Iterator[Finding]:
    there = {(name, schema) for name, some in versions.items() for _, _, schema in some}
    for each in registered:
        if (each.subject, each.schema) not in there:
            yield Finding("lost", f"{each.schema} of {each.subject} on node {node}")
    for subject, some in versions.items():
        numbers = sorted(number for number, _, _ in some)
        if numbers != list(range(1, len(numbers) + 1)):
            yield Finding("gap", f"{subject} on node {node}: {numbers}")
        if len({schema for _, _, schema in some}) < len(some):
            yield Finding("doubled", f"{subject} on node {node}: {some}")

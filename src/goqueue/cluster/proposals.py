"""Transactions that a core wants in the metadata store, as values that may be sent again.

Every change of a record is conditioned on the revision that it was decided on. So a proposal whose
answer was lost is sent again as it is: it commits, or the conflict shows the record with its token
(it had happened) or with another one (it never will).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cluster.metadata import Condition, Delete, Put
from goqueue.cluster.records import encode, node_key
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from goqueue.cluster.metadata import Entry, Operation, Revision
    from goqueue.cluster.records import PartitionKey, PartitionRecord
    from goqueue.cluster.view import ClusterView

PARTITIONS_PER_TRANSACTION: Final = 60
"""With a condition and a put each, the guards and the nodes, under what a transaction may hold."""

NODES_PER_TRANSACTION: Final = 6
"""Registrations that one transaction is conditioned on; partitions with others go into the next."""


class Proposal(NamedTuple):
    """When every condition holds, every operation happens."""

    purpose: str
    """For the log: `isr`, `elect`, `fence`, …"""
    token: str
    """In every record that it puts."""
    conditions: tuple[Condition, ...]
    operations: tuple[Operation, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that it changes."""
        return tuple(operation.key for operation in self.operations)

    def found(self, current: Mapping[str, Entry | None]) -> Revision | None:
        """The revision that this proposal was committed at, when what is stored shows that."""
        for operation in self.operations:
            entry = current.get(operation.key)
            if isinstance(operation, Put) and entry is not None and self._wrote(entry.value):
                return entry.revision
        return None

    def _wrote(self, value: bytes) -> bool:
        stored = msgspec.msgpack.decode(value)
        return isinstance(stored, dict) and stored.get("token") == self.token


class PartitionChange(NamedTuple):
    """A partition record that shall be replaced."""

    key: PartitionKey
    revision: Revision
    """Of the record that this was decided on."""
    record: PartitionRecord | None
    """None: the record shall go."""
    nodes: frozenset[int] = frozenset()
    """Nodes whose registration must be what it was."""


def bundles(
    purpose: str,
    changes: Iterable[PartitionChange],
    view: ClusterView,
    new_token: Callable[[], str],
    guards: tuple[Condition, ...] = (),
) -> Iterator[Proposal]:
    """The changes in as few transactions as may be, each under the guards."""
    waiting: list[PartitionChange] = []
    nodes: frozenset[int] = frozenset()
    for change in changes:
        joined = nodes | change.nodes
        if waiting and (
            len(waiting) >= PARTITIONS_PER_TRANSACTION or len(joined) > NODES_PER_TRANSACTION
        ):
            held = [registration(view, each) for each in sorted(nodes)]
            yield _bundle(purpose, waiting, held, new_token(), guards)
            waiting, joined = [], change.nodes
        waiting.append(change)
        nodes = joined
    if waiting:
        held = [registration(view, each) for each in sorted(nodes)]
        yield _bundle(purpose, waiting, held, new_token(), guards)


def _bundle(
    purpose: str,
    changes: Iterable[PartitionChange],
    registrations: Iterable[Condition],
    token: str,
    guards: tuple[Condition, ...],
) -> Proposal:
    conditions = [*guards, *registrations]
    operations: list[Operation] = []
    for change in changes:
        key = str(change.key)
        conditions.append(Condition(key, change.revision))
        if change.record is None:
            operations.append(Delete(key))
        else:
            record = msgspec.structs.replace(change.record, token=token)
            operations.append(Put(key, encode(record)))
    return Proposal(purpose, token, tuple(conditions), tuple(operations))


def registration(view: ClusterView, node_id: int) -> Condition:
    """Holds while a node is registered as the view shows it."""
    return Condition(node_key(node_id), view.nodes[node_id].revision)

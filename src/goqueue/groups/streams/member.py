"""A member of a Streams group: one thread of one process of the application."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from goqueue.groups.encoding import StreamsMemberValue, TasksByRole
from goqueue.groups.member_memory import held_by
from goqueue.groups.reconciled.member import Reconciling, updated_by
from goqueue.groups.streams.assignor import Role, Task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.groups.messages import StreamsHeartbeat, UserEndpoint


class StreamsMember(Reconciling[Task], frozen=True, kw_only=True):
    """A member; what it owns are tasks."""

    topology_epoch: int = -1
    """Of the topology that it joined with."""
    process_id: str = ""
    endpoint: UserEndpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def held_bytes(self) -> int:
        """What the member says of itself; its tasks are those of the topology."""
        host = None if self.endpoint is None else self.endpoint.host
        texts = (
            self.member_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.process_id,
            host,
        )
        return held_by(texts, names=chain.from_iterable(self.tags))

    def updated_by(self, request: StreamsHeartbeat) -> StreamsMember:
        """The member with what it says of itself; silence keeps what it said before."""
        topology = request.topology
        return updated_by(
            self,
            request,
            topology_epoch=self.topology_epoch if topology is None else topology.epoch,
            process_id=self.process_id if request.process_id is None else request.process_id,
            endpoint=self.endpoint if request.endpoint is None else request.endpoint,
            tags=self.tags if request.tags is None else request.tags,
        )

    def is_assigned_like(self, other: StreamsMember) -> bool:
        """Whether an assignor can tell two members apart only by what they have."""
        return (self.process_id, self.topology_epoch) == (other.process_id, other.topology_epoch)

    def to_value(self) -> StreamsMemberValue:
        """What of the member is stored: everything."""
        return StreamsMemberValue(
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.topology_epoch,
            self.process_id,
            self.endpoint,
            self.tags,
            self.epoch,
            self.previous_epoch,
            self.state,
            by_role(self.assigned),
            by_role(self.pending_revocation),
            by_role(self.target),
        )

    @classmethod
    def from_value(cls, member_id: str, value: StreamsMemberValue) -> StreamsMember:
        """A member as it was stored."""
        return cls(
            member_id=member_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=value.endpoint,
            tags=value.tags,
            epoch=value.epoch,
            previous_epoch=value.previous_epoch,
            state=value.state,
            assigned=_tasks(value.assigned),
            pending_revocation=_tasks(value.pending_revocation),
            target=_tasks(value.target),
        )


def by_role(tasks: Iterable[Task]) -> TasksByRole:
    """Group and sort a set of tasks."""
    roles: dict[str, dict[str, list[int]]] = {}
    for role, subtopology_id, number in sorted(tasks):
        roles.setdefault(role.value, {}).setdefault(subtopology_id, []).append(number)
    return tuple(
        (role, tuple((each, tuple(numbers)) for each, numbers in found.items()))
        for role, found in roles.items()
    )


def _tasks(grouped: TasksByRole) -> frozenset[Task]:
    """The set that `by_role` was given."""
    return frozenset(
        (Role(role), subtopology_id, number)
        for role, found in grouped
        for subtopology_id, numbers in found
        for number in numbers
    )

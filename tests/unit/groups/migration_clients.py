"""A classic consumer as real ones behave: eager or cooperative, leading when it is told to."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from goqueue.groups.assignors import MemberSpec, assign_range, assign_uniform
from goqueue.groups.consumer.protocol import (
    assigned_partitions,
    encode_assignment,
    read_subscription,
)
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GroupError,
    MemberIdRequiredError,
    RebalanceInProgressError,
)
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from goqueue.groups.effects import Token
    from goqueue.groups.messages import JoinResult
    from unit.groups.group_driver import Driver

Partitions: TypeAlias = "frozenset[TopicPartition]"


def subscription(owned: Partitions = frozenset(), *, version: int = 1, topic: str = "t") -> bytes:
    """A subscription to one topic, as clients since KIP-429 write it."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    parts = [struct.pack(">hi", version, 1), name, struct.pack(">i", -1)]
    numbers = sorted(number for _, number in owned)
    parts.append(struct.pack(">i", 1 if numbers else 0))
    if numbers:
        parts += [name, struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


@dataclass
class ClassicClient:
    """What it consumes is all that matters; `step` does the next thing that it would do."""

    driver: Driver
    cooperative: bool
    member_id: str = ""
    generation: int = -1
    consumes: Partitions = frozenset()
    joining: Token | None = None
    syncing: Token | None = None

    def step(self) -> None:
        if self.joining is not None:
            self._await_join(self.joining)
        elif self.syncing is not None:
            self._await_sync(self.syncing)
        elif self.generation < 0:
            self._join()
        else:
            self._heartbeat()

    def leave(self) -> None:
        self.consumes = frozenset()
        if self.member_id:
            self.driver.leave(self.member_id)

    def _heartbeat(self) -> None:
        answer = self.driver.answers[self.driver.heartbeat(self.member_id, self.generation)]
        if isinstance(answer, RebalanceInProgressError):
            self._join()
        elif isinstance(answer, GroupError):
            self._lose_everything()

    def _lose_everything(self) -> None:
        self.member_id, self.generation, self.consumes = "", -1, frozenset()
        self._join()

    def _join(self) -> None:
        if not self.cooperative:
            self.consumes = frozenset()
        name = "cooperative-sticky" if self.cooperative else "range"
        self.syncing = None
        self.joining = self.driver.join(
            member_id=self.member_id,
            protocols=((name, subscription(self.consumes)),),
            require_known_member_id=True,
        )

    def _await_join(self, token: Token) -> None:
        answer = self._answer(token)
        if answer is None:
            return
        self.joining = None
        if isinstance(answer, MemberIdRequiredError):
            self.member_id = answer.member_id
            self._join()
        elif isinstance(answer, CoordinatorUnavailableError) or answer == "broken":
            self._join()
        elif isinstance(answer, GroupError):
            self._lose_everything()
        else:
            self.generation = answer.generation
            leads = answer.leader_id == self.member_id
            assignments = self._assign(answer) if leads else {}
            self.syncing = self.driver.sync(self.member_id, self.generation, assignments)

    def _await_sync(self, token: Token) -> None:
        answer = self._answer(token)
        if answer is None:
            return
        self.syncing = None
        if isinstance(answer, RebalanceInProgressError) or answer == "broken":
            self._join()
        elif isinstance(answer, GroupError):
            self._lose_everything()
        else:
            assigned = assigned_partitions(answer.assignment) or frozenset()
            revoked = self.consumes - assigned
            self.consumes = assigned
            if revoked:
                self._join()

    def _answer(self, token: Token) -> Any:
        """The answer, None when there is none yet, "broken" when there will never be one."""
        if token in self.driver.answers:
            return self.driver.answers[token]
        return None if token in self.driver.waiting else "broken"

    def _assign(self, joined: JoinResult) -> dict[str, bytes]:
        counts = {"t": self.driver.catalogue.topics["t"].partition_count}
        read = {each.member_id: read_subscription(each.metadata) for each in joined.members}
        said = {member_id: each for member_id, each in read.items() if each is not None}
        specs = {member_id: MemberSpec(each.topics, each.owned) for member_id, each in said.items()}
        shares = (assign_uniform if self.cooperative else assign_range)(specs, counts)
        owner = {part: member_id for member_id, each in said.items() for part in each.owned}
        return {
            member_id: encode_assignment(
                frozenset(
                    TopicPartition(*part)
                    for part in share
                    if owner.get(TopicPartition(*part), member_id) == member_id
                )
            )
            for member_id, share in shares.items()
        }

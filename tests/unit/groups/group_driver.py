"""A shell for the coordinator that does nothing but check: every reply once, every entry kept."""

from __future__ import annotations

import struct
from itertools import count
from typing import Any
from uuid import UUID
from zlib import crc32

from goqueue.groups.coordinator import GroupCoordinator
from goqueue.groups.effects import Effects, Entry, Token
from goqueue.groups.messages import (
    CommitRequest,
    ConsumerHeartbeat,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    OffsetToCommit,
    Protocol,
    StreamsHeartbeat,
    SyncRequest,
)
from goqueue.groups.settings import GroupSettings
from goqueue.groups.streams.topology import InternalTopic, Subtopology, Topology
from goqueue.groups.topics import TopicCatalogue, TopicInfo
from goqueue.model.errors import GroupError
from goqueue.model.topic_partition import TopicPartition

SESSION_MS = 10_000
REBALANCE_MS = 30_000
AT_ONCE = GroupSettings(initial_rebalance_delay_ms=0, streams_initial_rebalance_delay_ms=0)


def internal(name: str, count: int = 0) -> InternalTopic:
    return InternalTopic(name, count, -1, (("cleanup.policy", "compact"),))


def subtopology(
    subtopology_id: str,
    *sources: str,
    reads: tuple[InternalTopic, ...] = (),
    writes: tuple[str, ...] = (),
    keeps: tuple[str, ...] = (),
    copartitioned: tuple[tuple[str, ...], ...] = (),
) -> Subtopology:
    """A subtopology with changelogs for what it keeps."""
    changelogs = tuple(map(internal, keeps))
    return Subtopology(subtopology_id, sources, reads, writes, changelogs, copartitioned)


TOPOLOGY = Topology(
    0,
    (
        subtopology("0", "lines", writes=("again",)),
        subtopology("1", reads=(internal("again"),), keeps=("kept",)),
    ),
)
"""Reads `lines`, repartitions it, and keeps state: as many tasks of each as `lines` is wide."""


def hash_of(name: str) -> int:
    return crc32(name.encode()) + 1


def encode_subscription(topics: frozenset[str]) -> bytes:
    """A version 0 subscription without user data."""
    names = [topic.encode() for topic in sorted(topics)]
    parts = [struct.pack(f">h{len(name)}s", len(name), name) for name in names]
    return b"".join([struct.pack(">hi", 0, len(topics)), *parts, struct.pack(">i", -1)])


def metadata(*topics: str) -> bytes:
    return encode_subscription(frozenset(topics))


class Driver:
    """Feeds events, keeps the compacted log, and fails when a token is answered twice."""

    def __init__(self, settings: GroupSettings = AT_ONCE) -> None:
        self.settings = settings
        self.settings_of: dict[str, GroupSettings] = {}
        """Groups that have settings of their own."""
        self.now_ms = 1_000_000
        self.log: dict[bytes, bytes] = {}
        self.answers: dict[Token, Any] = {}
        self.waiting: set[Token] = set()
        self.catalogue = TopicCatalogue()
        self._tokens = count(1)
        self._uuids = count(1)
        self.coordinator = self._new_coordinator()
        list(self.coordinator.resume(self.now_ms))

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.settings,
            lambda: f"uuid{next(self._uuids)}",
            settings_of=lambda group_id: self.settings_of.get(group_id, self.settings),
        )

    def restart(self) -> None:
        """As after a crash: all that is left is the log."""
        self.waiting.clear()
        self.coordinator = self._new_coordinator()
        self.coordinator.load(Entry(key, value) for key, value in self.log.items())
        list(self.coordinator.resume(self.now_ms))
        self._check()

    # --- Carrying out effects ------------------------------------------------------------------

    def apply(self, effects: Effects) -> None:
        for key, value in effects.persist:
            if value is None:
                self.log.pop(key, None)
            else:
                self.log[key] = value
        for token, result in effects.replies:
            assert token in self.waiting, f"{token} was answered twice, or never asked"
            self.waiting.remove(token)
            self.answers[token] = result
        self._check()

    def _check(self) -> None:
        self.coordinator.check_invariants()
        assert dict(self.coordinator.dump()) == self.log

    def token(self) -> Token:
        token = Token(next(self._tokens))
        self.waiting.add(token)
        return token

    def advance(self, ms: int) -> None:
        """Let time pass, waking the coordinator at each of its deadlines."""
        end = self.now_ms + ms
        while (due := self.coordinator.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.apply(self.coordinator.tick(self.now_ms))
        self.now_ms = end

    def result(self, token: Token) -> Any:
        """The answer; an error is raised, as a client would see it."""
        assert token not in self.waiting, "not answered yet"
        answer = self.answers[token]
        if isinstance(answer, GroupError):
            raise answer
        return answer

    # --- The classic protocol ------------------------------------------------------------------

    def join(
        self,
        group_id: str = "g",
        *,
        member_id: str = "",
        protocols: tuple[tuple[str, bytes], ...] = (("range", metadata("t")),),
        protocol_type: str = "consumer",
        require_known_member_id: bool = False,
        **fields: Any,
    ) -> Token:
        timeouts = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS}
        said: dict[str, Any] = {"client_id": "client", **timeouts, **fields}
        token = self.token()
        request = JoinRequest(
            group_id=group_id,
            member_id=member_id,
            protocol_type=protocol_type,
            protocols=tuple(Protocol(*each) for each in protocols),
            require_known_member_id=require_known_member_id,
            **said,
        )
        self.apply(self.coordinator.join(request, self.catalogue, token, self.now_ms))
        return token

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        group_id: str = "g",
        **fields: Any,
    ) -> Token:
        token = self.token()
        request = SyncRequest(
            group_id=group_id,
            member_id=member_id,
            generation=generation,
            assignments=assignments or {},
            **fields,
        )
        self.apply(self.coordinator.sync(request, token, self.now_ms))
        return token

    def heartbeat(
        self, member_id: str, generation: int, group_id: str = "g", **fields: Any
    ) -> Token:
        token = self.token()
        request = HeartbeatRequest(
            group_id=group_id, member_id=member_id, generation=generation, **fields
        )
        self.apply(self.coordinator.heartbeat(request, token, self.now_ms))
        return token

    def leave(self, *members: tuple[str, str | None] | str, group_id: str = "g") -> Token:
        token = self.token()
        leaving = tuple(
            LeavingMember(each) if isinstance(each, str) else LeavingMember(*each)
            for each in members
        )
        request = LeaveRequest(group_id=group_id, members=leaving)
        self.apply(self.coordinator.leave(request, token, self.now_ms))
        return token

    def stable(self, count: int = 1, group_id: str = "g", **fields: Any) -> list[str]:
        """A group of so many members, each with its assignment; the first one leads."""
        tokens = [self.join(group_id, **fields)]
        ids = [self.result(tokens[0]).member_id]
        for _ in range(count - 1):
            tokens = [self.join(group_id, **fields)]
            tokens += [self.join(group_id, member_id=each, **fields) for each in ids]
            ids = [*ids, self.result(tokens[0]).member_id]
        generation = self.result(tokens[0]).generation
        leader = self.result(tokens[0]).leader_id
        ids.sort(key=lambda each: each != leader)
        for each in ids:
            self.result(self.sync(each, generation, {m: m.encode() for m in ids}, group_id))
        return ids

    def state(self, group_id: str = "g") -> str:
        lines = [each for each in self.coordinator.list_groups() if each.group_id == group_id]
        return lines[0].state if lines else "missing"

    def generation(self, group_id: str = "g") -> int:
        lines = [each for each in self.coordinator.list_groups() if each.group_id == group_id]
        return lines[0].generation if lines else 0

    # --- KIP-848 -------------------------------------------------------------------------------

    def consume(self, member_id: str, epoch: int, group_id: str = "g", **fields: Any) -> Any:
        """One heartbeat; its result, or its error raised."""
        token = self.token()
        request = ConsumerHeartbeat(group_id=group_id, member_id=member_id, epoch=epoch, **fields)
        self.apply(self.coordinator.consumer_heartbeat(request, self.catalogue, token, self.now_ms))
        return self.result(token)

    def consume_first(self, member_id: str, group_id: str = "g", **fields: Any) -> Any:
        fields = {
            "subscribed_names": frozenset({"t"}),
            "rebalance_timeout_ms": REBALANCE_MS,
            "owned": frozenset(),
        } | fields
        return self.consume(member_id, 0, group_id, **fields)

    # --- Streams groups ------------------------------------------------------------------------

    def stream(self, member_id: str, epoch: int, group_id: str = "g", **fields: Any) -> Any:
        """One heartbeat of a member of a Streams group; its result, or its error raised."""
        token = self.token()
        request = StreamsHeartbeat(group_id=group_id, member_id=member_id, epoch=epoch, **fields)
        self.apply(self.coordinator.streams_heartbeat(request, self.catalogue, token, self.now_ms))
        return self.result(token)

    def stream_first(self, member_id: str, group_id: str = "g", **fields: Any) -> Any:
        fields = {
            "topology": TOPOLOGY,
            "rebalance_timeout_ms": REBALANCE_MS,
            "owned": frozenset(),
            "process_id": f"process of {member_id}",
        } | fields
        return self.stream(member_id, 0, group_id, **fields)

    def create(self, **counts: int) -> None:
        """Make topics with so many partitions, or give them as many."""
        topics = dict(self.catalogue.topics)
        for name, wide in counts.items():
            topics[name] = TopicInfo(UUID(int=hash_of(name)), wide)
        self.catalogue = TopicCatalogue(self.catalogue.version + 1, topics)

    # --- Offsets -------------------------------------------------------------------------------

    def commit(self, *offsets: tuple[str, int, int], group_id: str = "g", **fields: Any) -> Token:
        token = self.token()
        items = tuple(OffsetToCommit(topic=t, partition=p, offset=o) for t, p, o in offsets)
        request = CommitRequest(group_id=group_id, offsets=items, **fields)
        self.apply(self.coordinator.commit(request, token, self.now_ms))
        return token

    def offset(self, topic: str, partition: int, group_id: str = "g") -> int | None:
        part = TopicPartition(topic, partition)
        found = self.coordinator.fetch_offsets(group_id, [part])[part]
        return None if found is None else found.offset  # type: ignore[union-attr]

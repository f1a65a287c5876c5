"""Two brokers that a test leads by the nose: leaders and coordinators move when it says so."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

from goqueue.records import Record, decode_rows, encode, peek
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.frames import (
    frame_of,
    has_flexible_header,
    parse_body,
    parse_client_id,
    parse_prefix,
)
from goqueue.wire.kafka.primitives import Cursor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from goqueue.wire.kafka.reading import Struct

TOPIC = "t"
TOPIC_ID = UUID(int=7)
HOST = "127.0.0.1"

UNHEARD = "unheard"
"""A Produce is lost, and the connection with it."""
UNANSWERED = "unanswered"
"""A Produce is stored, and its answer is lost."""


class FakeCluster:
    """One topic with one partition, and one group with one member."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.leader = 0
        self.leader_epoch = 1
        self.hints = True
        """Whether a broker that does not lead says who does."""
        self.coordinator = 0
        self.log_start = 0
        self.count = 0
        """Messages in the partition, each in a batch of its own."""
        self.known_to: int | None = None
        """How far a new leader knows it to be committed; it says no end before it knows all."""
        self.damaged: dict[int, int] = {}
        """How often the batch at an offset is sent with a wrong checksum."""
        self.stored: list[bytes] = []
        """The values that were produced."""
        self.sequences: dict[int, tuple[int, dict[int, int]]] = {}
        """By producer: the sequence that is next, and the offsets of batches by their first."""
        self.knows_all_producers = False
        """Whether a producer that it does not know is out of order, unless it begins with 0."""
        self.produce_faults: deque[Any] = deque()
        """What becomes of the next Produce requests: nothing unusual (None), an error code, parts
        of an answer that make no sense, `UNHEARD` or `UNANSWERED`."""
        self.most_messages = 1 << 30
        """Of one batch; a larger one is refused."""
        self.refused: dict[bytes, int] = {}
        """Values that are refused, and with which code."""
        self.is_mute = False
        """Whether Produce requests are not answered."""
        self.producer_ids = 0
        self.committed = -1
        self.member_epoch = 0
        self.removes_members = 0
        """How many heartbeats are answered as those of a stranger."""
        self.paused: set[int] = set()
        """Brokers that answer nothing, and that the others say are not there."""
        self.asked: list[tuple[int, ApiKey]] = []
        self.tasks: set[asyncio.Task[Any]] = set()

    def answer(self, node: int, api: ApiKey, request: Struct) -> dict[str, Any] | None:
        """What a broker answers; None when it does not."""
        self.asked.append((node, api))
        if node in self.paused:
            return None
        handle = getattr(self, f"_{api.name.lower()}")
        found: dict[str, Any] | None = handle(node, request)
        return found

    # --- Metadata --------------------------------------------------------------------------------

    def _api_versions(self, _node: int, _request: Struct) -> dict[str, Any]:
        served = [
            {"api_key": api, "min_version": 0, "max_version": 99}
            for api in ApiKey
            if hasattr(self, f"_{api.name.lower()}")
        ]
        return {"error_code": 0, "api_keys": served, "throttle_time_ms": 0}

    def _metadata(self, _node: int, request: Struct) -> dict[str, Any]:
        partition = {
            "error_code": 0,
            "partition_index": 0,
            "leader_id": self.leader,
            "leader_epoch": self.leader_epoch,
            "replica_nodes": [0, 1],
            "isr_nodes": [0, 1],
            "offline_replicas": [],
        }
        topic = {"error_code": 0, "name": TOPIC, "topic_id": TOPIC_ID, "is_internal": False}
        return {
            "throttle_time_ms": 0,
            "brokers": [
                {"node_id": node, "host": HOST, "port": port, "rack": None}
                for node, port in enumerate(self.ports)
                if node not in self.paused
            ],
            "cluster_id": "fake",
            "controller_id": 0,
            "topics": [{**topic, "partitions": [partition]} for _ in request.topics or ()],
        }

    def _find_coordinator(self, _node: int, request: Struct) -> dict[str, Any]:
        found = {
            "key": request.coordinator_keys[0],
            "node_id": self.coordinator,
            "host": HOST,
            "port": self.ports[self.coordinator],
            "error_code": 0,
            "error_message": None,
        }
        return {"throttle_time_ms": 0, "coordinators": [found]}

    # --- Records ---------------------------------------------------------------------------------

    def _list_offsets(self, node: int, request: Struct) -> dict[str, Any]:
        (asked,) = request.topics[0].partitions
        code = 0 if node == self.leader else ErrorCode.not_leader_or_follower
        if asked.partition_index:
            code = ErrorCode.unknown_topic_or_partition
        elif self.known_to is not None and asked.timestamp == -1:
            code = ErrorCode.offset_not_available
        found = {
            "partition_index": asked.partition_index,
            "error_code": code,
            "timestamp": -1,
            "offset": self.count if asked.timestamp == -1 else self.log_start,
            "leader_epoch": self.leader_epoch,
        }
        return {"throttle_time_ms": 0, "topics": [{"name": TOPIC, "partitions": [found]}]}

    def _fetch(self, node: int, request: Struct) -> dict[str, Any]:
        if request.session_id:  # it has never opened one
            code = ErrorCode.fetch_session_id_not_found
            return {"throttle_time_ms": 0, "error_code": code, "session_id": 0, "responses": []}
        (asked,) = request.topics[0].partitions
        known_to = self.count if self.known_to is None else self.known_to
        found: dict[str, Any] = {
            "partition_index": asked.partition,
            "error_code": 0,
            "high_watermark": known_to,
            "last_stable_offset": known_to,
            "log_start_offset": self.log_start,
            "aborted_transactions": None,
            "preferred_read_replica": -1,
            "records": None,
        }
        endpoints = []
        topic_id = request.topics[0].topic_id
        if topic_id != TOPIC_ID:
            found["error_code"] = ErrorCode.unknown_topic_id
        elif asked.partition:
            found["error_code"] = ErrorCode.unknown_topic_or_partition
        elif node != self.leader:
            found["error_code"] = ErrorCode.not_leader_or_follower
            if self.hints:
                hint = {"leader_id": self.leader, "leader_epoch": self.leader_epoch}
                found["current_leader"] = hint
                port = self.ports[self.leader]
                endpoints = [{"node_id": self.leader, "host": HOST, "port": port, "rack": None}]
        elif asked.current_leader_epoch < self.leader_epoch:
            found["error_code"] = ErrorCode.fenced_leader_epoch
        elif asked.current_leader_epoch > self.leader_epoch:
            found["error_code"] = ErrorCode.unknown_leader_epoch
        elif not self.log_start <= asked.fetch_offset <= self.count:
            found["error_code"] = ErrorCode.offset_out_of_range
        elif asked.fetch_offset < known_to:
            found["records"] = self._batch(asked.fetch_offset)
        topic = {"topic_id": topic_id, "partitions": [found]}
        return {
            "throttle_time_ms": 0,
            "error_code": 0,
            "session_id": 0,
            "responses": [topic],
            "node_endpoints": endpoints,
        }

    def _batch(self, offset: int) -> bytes:
        batch = encode([Record(offset, 0, None, b"%d" % offset, ())])
        if self.damaged.get(offset, 0) > 0:
            self.damaged[offset] -= 1
            batch[-2] ^= 1
        return bytes(batch)

    # --- Producing -------------------------------------------------------------------------------

    def _init_producer_id(self, _node: int, _request: Struct) -> dict[str, Any]:
        self.producer_ids += 1
        return {
            "throttle_time_ms": 0,
            "error_code": 0,
            "producer_id": self.producer_ids,
            "producer_epoch": 0,
        }

    def _produce(self, node: int, request: Struct) -> dict[str, Any] | None:
        (part,) = request.topic_data[0].partition_data
        fault = self.produce_faults.popleft() if self.produce_faults else None
        if fault == UNHEARD:
            raise ConnectionResetError
        if self.is_mute:
            return None
        found: dict[str, Any] = {"index": 0, "error_code": 0, "base_offset": -1}
        endpoints = []
        if node != self.leader:
            found["error_code"] = ErrorCode.not_leader_or_follower
            if self.hints:
                hint = {"leader_id": self.leader, "leader_epoch": self.leader_epoch}
                found["current_leader"] = hint
                port = self.ports[self.leader]
                endpoints = [{"node_id": self.leader, "host": HOST, "port": port, "rack": None}]
        elif isinstance(fault, int):
            found["error_code"] = fault
        else:
            self._append(part.records, found)
        if fault == UNANSWERED:
            raise ConnectionResetError
        usual = {"log_append_time_ms": -1, "log_start_offset": 0, "error_message": None}
        told = fault if isinstance(fault, dict) else {}
        parts = [{**usual, "record_errors": [], **found, **told}]
        parts[0].pop("responses", None)
        return {
            "throttle_time_ms": 0,
            "responses": told.get("responses", [{"name": TOPIC, "partition_responses": parts}]),
            "node_endpoints": endpoints,
        }

    def _append(self, records: memoryview, found: dict[str, Any]) -> None:
        """Store a batch as a broker does: once, and in the order of its producer."""
        info = peek(records)
        values = [bytes(row.value or b"") for row in decode_rows(records)]
        unknown = (info.base_sequence if not self.knows_all_producers else 0, {})
        expected, known = self.sequences.setdefault(info.producer_id, unknown)
        wrong = [at for at, value in enumerate(values) if value in self.refused]
        if info.base_sequence in known:
            found["base_offset"] = known[info.base_sequence]
        elif info.base_sequence != expected:
            found["error_code"] = ErrorCode.out_of_order_sequence_number
        elif len(values) > self.most_messages:
            found["error_code"] = ErrorCode.message_too_large
        elif wrong:
            found["error_code"] = self.refused[values[wrong[0]]]
            found["record_errors"] = [
                {"batch_index": at, "batch_index_error_message": "no"} for at in wrong
            ]
        else:
            found["base_offset"] = known[info.base_sequence] = len(self.stored)
            self.stored += values
            self.sequences[info.producer_id] = (expected + len(values), known)

    # --- The group -------------------------------------------------------------------------------

    def _consumer_group_heartbeat(self, node: int, request: Struct) -> dict[str, Any]:
        code = 0 if node == self.coordinator else ErrorCode.not_coordinator
        if not code and self.removes_members and request.member_epoch > 0:
            self.removes_members -= 1
            code = ErrorCode.unknown_member_id
        if not code and request.member_epoch == 0:
            self.member_epoch += 1
        tells = not code and request.subscribed_topic_names is not None
        parts = {"topic_partitions": [{"topic_id": TOPIC_ID, "partitions": [0]}]}
        return {
            "throttle_time_ms": 0,
            "error_code": code,
            "error_message": None,
            "member_id": request.member_id,
            "member_epoch": -1 if request.member_epoch < 0 else self.member_epoch,
            "heartbeat_interval_ms": 50,
            "assignment": parts if tells else None,
        }

    def _offset_commit(self, node: int, request: Struct) -> dict[str, Any]:
        code: int = 0 if node == self.coordinator else ErrorCode.not_coordinator
        if not code and request.generation_id_or_member_epoch != self.member_epoch:
            code = ErrorCode.stale_member_epoch
        if not code:
            self.committed = request.topics[0].partitions[0].committed_offset
        found = {"partition_index": 0, "error_code": code}
        return {"throttle_time_ms": 0, "topics": [{"name": TOPIC, "partitions": [found]}]}

    def _offset_fetch(self, node: int, request: Struct) -> dict[str, Any]:
        found = {
            "partition_index": 0,
            "committed_offset": self.committed,
            "committed_leader_epoch": -1,
            "metadata": "",
            "error_code": 0,
        }
        group = {
            "group_id": request.groups[0].group_id,
            "topics": [{"name": TOPIC, "partitions": [found]}],
            "error_code": 0 if node == self.coordinator else ErrorCode.not_coordinator,
        }
        return {"throttle_time_ms": 0, "groups": [group]}


@asynccontextmanager
async def fake_cluster() -> AsyncIterator[FakeCluster]:
    """Both brokers, on free ports."""
    cluster = FakeCluster()
    servers = [await _serve(cluster, node) for node in (0, 1)]
    cluster.ports = [server.sockets[0].getsockname()[1] for server in servers]
    try:
        yield cluster
    finally:
        for server in servers:
            server.close()
        for task in cluster.tasks:
            task.cancel()
        await asyncio.gather(*cluster.tasks, return_exceptions=True)


async def _serve(cluster: FakeCluster, node: int) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        cluster.tasks.add(task)
        try:
            while True:
                await _answer(cluster, node, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    return await asyncio.start_server(serve, HOST, 0)


async def _answer(
    cluster: FakeCluster, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = memoryview(await reader.readexactly(size))
    api_key, version, correlation_id = parse_prefix(frame)
    api = ApiKey(api_key)
    cursor = Cursor(frame)
    parse_client_id(cursor, flexible=has_flexible_header(api, version))
    answer = cluster.answer(node, api, parse_body(cursor, api, version))
    if api is ApiKey.FETCH:
        await asyncio.sleep(0.005)
    if answer is not None:
        writer.writelines(frame_of(correlation_id, answer, api, version))

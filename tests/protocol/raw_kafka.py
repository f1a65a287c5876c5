"""A client that sends exactly what it is told, in any version, and shows what came back."""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from goqueue.records import Compression, Record, encode, walk
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of
from protocol.raw_routes import has_moved, port_for
from support.server import siblings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.records.batch import BatchInfo
    from goqueue.wire.kafka.reading import Struct

TIMEOUT_S = 90.0
MOVED_S = 10.0
"""How long a request is sent again to a cluster in which its leader or coordinator moves."""
_luck = count()


class RawKafka:
    """One connection. Every wait ends with an error after a while."""

    def __init__(
        self,
        port: int,
        host: str = "127.0.0.1",
        *,
        log_in: Callable[[RawKafka], None] | None = None,
    ) -> None:
        """`log_in` is called for each connection, also those to other nodes."""
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._correlation_id = 0
        self.port = port
        self._links: dict[int, RawKafka] = {}
        """To the other nodes of a cluster, by their ports."""
        self._fetched_from = port
        """Where a session goes on that names no partition."""
        self._sent: deque[RawKafka] = deque()
        """Whom the answers come from that were not read yet."""
        self._log_in = log_in
        if log_in is not None:
            log_in(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()
        for link in self._links.values():
            link.socket.close()

    def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Struct:
        """Send a request and return the answer; in a cluster, of whoever serves it by now."""
        if key is ApiKey.LIST_TRANSACTIONS and len(siblings(self.port)) > 1:
            gathered: Struct = self._gathered(key, version, fields)
            return gathered
        deadline = time.monotonic() + MOVED_S
        while True:
            self.send(key, version, **fields)
            answer = self.answer(key, version)
            is_alone = len(siblings(self.port)) == 1
            if is_alone or not has_moved(answer) or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)

    def send(self, key: ApiKey, version: int, /, **fields: Any) -> None:
        """Send a request and do not wait."""
        port = port_for(self.ask_here, self.port, key, fields)
        if key is ApiKey.FETCH and fields.get("session_id") and not fields.get("topics"):
            port = self._fetched_from
        elif key is ApiKey.FETCH:
            self._fetched_from = port
        if port == self.port:
            self._sent.append(self)
            self._send(key, version, fields)
            return
        link = self._link(port)
        self._sent.append(link)
        link._send(key, version, fields)

    def _link(self, port: int) -> RawKafka:
        link = self._links.get(port)
        if link is None:
            link = self._links[port] = RawKafka(port, log_in=self._log_in)
        return link

    def _gathered(self, key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        """What all nodes of a cluster list, as administrators' clients put it together."""
        found: list[Struct] = []
        for port in siblings(self.port):
            with RawKafka(port, log_in=self._log_in) as link:
                link._send(key, version, fields)
                found.append(link._answer(key, version))
        return SimpleNamespace(
            error_code=found[0].error_code,
            unknown_state_filters=found[0].unknown_state_filters,
            transaction_states=[state for each in found for state in each.transaction_states],
        )

    def ask_here(self, key: ApiKey, version: int, /, **fields: Any) -> Struct:
        """Ask this node, on a connection that no answers of the test come by."""
        link = self._link(self.port)
        link._send(key, version, fields)
        return link._answer(key, version)

    def ask_alone(self, key: ApiKey, version: int, /, **fields: Any) -> Struct:
        """Ask whoever is at the other end of this connection, on no other."""
        self._send(key, version, fields)
        return self._answer(key, version)

    def send_alone(self, key: ApiKey, version: int, /, **fields: Any) -> None:
        """The same without waiting for the answer."""
        self._send(key, version, fields)

    def _send(self, key: ApiKey, version: int, fields: dict[str, Any]) -> None:
        body = bytearray()
        schema = schema_of(key, version, "request")
        writer_of(schema)(body, fields)
        self.send_bytes(key, version, bytes(body), flexible=schema.has_flexible_header)

    def send_bytes(self, key: int, version: int, body: bytes, *, flexible: bool = False) -> None:
        """Send a request whose body is already bytes."""
        self._correlation_id += 1
        header = struct.pack(">hhih", key, version, self._correlation_id, 3) + b"raw"
        frame = header + (b"\0" if flexible else b"") + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def answer(self, key: ApiKey, version: int) -> Struct:
        """The next answer, which must be that of the last request sent."""
        return self.next_sender()._answer(key, version)

    def next_sender(self) -> RawKafka:
        """The connection that the next answer comes by."""
        return self._sent.popleft() if self._sent else self

    def _answer(self, key: ApiKey, version: int) -> Struct:
        correlation_id, data = self.answer_bytes()
        assert correlation_id == self._correlation_id
        schema = schema_of(key, version, "response")
        return reader_of(schema)(Cursor(data[1:] if schema.has_flexible_header else data))

    def answer_bytes(self) -> tuple[int, memoryview]:
        """The correlation id of the next answer, and everything behind it."""
        (size,) = struct.unpack(">i", self._exactly(4))
        data = self._exactly(size)
        return struct.unpack_from(">i", data)[0], memoryview(data)[4:]

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the server has closed the connection")
            data += piece
        return bytes(data)

    def is_closed_by_server(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    # --- What many tests ask ---------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, **configs: str) -> UUID:
        """Make a topic; a setting `a.b` is written `a_b`."""
        settings = [{"name": key.replace("_", "."), "value": v} for key, v in configs.items()]
        answer = self.ask(
            ApiKey.CREATE_TOPICS,
            7,
            topics=[
                {
                    "name": topic,
                    "num_partitions": partitions if len(siblings(self.port)) == 1 else -1,
                    "replication_factor": -1,
                    "assignments": self._assignments(partitions),
                    "configs": settings,
                }
            ],
            timeout_ms=60_000,
            validate_only=False,
        )
        (made,) = answer.topics
        assert made.error_code == 0, made.error_message
        topic_id: UUID = made.topic_id
        for port in siblings(self.port) if len(siblings(self.port)) > 1 else ():
            self._wait_known(port, topic)
        return topic_id

    def _wait_known(self, port: int, topic: str) -> None:
        """Wait until a node of a cluster has heard of a topic."""
        deadline = time.monotonic() + MOVED_S
        with RawKafka(port, log_in=self._log_in) as link:
            while time.monotonic() < deadline:
                fields = {
                    "topics": [{"topic_id": UUID(int=0), "name": topic}],
                    "allow_auto_topic_creation": False,
                    "include_topic_authorized_operations": False,
                }
                link._send(ApiKey.METADATA, 12, fields)
                (found,) = link._answer(ApiKey.METADATA, 12).topics
                if not found.error_code and all(p.leader_id > 0 for p in found.partitions):
                    return
                time.sleep(0.02)

    def _assignments(self, partitions: int) -> list[dict[str, Any]]:
        """In a cluster all partitions of a topic have one leader: requests name several of them."""
        nodes = list(range(1, len(siblings(self.port)) + 1))
        if len(nodes) == 1:
            return []
        first = next(_luck) % len(nodes)
        order = nodes[first:] + nodes[:first]
        return [{"partition_index": each, "broker_ids": order} for each in range(partitions)]

    def produce(
        self,
        topic: str,
        batch: bytes,
        partition: int = 0,
        *,
        acks: int = -1,
        version: int = 9,
        transactional_id: str | None = None,
    ) -> Struct:
        """The answer for the one partition."""
        fields = produce_fields(topic, batch, partition, acks=acks)
        fields["transactional_id"] = transactional_id
        answer = self.ask(ApiKey.PRODUCE, version, **fields)
        ((found,),) = [each.partition_responses for each in answer.responses]
        result: Struct = found
        return result

    def fetch(self, topic: str, offset: int = 0, partition: int = 0, **options: Any) -> Struct:
        """The answer for the one partition, without a session."""
        wanted = [(topic, partition, offset)]
        answer = self.ask(ApiKey.FETCH, 11, **fetch_fields(wanted, **options))
        assert answer.error_code == 0
        ((found,),) = [each.partitions for each in answer.responses]
        result: Struct = found
        return result

    def stored(self, topic: str, partition: int = 0) -> list[BatchInfo]:
        """The headers of every batch in a partition, as they are stored."""
        found: list[BatchInfo] = []
        while True:
            offset = found[-1].next_offset if found else 0
            answer = self.fetch(topic, offset, partition, max_wait_ms=0)
            assert answer.error_code == 0
            if not answer.records:
                return found
            found.extend(info for _, info in walk(bytes(answer.records)))


def produce_fields(
    topic: str, batch: bytes, partition: int = 0, *, acks: int = -1
) -> dict[str, Any]:
    data = [{"index": partition, "records": batch}]
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": 60_000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


def fetch_fields(
    wanted: Sequence[tuple[str | UUID, int, int]],
    *,
    max_wait_ms: int = 1000,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[tuple[str | UUID, list[int]]] = (),
    leader_epoch: int = -1,
) -> dict[str, Any]:
    """The fields of a Fetch request; a topic is a name or an id, and comes with its offset."""
    topics: dict[str | UUID, list[dict[str, Any]]] = {}
    for topic, partition, offset in wanted:
        topics.setdefault(topic, []).append(
            {
                "partition": partition,
                "current_leader_epoch": leader_epoch,
                "fetch_offset": offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": partition_max_bytes,
            }
        )
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [{**_named(topic), "partitions": reads} for topic, reads in topics.items()],
        "forgotten_topics_data": [
            {**_named(topic), "partitions": partitions} for topic, partitions in forgotten
        ],
        "rack_id": "",
    }


def _named(topic: str | UUID) -> dict[str, Any]:
    return {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}


def make_batch(
    *values: bytes | None,
    key: bytes | None = b"k",
    timestamps: Sequence[int] | None = None,
    compression: Compression = Compression.NONE,
    **fields: int,
) -> bytes:
    """A record batch as a producer sends it."""
    times = timestamps or [1000] * len(values)
    records = [Record(n, times[n], key, value) for n, value in enumerate(values)]
    return bytes(encode(records, compression=compression, **fields))


def sequenced(producer: tuple[int, int], sequence: int, *values: bytes) -> bytes:
    """A batch of an idempotent producer: its id and epoch, and its first sequence number."""
    return make_batch(
        *values, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence
    )

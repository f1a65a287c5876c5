"""A member of a queue group on Kafka's wire, that says exactly what a test tells it to."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from goqueue.records import decode_rows, walk
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.share_fetch import RANGE
from protocol.raw_kafka import RawKafka
from support.share import wait_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.wire.kafka.reading import Struct
    from support.server import ServerProcess

SHARED, EXCLUSIVE = range(2)
ACK, RELEASE, REJECT, EXTEND, NACK, RETURN = 1, 2, 3, 4, 64, 65


class Delivered(NamedTuple):
    """One message that a fetch has handed out."""

    place: tuple[UUID, int]
    offset: int
    nonce: int
    delivery_count: int
    lane: int
    value: bytes


class QueueWire:
    """A member with a connection for its fetches, and one for everything else."""

    def __init__(self, server: ServerProcess, group: str, member_id: str = "") -> None:
        self.fetching = RawKafka(server.kafka_port)
        self.speaking = RawKafka(server.kafka_port)
        self.group = group
        self.member_id = member_id or f"member-{uuid4().hex}"
        self.epoch = 0
        self.wait_ms = wait_ms(server)

    def close(self) -> None:
        self.fetching.close()
        self.speaking.close()

    def join(self, *topics: str, **queue: Any) -> Struct:
        return self.heartbeat(0, topics, **queue)

    def heartbeat(
        self, epoch: int | None = None, topics: Sequence[str] | None = None, **queue: Any
    ) -> Struct:
        answer = self.speaking.ask(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            1,
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            rack_id=None,
            subscribed_topic_names=topics,
            queue=queue,
        )
        if not answer.error_code:
            self.epoch = answer.member_epoch
        return answer

    def fetch_fields(self, **said: Any) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": 0,
            "max_wait_ms": self.wait_ms,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "share_acquire_mode": 1,
            "is_renew_ack": False,
            "topics": [],
            "forgotten_topics_data": [],
            "with_receipts": True,
            **said,
        }

    def fetch(self, **said: Any) -> Struct:
        return self.fetching.ask(ApiKey.SHARE_FETCH, 2, **self.fetch_fields(**said))

    def take(self, **said: Any) -> list[Delivered]:
        """The messages of a fetch that is not refused."""
        answer = self.fetch(**said)
        assert answer.error_code == 0, answer.error_message
        return messages(answer)

    def settle(self, kind: int, *messages: Delivered, **said: Any) -> dict[int, str]:
        """Say the same of messages; returns the names of errors by offset."""
        if not messages:
            return {}
        answer = self.acknowledge(settlements(kind, messages, **said))
        assert answer.error_code == 0, answer.error_message
        return {each.offset: each.error_name for each in failures(answer)}

    def acknowledge(self, topics: list[dict[str, Any]]) -> Struct:
        return self.speaking.ask(
            ApiKey.SHARE_ACKNOWLEDGE,
            2,
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=0,
            is_renew_ack=False,
            topics=topics,
        )


def settlements(kind: int, messages: Iterable[Delivered], **said: Any) -> list[dict[str, Any]]:
    """The topics of a request that says the same of messages, each a range of its own."""
    found: dict[UUID, dict[int, list[Delivered]]] = {}
    for message in messages:
        topic_id, number = message.place
        found.setdefault(topic_id, {}).setdefault(number, []).append(message)
    return [
        {
            "topic_id": topic_id,
            "partitions": [
                {
                    "partition_index": number,
                    "acknowledgement_batches": [],
                    "settlements": [settlement(kind, these, **said)],
                }
                for number, these in by_number.items()
            ],
        }
        for topic_id, by_number in found.items()
    ]


def settlement(kind: int, messages: Iterable[Delivered], **said: Any) -> dict[str, Any]:
    these = list(messages)
    return {
        "acknowledge_type": kind,
        "ranges": b"".join(RANGE.pack(each.offset, 1) for each in these),
        "nonces": b"".join(struct.pack("<Q", each.nonce) for each in these),
        **said,
    }


def failures(answer: Struct) -> list[Struct]:
    return [
        failure
        for topic in answer.responses
        for partition in topic.partitions
        for failure in partition.failures
    ]


def messages(answer: Struct) -> list[Delivered]:
    """What an answer hands out: lane by lane, as a client hands it to its program."""
    found = [
        message
        for topic in answer.responses
        for partition in topic.partitions
        for message in _messages(topic.topic_id, partition)
    ]
    return sorted(found, key=lambda message: message.lane)


def _messages(topic_id: UUID, partition: Struct) -> list[Delivered]:
    data = bytes(partition.records)
    values = {
        record.offset: record.value or b""
        for at, _ in walk(data)
        for record in decode_rows(data, at)
    }
    nonces = [nonce for (nonce,) in struct.iter_unpack("<Q", partition.nonces)]
    lanes = partition.lanes or bytes([2]) * len(partition.acquired_records)
    runs = list(zip(partition.acquired_records, lanes, strict=True))
    offsets = [
        (offset, run.delivery_count, lane)
        for run, lane in runs
        for offset in range(run.first_offset, run.last_offset + 1)
    ]
    place = topic_id, partition.partition_index
    return [
        Delivered(place, offset, nonce, count, lane, values[offset])
        for (offset, count, lane), nonce in zip(offsets, nonces, strict=True)
    ]

"""A transactional producer that says exactly what a test tells it to."""

from __future__ import annotations

import time

from kio.schema.errors import ErrorCode

from goqueue.records import TRANSACTIONAL
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of
from protocol.raw_kafka import MOVED_S, RawKafka, make_batch
from protocol.raw_routes import MOVED
from support.server import siblings


class Producer:
    """A transactional producer that says exactly what a test wants."""

    def __init__(self, raw: RawKafka, name: str, timeout_ms: int = 60_000) -> None:
        self.raw, self.name = raw, name
        answer = self.init(timeout_ms=timeout_ms)
        assert answer.error_code == 0
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0

    def init(self, version=4, producer_id=-1, epoch=-1, timeout_ms=60_000):
        return self.raw.ask(
            ApiKey.INIT_PRODUCER_ID,
            version,
            transactional_id=self.name,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

    def add(self, topic, *partitions, version=3, **changes):
        fields = self._fields() | changes
        answer = self.raw.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            **{f"v3_and_below_{name}": value for name, value in fields.items()},
            v3_and_below_topics=[{"name": topic, "partitions": list(partitions)}],
        )
        return {
            each.partition_index: each.partition_error_code
            for found in answer.results_by_topic_v3_and_below
            for each in found.results_by_partition
        }

    def _fields(self):
        return {
            "transactional_id": self.name,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }

    def batch(self, *values, epoch=None, sequence=None):
        if sequence is not None:
            self.sequence = sequence
        batch = make_batch(
            *values,
            attributes=TRANSACTIONAL,
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=self.sequence,
        )
        self.sequence += len(values)
        return batch

    def send(self, topic, *values):
        return self.raw.produce(topic, self.batch(*values), transactional_id=self.name)

    def add_offsets(self, group, version=3, **changes):
        fields = self._fields() | changes
        return self.raw.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, **fields, group_id=group).error_code

    def stage(self, group, topic, offset, version=3, **changes):
        fields = self._fields() | {"generation_id": -1, "member_id": ""} | changes
        place = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        if version < 3:
            del fields["generation_id"], fields["member_id"]
        if version < 2:
            del place["committed_leader_epoch"]
        answer = self.raw.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            **fields,
            group_id=group,
            topics=[{"name": topic, "partitions": [place]}],
        )
        return answer.topics[0].partitions[0].error_code

    def renew(self, answer):
        """Go on as who EndTxn says, which numbers its records anew."""
        self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def produce(self, topic, *values, version=12, **options):
        """Send records that the broker adds to the transaction by itself; the code for them."""
        first, deadline = self.sequence, time.monotonic() + MOVED_S
        while True:
            self.send_produce(topic, *values, version=version, **options)
            code = self.produced(version)
            is_new = (
                len(siblings(self.raw.port)) > 1 and code == ErrorCode.unknown_topic_or_partition
            )
            if (code not in MOVED and not is_new) or time.monotonic() > deadline:
                return code
            self.sequence = first  # its leader has not begun yet, in a cluster
            time.sleep(0.05)

    def send_produce(self, topic, *values, partition=0, version=12, topic_id=None, **changes):
        named = {"name": topic} if topic_id is None else {"topic_id": topic_id}
        data = [{"index": partition, "records": self.batch(*values, **changes)}]
        self.raw.send(
            ApiKey.PRODUCE,
            version,
            transactional_id=self.name,
            acks=-1,
            timeout_ms=60_000,
            topic_data=[{**named, "partition_data": data}],
        )

    def produced(self, version=12):
        """The code of the oldest request that has none yet."""
        _, data = self.raw.next_sender().answer_bytes()
        schema = schema_of(ApiKey.PRODUCE, version, "response")
        answer = reader_of(schema)(Cursor(data[1:] if schema.has_flexible_header else data))
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def send_end(self, committed):
        self.raw.send(ApiKey.END_TXN, 5, **self._fields(), committed=committed)

    def end(self, committed, version=3, **changes):
        fields = self._fields() | changes
        return self.raw.ask(ApiKey.END_TXN, version, **fields, committed=committed)

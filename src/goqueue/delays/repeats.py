"""Batches that are repeated after a start: whether the part of them that waits is still there.

Of an idempotent batch, what is due later is in a delay log and the rest in the partition. The two
are synced apart: a power cut can keep the rest and lose the delayed part. The producer has no
answer and sends the batch again, and the partition takes it for a duplicate. So a duplicate of a
batch from before the start is looked up in the delay logs, and what is missing there is stored.
That holds whatever the fsync policy is.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from goqueue.delays.entries import CLASSES, Waiting
from goqueue.model.errors import DamagedRangeError
from goqueue.publishing.delivery_headers import Later, delayable
from goqueue.records import BatchInfo, Record, decode_rows
from goqueue.records.batch import walk
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Executor

    from goqueue.delays.intake import BatchKey, DelayIntake
    from goqueue.delays.store import DelayStore
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.sequences import SequencedBatch
    from goqueue.topics.catalogue import Topic


class RepeatedBatches:
    """Restores what waits of batches that are repeated."""

    def __init__(self, store: DelayStore, intake: DelayIntake, executor: Executor) -> None:
        self._store = store
        self._intake = intake
        self._executor = executor
        self._one_at_a_time = asyncio.Lock()
        self._seen: dict[BatchKey, set[int]] = {}
        """Places of messages in their batches, of the newest that the start has read: with it most
        batches need no search. Not more than the start reads."""

    def note(self, waiting: Waiting) -> None:
        """The start has found a message."""
        if waiting.producer is not None:
            key = (waiting.topic_id, waiting.partition, *waiting.producer[:3])
            self._seen.setdefault(key, set()).add(waiting.producer.number)

    async def restore(
        self,
        topic: Topic,
        partition: Partition,
        info: BatchInfo,
        records: list[Record],
        known: SequencedBatch,
    ) -> None:
        """Store what is missing of a batch that the partition has; it is on the disk afterwards.

        Raises:
            TooManyDelayedError: the topic has as many as it may.
            DiskError, LogFailedError: not all were stored.
        """
        key = self._intake.key(topic, partition.id.partition, info)
        seen = self._seen.get(key, set())
        wanted = {number: due for number, due in delayable(records) if number not in seen}
        if not wanted:
            return
        async with self._one_at_a_time:
            search = partial(self._missing, partition, known, key, wanted)
            missing = await in_thread(self._executor, search)
            if missing:
                taken = self._intake.take(topic, partition.id.partition, info, records, missing)
                self._intake.finish(topic, partition.id.partition, info)
                await self._store.durable(taken.ends)

    def _missing(
        self,
        partition: Partition,
        known: SequencedBatch,
        key: BatchKey,
        wanted: dict[int, int],
    ) -> list[Later]:
        """Those that are neither in the partition nor in a delay log. Reads: in a thread."""
        missing = dict(wanted)
        for number in _numbers_in(partition, known):
            missing.pop(number, None)
        for number in self._numbers_of(key):
            if not missing:
                break
            missing.pop(number, None)
        return sorted(missing.items())

    def _numbers_of(self, key: BatchKey) -> Iterator[int]:
        for class_number in range(CLASSES):
            start = self._store.partitions[class_number].log_start
            for _, waiting in self._store.scan(class_number, start):
                producer = waiting.producer
                if producer is not None and key == (
                    waiting.topic_id,
                    waiting.partition,
                    *producer[:3],
                ):
                    yield producer.number


def _numbers_in(partition: Partition, known: SequencedBatch) -> Iterable[int]:
    """The places of the records that the partition has of a batch; all when it is gone."""
    everything = range(known.end_offset - known.first_offset)
    if known.first_offset < partition.log_start:
        return everything
    try:
        region = partition.read(known.first_offset, 1)
        if region is None:
            return everything
        data = region.load().data
    except DamagedRangeError:
        return everything
    return [
        record.offset - known.first_offset
        for position, info in walk(data)
        if info.base_offset == known.first_offset
        for record in decode_rows(data, position, check_crc=False)
    ]

"""The state of coordinators in a cluster is compacted early, on the leader and on followers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from goqueue.model.internal_topics import CONSUMER_OFFSETS
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record, encode, peek
from goqueue.records.batch import stamp
from support.cluster_brokers import one_of_three
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.partitions.partition import Partition
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition

KEYS = 1000


def _size(partition: Partition) -> int:
    return sum(len(chunk.data) for chunk in partition.chunks(0))


def _append(partition: ReplicatedPartition) -> None:
    """A value of each key, as the leader stores it or a follower copies it."""
    batch = encode([Record(n, 1000, b"key %d" % n, b"value") for n in range(KEYS)])
    if partition.is_leading:
        partition.append(batch, peek(batch))
    else:
        stamp(batch, 0, partition.log_end, 0)
        partition.append_replica(bytes(batch))
    partition.advance(partition.log_end)


@pytest.mark.parametrize("leader", [1, 2])
@scenario
async def test_state_is_compacted_at_half_of_a_hundred_thousand_dirty_records(
    tmp_path: Path, leader: int
) -> None:
    async with one_of_three(tmp_path) as made:
        await made.offsets_topic(leader)
        partition = made.broker.partitions.replica(TopicPartition(CONSUMER_OFFSETS, 0))
        assert partition is not None
        maintenance = made.broker.maintenance()
        for at in range(50):
            assert await maintenance.compact_due() == 0, f"with {at * KEYS} records"
            _append(partition)
        before = _size(partition)
        assert await maintenance.compact_due() == 1
        assert _size(partition) * 40 < before, "one value of each key is left"
        sizes = [_size(partition)]
        for _ in range(60):
            _append(partition)
            await maintenance.compact_due()
            sizes.append(_size(partition))
        assert any(later < earlier for earlier, later in pairwise(sizes)), "and again"

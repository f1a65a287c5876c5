"""A topic for jobs that copy, and what its order means."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import mmh3

from goqueue.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.committed import Found
    from support.topic_writer import TopicWriter

BASE_MS = 1_767_225_600_000  # 2026-01-01


def fill(writer: TopicWriter, topic: str, rows: int = 1200, partitions: int = 3) -> None:
    """Messages with keys, headers and times, some tombstones, some without a key."""
    chance = random.Random(7)
    writer.create(topic, partitions, goqueue_kafka_headers="true")
    batches: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for number in range(rows):
        key = b"k%d" % chance.randrange(40) if number % 50 else None
        partition = mmh3.hash(key or b"", signed=False) % partitions
        value = None if number % 61 == 7 else b"%d" % number
        headers = [("n", b"%d" % number)] if number % 3 else []
        batches[partition].append((key, value, BASE_MS + number * 1000, headers))
    for partition, found in batches.items():
        for at in range(0, len(found), 100):
            records = [
                Record(n, ms, key, value, tuple(headers))
                for n, (key, value, ms, headers) in enumerate(found[at : at + 100])
            ]
            writer.append(topic, partition, records)


def by_key(found: Iterable[Found]) -> tuple[dict[Any, Any], list[Any]]:
    """What the order of a topic means: the messages of each key, one after the other."""
    sequences: dict[Any, list[Any]] = defaultdict(list)
    for each in sorted(found, key=lambda each: (each.partition, each.offset)):
        sequences[each.key].append((each.value, each.timestamp_ms, tuple(each.headers)))
    loose = sequences.pop(None, [])  # without a key there is no order to keep
    return dict(sequences), sorted(loose, key=repr)

"""What the broker remembers about topics and damage does not grow with its age."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.model.errors import DamagedRangeError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions import damage as damage_module
from goqueue.publishing.new_messages import NewMessage
from support.brokers import running_broker

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_turns_of_a_deleted_topic_are_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            for _ in range(2):
                await broker.create_topic("t", 3)
                first, second = await broker.writer.publish(
                    "t", [NewMessage(b"a"), NewMessage(b"b")]
                )
                assert (first.partition, second.partition) == (0, 1)
                await broker.delete_topic("t")
                assert not broker.writer._partitioner._turns

    asyncio.run(scenario())


def test_of_too_many_damaged_places_the_one_not_read_for_longest_is_reported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(damage_module, "_MAX_REPORTED", 2)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            for offset in (1, 2, 1, 3, 1, 2):  # 3 pushes 2 out, which was not read since
                broker.damage.damaged(
                    TopicPartition("t", 0), DamagedRangeError(offset - 1, offset, "torn")
                )
            assert len(list(broker.damage)) == 2

    asyncio.run(scenario())
    assert len(caplog.records) == 4

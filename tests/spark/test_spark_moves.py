"""Ranges whose partition has a new leader, from two brokers that do what a test says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.client.link.addresses import parse_addresses
from goqueue.client.settings import ClientSettings
from goqueue.spark.errors import BrokerAwayError, DataLossError
from goqueue.spark.kafka.cluster import Cluster
from goqueue.spark.kafka.fetching import RangeFetcher
from goqueue.spark.kafka.ranges import OffsetRange
from goqueue.spark.kafka.settings import LinkSettings
from goqueue.wire.kafka.api_keys import ApiKey
from support.fake_cluster import TOPIC, TOPIC_ID, FakeCluster, fake_cluster
from support.linked import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

COUNT = 4
ANY_EPOCH = -1
END_ASKED = 2
"""Times that the end of the log was asked for."""


def read(fake: FakeCluster, patience_s: float) -> list[int]:
    """The offsets of all batches."""
    servers = parse_addresses(",".join(f"127.0.0.1:{port}" for port in fake.ports))
    client = ClientSettings(backoff_ms=5, max_backoff_ms=10)
    with Cluster(LinkSettings(servers, client, patience_s)) as cluster:
        ranges = [OffsetRange(TOPIC, str(TOPIC_ID), 0, 0, COUNT)]
        fetcher = RangeFetcher(
            cluster, ranges, isolation=0, chunk_bytes=1 << 20, fail_on_data_loss=True
        )
        return [info.base_offset for chunk in fetcher.chunks() for _, info in chunk.batches]


def faked(scenario: Callable[[FakeCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with fake_cluster() as fake:
            fake.leader_epoch, fake.count = ANY_EPOCH, COUNT
            await asyncio.wait_for(scenario(fake), 120)

    asyncio.run(main())


def test_a_leader_that_does_not_know_yet_what_is_committed_has_lost_nothing() -> None:
    async def scenario(fake: FakeCluster) -> None:
        fake.known_to = 2
        reading = asyncio.create_task(asyncio.to_thread(read, fake, 60.0))
        await until(lambda: fake.asked.count((0, ApiKey.LIST_OFFSETS)) >= END_ASKED)
        assert not reading.done()
        fake.known_to = None
        assert await reading == list(range(COUNT))

    faked(scenario)


def test_a_leader_that_never_learns_what_is_committed_is_given_up() -> None:
    async def scenario(fake: FakeCluster) -> None:
        fake.known_to = 2
        with pytest.raises(BrokerAwayError, match="offset_not_available"):
            await asyncio.to_thread(read, fake, 0.5)

    faked(scenario)


def test_a_log_that_ends_before_the_range_has_lost_the_rest() -> None:
    async def scenario(fake: FakeCluster) -> None:
        fake.count = 2
        with pytest.raises(
            DataLossError, match="offsets 2 to 3 of t-0 are gone: the log ends at 2"
        ):
            await asyncio.to_thread(read, fake, 60.0)

    faked(scenario)


def test_a_task_follows_the_leader() -> None:
    async def scenario(fake: FakeCluster) -> None:
        fake.known_to = 2
        reading = asyncio.create_task(asyncio.to_thread(read, fake, 60.0))
        await until(lambda: fake.asked.count((0, ApiKey.FETCH)) >= END_ASKED)
        fake.leader, fake.known_to = 1, None
        assert await reading == list(range(COUNT))
        assert (1, ApiKey.FETCH) in fake.asked

    faked(scenario)

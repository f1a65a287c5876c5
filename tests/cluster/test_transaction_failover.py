"""Consume, transform, produce on three nodes, whoever is killed: one output for each input."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.testing import Cluster
from support.etcd import need_etcd
from support.exactly_once import (
    PARTITIONS,
    WAIT_S,
    Names,
    Reader,
    judged,
    publish,
    running_workers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


CLIENTS = ["confluent", "aiokafka", "kafka-python"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3) as made:
        yield made


def _exactly_once(
    cluster: Cluster, client: str, *, inputs: int, batch: int, kills: int, seed: int
) -> None:
    names, bootstrap = Names(f"{client}-{seed}-"), cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(each, PARTITIONS, 3) for each in (names.source, names.target)]
    for made in admin.create_topics(wanted).values():
        made.result(WAIT_S)
    acked = publish(bootstrap, inputs, names)
    rng = random.Random(seed)
    reader = Reader(bootstrap, names)
    with running_workers(client, bootstrap, batch, names) as workers:
        planned = [rng.choice((1, 2, 3)) for _ in range(kills)]
        deadline = time.monotonic() + 3 * WAIT_S + 15 * kills
        while len(reader.seen) < inputs or planned:
            assert time.monotonic() < deadline, f"{len(reader.seen)} of {inputs} came out"
            for worker in workers:
                worker.ensure()
            reader.look(rng.uniform(0.2, 1.0))
            if planned and reader.seen:
                node = planned.pop()
                cluster.kill(node)
                reader.look(rng.uniform(0.5, 2.0))
                for worker in workers:
                    worker.ensure()
                cluster.start(node)
        reader.look(1.0)  # nothing comes twice
    reader.close()
    assert judged(bootstrap, names, acked, reader.seen) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_every_input_has_exactly_one_output_when_a_node_is_killed(
    cluster: Cluster, client: str
) -> None:
    _exactly_once(cluster, client, inputs=1000, batch=20, kills=1, seed=CLIENTS.index(client))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 13))
@pytest.mark.parametrize("client", CLIENTS)
def test_exactly_once_holds_over_many_kills_of_nodes(
    cluster: Cluster, client: str, seed: int
) -> None:
    _exactly_once(cluster, client, inputs=8000, batch=20, kills=8, seed=seed)

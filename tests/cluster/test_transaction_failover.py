"""Consume, transform, produce on three nodes, whoever is killed: one output for each input."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.testing import Cluster
from goqueue.wire.kafka.api_keys import ApiKey
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
from support.kafka_wire import WireClient
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


CLIENTS = ["confluent", "aiokafka", "kafka-python"]
AIMS = ["coordinator", "leader"]
NODES = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3) as made:
        yield made


def _coordinator(cluster: Cluster, names: Names) -> int:
    """The node that coordinates the transactions of the first worker."""

    def found() -> int | None:
        for node in NODES:
            with suppress(OSError), WireClient(cluster.kafka_address(node)) as client:
                asked = {"key_type": 1, "coordinator_keys": [f"{names.prefix}worker-0"]}
                (one,) = client.call(ApiKey.FIND_COORDINATOR, 4, **asked).coordinators
                if one.error_code == 0:
                    return int(one.node_id)
        return None

    return int(eventually(found, "somebody coordinates it"))


def _leader(admin: AdminClient, names: Names) -> int:
    """The node that leads the first partition of the outputs."""

    def found() -> int | None:
        known = admin.list_topics(names.target, timeout=WAIT_S).topics[names.target].partitions
        return known[0].leader if known and known[0].leader > 0 else None

    return int(eventually(found, "somebody leads it"))


def _exactly_once(
    cluster: Cluster, client: str, *, inputs: int, batch: int, aims: list[str], seed: int
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
        planned = list(aims)
        deadline = time.monotonic() + 3 * WAIT_S + 15 * len(planned)
        while len(reader.seen) < inputs or planned:
            assert time.monotonic() < deadline, f"{len(reader.seen)} of {inputs} came out"
            for worker in workers:
                worker.ensure()
            reader.look(rng.uniform(0.2, 1.0))
            if planned and reader.seen:
                aim = planned.pop()
                node = _leader(admin, names) if aim == "leader" else _coordinator(cluster, names)
                cluster.kill(node)
                reader.look(rng.uniform(0.5, 2.0))
                for worker in workers:
                    worker.ensure()
                cluster.start(node)
        reader.look(1.0)  # nothing comes twice
    reader.close()
    assert judged(bootstrap, names, acked, reader.seen) == []


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_input_has_exactly_one_output_when_a_node_is_killed(
    cluster: Cluster, client: str, aim: str
) -> None:
    seed = CLIENTS.index(client) * len(AIMS) + AIMS.index(aim)
    _exactly_once(cluster, client, inputs=1000, batch=20, aims=[aim], seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 13))
@pytest.mark.parametrize("client", CLIENTS)
def test_exactly_once_holds_over_many_kills_of_nodes(
    cluster: Cluster, client: str, seed: int
) -> None:
    _exactly_once(cluster, client, inputs=8000, batch=20, aims=AIMS * 4, seed=seed)

"""Consume, transform, produce, with `kill -9` of broker and workers at any moment: exactly once."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.exactly_once import (
    PARTITIONS,
    WAIT_S,
    Names,
    Reader,
    judged,
    publish,
    running_workers,
)
from support.groups import make_topic
from support.server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.server import ServerProcess

__all__ = ["start_server"]


def _exactly_once(
    server: ServerProcess, client: str, *, inputs: int, batch: int, kills: int, seed: int
) -> None:
    names, bootstrap = Names(), server.kafka_address
    for topic in (names.source, names.target):
        make_topic(server, topic, PARTITIONS)
    acked = publish(bootstrap, inputs, names)
    rng = random.Random(seed)
    reader = Reader(bootstrap, names)
    with running_workers(client, bootstrap, batch, names) as workers:
        planned = rng.sample(("broker", "worker"), 2)
        planned += rng.choices(("broker", "worker"), (4, 6), k=kills - 2)
        deadline = time.monotonic() + 3 * WAIT_S + 15 * kills
        while len(reader.seen) < inputs or planned:
            assert time.monotonic() < deadline, f"{len(reader.seen)} of {inputs} came out"
            for worker in workers:
                worker.ensure()
            reader.look(rng.uniform(0.2, 0.8))
            if not planned or not reader.seen:
                continue
            if planned.pop() == "broker":
                server.kill()
                server.start()
            else:
                rng.choice(workers).kill()
        reader.look(1.0)  # nothing comes twice
    reader.close()
    assert judged(bootstrap, names, acked, reader.seen) == []


@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_every_input_has_exactly_one_output_whoever_is_killed(
    start_server: Callable[..., ServerProcess], client: str
) -> None:
    server = start_server()
    _exactly_once(server, client, inputs=4000, batch=10, kills=4, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_exactly_once_holds_over_many_kills(
    start_server: Callable[..., ServerProcess], client: str, seed: int
) -> None:
    flags: tuple[Any, ...] = ("--fsync", "always") if seed % 2 else ()
    server = start_server(*flags)
    _exactly_once(server, client, inputs=20_000, batch=20, kills=20, seed=seed)

"""A real broker for test suites: in this process, in a temporary folder, on free ports.

    from goqueue.testing import Broker

    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.kafka_address})

`Cluster` is several nodes, each in processes of its own. With pytest, the fixtures
`goqueue_broker`, `goqueue_topic` and `goqueue_cluster` are there without an import. pytest
imports this package at every start, so what is in it is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.testing.brokers import AsyncBroker, Broker
    from goqueue.testing.cluster import Cluster
    from goqueue.testing.messages import Message

_HOMES = {
    "AsyncBroker": "goqueue.testing.brokers",
    "Broker": "goqueue.testing.brokers",
    "Cluster": "goqueue.testing.cluster",
    "Message": "goqueue.testing.messages",
}

__all__ = ["AsyncBroker", "Broker", "Cluster", "Message"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)

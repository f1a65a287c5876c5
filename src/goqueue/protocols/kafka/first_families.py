"""The handlers that need no coordinator: clients publish while all others are still loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.brokers import Brokers
from goqueue.protocols.kafka.cluster.api_versions import with_api_versions
from goqueue.protocols.kafka.cluster.features import FEATURES
from goqueue.protocols.kafka.records.produce import ProduceApi
from goqueue.protocols.kafka.registry import Registry
from goqueue.protocols.kafka.throttling import Throttling
from goqueue.protocols.kafka.topics.metadata import MetadataApi
from goqueue.protocols.kafka.transactions.producers import ProducersApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.broker.log_broker import LogBroker
    from goqueue.protocols.kafka.settings import Address


def first_registry(broker: LogBroker, advertised: Mapping[str, Address]) -> Registry:
    """ApiVersions, Metadata, and what goes straight of Produce and InitProducerId.

    Other requests wait for the registry of all families.
    """
    brokers = Brokers(broker.facts, advertised)
    registry = Registry(
        MetadataApi(broker, brokers),
        authorizer=broker.authorizer,
        throttling=Throttling(broker.quotas),
        trail=broker.access_trail,
    )
    registry.add_straight(ProduceApi(broker, brokers=brokers))
    registry.add_straight(ProducersApi(broker))
    registry.is_complete = False
    return with_api_versions(registry, FEATURES)

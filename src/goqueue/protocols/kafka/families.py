"""Every family of Kafka APIs that this broker serves. Another one is another line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.access.acls import AclsApi
from goqueue.protocols.kafka.access.quotas import QuotasApi
from goqueue.protocols.kafka.access.sasl import SaslApi
from goqueue.protocols.kafka.access.users import UsersApi
from goqueue.protocols.kafka.audited import audit_requests
from goqueue.protocols.kafka.brokers import Brokers
from goqueue.protocols.kafka.cluster.api_versions import with_api_versions
from goqueue.protocols.kafka.cluster.coordinators import CoordinatorsApi
from goqueue.protocols.kafka.cluster.describe import ClusterApi
from goqueue.protocols.kafka.cluster.features import FEATURES, FeaturesApi
from goqueue.protocols.kafka.cluster.http_calls import CallHttp, HttpCallsApi
from goqueue.protocols.kafka.cluster.quorum import QuorumApi
from goqueue.protocols.kafka.cluster.replicas import ReplicasApi
from goqueue.protocols.kafka.configs.admin import AdminConfigsApi, ConfigResourcesApi
from goqueue.protocols.kafka.groups.admin import GroupAdminApi
from goqueue.protocols.kafka.groups.classic_groups import GroupMembersApi
from goqueue.protocols.kafka.groups.consumer_groups import ConsumerGroupsApi
from goqueue.protocols.kafka.groups.offsets import GroupOffsetsApi
from goqueue.protocols.kafka.groups.streams_groups import StreamsGroupsApi
from goqueue.protocols.kafka.records.fetch import FetchApi
from goqueue.protocols.kafka.records.implicit_join import ProduceJoining
from goqueue.protocols.kafka.records.log_offsets import OffsetsApi
from goqueue.protocols.kafka.records.produce import ProduceApi
from goqueue.protocols.kafka.registry import Registry
from goqueue.protocols.kafka.settings import Address, SaslSettings
from goqueue.protocols.kafka.share.families import share_families
from goqueue.protocols.kafka.throttling import Throttling
from goqueue.protocols.kafka.topics.admin import AdminTopicsApi
from goqueue.protocols.kafka.topics.describe_partitions import TopicPartitionsApi
from goqueue.protocols.kafka.topics.metadata import MetadataApi
from goqueue.protocols.kafka.transactions.admin import TransactionAdminApi
from goqueue.protocols.kafka.transactions.producers import ProducersApi
from goqueue.protocols.kafka.transactions.transactions import AtomicCommitApi, TransactionsApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.broker.broker import Broker


def build_registry(
    broker: Broker,
    advertised: Mapping[str, Address],
    sasl: SaslSettings | None = None,
    call_http: CallHttp | None = None,
) -> Registry:
    """The handlers of all families.

    `advertised` holds an address for each listener's name; `call_http` is the HTTP API, where it
    is to be reached over Kafka connections as well.
    """
    brokers = Brokers(broker.facts, advertised)
    registry = Registry(
        ProduceApi(broker, _joining(broker), brokers),
        FetchApi(broker, brokers),
        MetadataApi(broker, brokers),
        OffsetsApi(broker),
        ProducersApi(broker, broker.transactions),
        TransactionsApi(broker),
        TransactionAdminApi(broker),
        AtomicCommitApi(broker),
        CoordinatorsApi(broker, brokers),
        GroupMembersApi(broker),
        ConsumerGroupsApi(broker),
        StreamsGroupsApi(broker),
        GroupOffsetsApi(broker),
        GroupAdminApi(broker),
        *share_families(broker, brokers),
        AdminTopicsApi(broker),
        AdminConfigsApi(broker),
        ClusterApi(broker, brokers),
        SaslApi(broker, sasl or SaslSettings()),
        UsersApi(broker.users, broker.access_administration),
        TopicPartitionsApi(broker),
        ConfigResourcesApi(broker),
        _replicas(broker),
        QuorumApi(broker, brokers),
        AclsApi(broker),
        QuotasApi(broker.quotas),
        FeaturesApi(),
        authorizer=broker.authorizer,
        throttling=Throttling(broker.quotas),
        trail=broker.access_trail,
    )
    if call_http is not None:
        registry.add(HttpCallsApi(call_http))
    audit_requests(registry, broker.audit)
    return with_api_versions(registry, FEATURES)


def _joining(broker: Broker) -> ProduceJoining:
    """Who lets transactions write to partitions."""
    if not broker.facts.is_cluster:
        return ProduceJoining(broker)
    from goqueue.protocols.kafka.records.cluster_join import (  # noqa: PLC0415 - as below
        ClusterJoining,
    )
    from goqueue.transactions.cluster.service import (  # noqa: PLC0415 - as below
        ClusterTransactions,
    )

    transactions = broker.transactions
    assert isinstance(transactions, ClusterTransactions)  # those of a cluster are
    return ClusterJoining(broker, transactions.verification)


def _replicas(broker: Broker) -> object:
    """Who answers about leaders and replicas."""
    if not broker.facts.is_cluster:
        return ReplicasApi(broker)
    from goqueue.cluster.view_facts import view_of  # noqa: PLC0415 - only a cluster needs it
    from goqueue.protocols.kafka.cluster.cluster_replicas import (  # noqa: PLC0415 - as above
        ClusterReplicasApi,
    )

    return ClusterReplicasApi(broker, view_of(broker.facts))

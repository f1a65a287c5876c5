"""Every family of Kafka APIs that this broker serves. Another one is another line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.share_members import ShareMembers
from goqueue.protocols.kafka.acls import AclsApi
from goqueue.protocols.kafka.admin_configs import AdminConfigsApi
from goqueue.protocols.kafka.admin_topics import AdminTopicsApi
from goqueue.protocols.kafka.api_versions import with_api_versions
from goqueue.protocols.kafka.cluster import ClusterApi
from goqueue.protocols.kafka.config_resources import ConfigResourcesApi
from goqueue.protocols.kafka.consumer_groups import ConsumerGroupsApi
from goqueue.protocols.kafka.coordinators import CoordinatorsApi
from goqueue.protocols.kafka.features import FEATURES, FeaturesApi
from goqueue.protocols.kafka.fetch import FetchApi
from goqueue.protocols.kafka.group_admin import GroupAdminApi
from goqueue.protocols.kafka.group_members import GroupMembersApi
from goqueue.protocols.kafka.group_offsets import GroupOffsetsApi
from goqueue.protocols.kafka.metadata import Address, MetadataApi
from goqueue.protocols.kafka.offsets import OffsetsApi
from goqueue.protocols.kafka.produce import ProduceApi
from goqueue.protocols.kafka.producers import ProducersApi
from goqueue.protocols.kafka.quorum import QuorumApi
from goqueue.protocols.kafka.quotas import QuotasApi
from goqueue.protocols.kafka.registry import Registry
from goqueue.protocols.kafka.replicas import ReplicasApi
from goqueue.protocols.kafka.sasl import SaslApi
from goqueue.protocols.kafka.settings import SaslSettings
from goqueue.protocols.kafka.share_fetch import ShareFetchApi
from goqueue.protocols.kafka.share_groups import ShareGroupsApi
from goqueue.protocols.kafka.share_offsets import ShareOffsetsApi
from goqueue.protocols.kafka.share_sessions import ShareSessions
from goqueue.protocols.kafka.streams_groups import StreamsGroupsApi
from goqueue.protocols.kafka.together import TogetherApi
from goqueue.protocols.kafka.topic_partitions import TopicPartitionsApi
from goqueue.protocols.kafka.transaction_admin import TransactionAdminApi
from goqueue.protocols.kafka.transactions import TransactionsApi
from goqueue.protocols.kafka.users import UsersApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.broker.broker import Broker


def build_registry(
    broker: Broker, advertised: Mapping[str, Address], sasl: SaslSettings | None = None
) -> Registry:
    """The handlers of all families; `advertised` holds an address for each listener's name."""
    share_sessions = ShareSessions(ShareMembers(broker).is_member)
    registry = Registry(
        ProduceApi(broker),
        FetchApi(broker),
        MetadataApi(broker, advertised),
        OffsetsApi(broker),
        ProducersApi(broker),
        TransactionsApi(broker),
        TransactionAdminApi(broker),
        TogetherApi(broker),
        CoordinatorsApi(broker, advertised),
        GroupMembersApi(broker),
        ConsumerGroupsApi(broker),
        StreamsGroupsApi(broker),
        GroupOffsetsApi(broker),
        GroupAdminApi(broker),
        ShareGroupsApi(broker, share_sessions),
        ShareFetchApi(broker, share_sessions),
        ShareOffsetsApi(broker),
        AdminTopicsApi(broker),
        AdminConfigsApi(broker),
        ClusterApi(broker, advertised),
        SaslApi(broker.users, sasl or SaslSettings()),
        UsersApi(broker.users),
        TopicPartitionsApi(broker),
        ConfigResourcesApi(broker),
        ReplicasApi(broker),
        QuorumApi(broker, advertised),
        AclsApi(),
        QuotasApi(),
        FeaturesApi(),
    )
    return with_api_versions(registry, FEATURES)

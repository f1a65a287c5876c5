"""What the broker itself, rather than a topic, is told at its start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from goqueue.access.settings import AccessSettings
from goqueue.groups.settings import OFFSETS_PARTITIONS, GroupSettings
from goqueue.model.limits import MAX_OPEN_SEGMENTS, MAX_PARTITIONS
from goqueue.tracing.store import TracingSettings
from goqueue.transactions.settings import TRANSACTIONS_PARTITIONS, TransactionSettings
from goqueue.webhooks.settings import WebhookSettings


class BrokerSettings(msgspec.Struct, frozen=True):
    """What the broker itself, rather than a topic, is told."""

    data_dir: Path
    node_id: int = 1
    cluster_id: str = "goqueue"
    default_partitions: int = 3
    max_partitions: int = MAX_PARTITIONS
    """Of all topics of clients together."""
    auto_create_topics: bool = True
    topic_defaults: Mapping[str, str] = msgspec.field(default_factory=dict)
    offsets_partitions: int = OFFSETS_PARTITIONS
    groups: GroupSettings = msgspec.field(default_factory=GroupSettings)
    transactions_partitions: int = TRANSACTIONS_PARTITIONS
    transactions: TransactionSettings = msgspec.field(default_factory=TransactionSettings)
    tracing: TracingSettings = msgspec.field(default_factory=TracingSettings)
    kafka_configs: Mapping[str, str] = msgspec.field(default_factory=dict)
    """What the server's configuration says, under Kafka's names: shown to administrators."""
    initial_users: tuple[tuple[str, str], ...] = ()
    """Names and passwords of users to make at the first start."""
    access: AccessSettings = msgspec.field(default_factory=AccessSettings)
    """Whether clients are asked who they are, and which of them need no rule."""
    exposed: str | None = None
    """What other machines can reach without logins or TLS, as a sentence; None: nothing."""
    audit_topic: bool = False
    """The events of the audit log are published to a topic, too."""
    webhooks: WebhookSettings = msgspec.field(default_factory=WebhookSettings)
    """Whether events of the cluster are sent to others, and where to."""
    max_open_segments: int = MAX_OPEN_SEGMENTS
    """Of all logs together; see `goqueue.storage.open_files`."""
    remote_queue_sources: bool = False
    """Queue groups of a cluster read leaders only, never replicas of their own node: for tests."""
    replication_factor: int = 3
    """How many replicas a cluster keeps of partitions of which nothing else is said, if it has as
    many nodes."""

    def __repr__(self) -> str:
        return f"BrokerSettings(node {self.node_id}, {self.data_dir})"  # no passwords

"""What the broker itself, rather than a topic, is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.groups.service import OFFSETS_PARTITIONS
from goqueue.groups.settings import GroupSettings
from goqueue.model.limits import MAX_OPEN_SEGMENTS
from goqueue.tracing.store import TracingSettings
from goqueue.transactions.service import TRANSACTIONS_PARTITIONS
from goqueue.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What the broker itself, rather than a topic, is told."""

    data_dir: Path
    node_id: int = 1
    cluster_id: str = "goqueue"
    default_partitions: int = 3
    auto_create_topics: bool = True
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    offsets_partitions: int = OFFSETS_PARTITIONS
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions_partitions: int = TRANSACTIONS_PARTITIONS
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    kafka_configs: Mapping[str, str] = field(default_factory=dict)
    """What the server's configuration says, under Kafka's names: shown to administrators."""
    initial_users: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Names and passwords of users to make at the first start."""
    max_open_segments: int = MAX_OPEN_SEGMENTS
    """Of all logs together; see `goqueue.storage.open_files`."""

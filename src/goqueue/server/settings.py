"""What a node is told: the settings of its parts, already checked and put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.protocols.kafka.settings import ListenerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goqueue.protocols.kafka.metadata import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDeadlines:
    """How long each part may take to stop; what takes longer is cut off and said in the log."""

    http_s: float = 10.0
    kafka_s: float = 30.0
    maintenance_s: float = 30.0
    broker_s: float = 60.0
    """A broker that is cut off has lost nothing: the next start recovers its logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Everything that one node needs to know to start."""

    data_dir: Path
    node_id: int = 1
    kafka: tuple[ListenerSettings, ...] = (ListenerSettings(),)
    advertised: Mapping[str, Address] = field(default_factory=dict)
    """By listener name: where clients are sent. A listener without one advertises itself."""
    http_host: str = "127.0.0.1"
    http_port: int = 8080
    default_partitions: int = 3
    auto_create_topics: bool = True
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    stop: StopDeadlines = StopDeadlines()

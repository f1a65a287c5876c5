"""What the routes know of the node around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.metrics.registry import Metrics
    from goqueue.partitions.maintenance import Maintenance
    from goqueue.protocols.forwarding import Forwards


class ServedNode(Protocol):
    """The part of the node that the HTTP API uses."""

    @property
    def broker(self) -> Broker:
        """The broker."""

    @property
    def maintenance(self) -> Maintenance:
        """Retention, compaction and checks of the disk."""

    @property
    def store(self) -> MetadataStore:
        """Where the topics are kept."""

    @property
    def metrics(self) -> Metrics | None:
        """What is counted; None when metrics are disabled."""

    @property
    def forwards(self) -> Forwards | None:
        """What it asks of other nodes for its clients; None of a node on its own."""

    @property
    def is_started(self) -> bool:
        """Everything has been started once."""

    @property
    def is_ready(self) -> bool:
        """Started, and not stopping."""

    @property
    def uptime_s(self) -> float:
        """Since the start began."""

    @property
    def connection_count(self) -> int:
        """Connections of clients that are open now, as far as they are counted."""

    @property
    def degradation(self) -> str | None:
        """Why nothing can change in the cluster, while clients are served as before."""

"""What the routes know of the node around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import msgspec

from goqueue.protocols.http.api.shapes import doc

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.metrics.registry import Metrics
    from goqueue.partitions.maintenance import Maintenance
    from goqueue.protocols.connected import ConnectedClient


class ChangedSetting(msgspec.Struct):
    """A value that was set at run time, and is in force instead."""

    value: str
    level: Annotated[Literal["node", "cluster"], doc("For which it was set.", "cluster")]


class EffectiveSetting(msgspec.Struct, kw_only=True):
    """One setting of the server."""

    setting: Annotated[str, doc("As in the file.", "storage.fsync")]
    value: Annotated[str, doc("As it was at the start; of a secret, only whether there is one.")]
    source: Annotated[str, doc("A flag, a variable, the file, or `default`.", "default")]
    default: str
    description: str
    is_secret: bool
    kafka_name: Annotated[str | None, doc("Of Kafka's setting that is the same.")]
    is_dynamic: Annotated[bool, doc("Whether it can change at run time, by AlterConfigs.")]
    changed: Annotated[ChangedSetting | None, doc("What was set at run time, if anything was.")]


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

    def clients(self) -> list[ConnectedClient]:
        """Who is connected now; of gRPC, who has called lately."""

    def effective_settings(self) -> list[EffectiveSetting]:
        """The configuration that the node runs with; secrets are masked."""

    @property
    def degradation(self) -> str | None:
        """Why nothing can change in the cluster, while clients are served as before."""

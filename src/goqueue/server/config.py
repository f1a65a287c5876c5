"""The configuration of `goqueue server`: every setting, by section.

A field of a section is the whole declaration of a setting: its type, default, bounds and help.
Flags, environment names, file keys and the reference page are derived from it (`config_table`).
Whatever is given first in this order counts: a flag, the environment, the file, the default.

Nothing is here that no part of the broker reads.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from goqueue.server.config_groups import GroupsSection, TransactionsSection
from goqueue.server.config_kinds import Address
from goqueue.server.config_node import (
    BrokerSection,
    GrpcSection,
    HttpSection,
    LimitsSection,
    ListenersSection,
    LoggingSection,
    MetricsSection,
    SaslSection,
    TlsSection,
    TracingSection,
)
from goqueue.server.config_storage import StorageSection, TopicsSection
from goqueue.server.config_table import Setting, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting of one server."""

    broker: BrokerSection = field(default_factory=BrokerSection)
    listeners: ListenersSection = field(default_factory=ListenersSection)
    http: HttpSection = field(default_factory=HttpSection)
    grpc: GrpcSection = field(default_factory=GrpcSection)
    storage: StorageSection = field(default_factory=StorageSection)
    topics: TopicsSection = field(default_factory=TopicsSection)
    groups: GroupsSection = field(default_factory=GroupsSection)
    transactions: TransactionsSection = field(default_factory=TransactionsSection)
    limits: LimitsSection = field(default_factory=LimitsSection)
    tls: TlsSection = field(default_factory=TlsSection)
    sasl: SaslSection = field(default_factory=SaslSection)
    logging: LoggingSection = field(default_factory=LoggingSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    tracing: TracingSection = field(default_factory=TracingSection)
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where the settings that are not at their defaults came from, by their full names."""

    @property
    def broker_id(self) -> int:
        """The number that Kafka clients know this node by."""
        if self.broker.id is not None:
            return self.broker.id
        digits = re.search(r"[0-9]{1,9}$", self.broker.node_id)
        return int(digits[0]) if digits else 1

    def advertised_kafka(self, bound_port: int) -> Address:
        """What Kafka clients are told, once the listener knows its port."""
        if self.listeners.kafka_advertised is not None:
            return self.listeners.kafka_advertised
        host = self.listeners.kafka.host
        return Address(socket.gethostname() if host in _EVERYWHERE else host, bound_port)

    def http_hosts(self) -> tuple[str, ...]:
        """The names that HTTP clients may call this server by."""
        named = [self.listeners.http.host, *self.http.allowed_hosts, socket.gethostname()]
        if self.listeners.kafka_advertised is not None:
            named.append(self.listeners.kafka_advertised.host)
        return tuple(named)

    def value(self, row: Setting) -> Any:
        """The value of one row of the table."""
        return getattr(getattr(self, row.section), row.attribute)

    def source(self, row: Setting) -> str:
        """Where that value came from."""
        return self.sources.get(row.full_name, "default")

    def topic_defaults(self) -> dict[str, str]:
        """What topics use where they say nothing, by the names of topic settings."""
        return {row.topic: str(self.value(row)) for row in TABLE if row.topic is not None}


SECTIONS: Final[dict[str, type[Any]]] = {
    item.name: type(getattr(Config(), item.name))
    for item in fields(Config)
    if item.name != "sources"
}
TABLE: Final[Sequence[Setting]] = table_of(SECTIONS)
"""Every setting, in the order of the reference."""

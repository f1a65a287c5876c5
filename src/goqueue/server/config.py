"""The configuration of `goqueue server`: every setting, by section.

A field of a section is the whole declaration of a setting: its type, default, bounds and help.
Flags, environment names, file keys and the reference page are derived from it (`config_table`).
Whatever is given first in this order counts: a flag, the environment, the file, the default.

Nothing is here that no part of the broker reads.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict

from goqueue.server.config_access import AclSection, AuthSection, OidcSection, TenancySection
from goqueue.server.config_audit import AuditSection
from goqueue.server.config_cluster import ClusterSection
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
from goqueue.server.config_table import Problem, Section, Setting, table_of
from goqueue.server.config_webhooks import WebhooksSection

if TYPE_CHECKING:
    from collections.abc import Sequence

EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts that only this machine can reach; there are others."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting of one server."""

    broker: BrokerSection = msgspec.field(default_factory=BrokerSection)
    listeners: ListenersSection = msgspec.field(default_factory=ListenersSection)
    http: HttpSection = msgspec.field(default_factory=HttpSection)
    grpc: GrpcSection = msgspec.field(default_factory=GrpcSection)
    storage: StorageSection = msgspec.field(default_factory=StorageSection)
    topics: TopicsSection = msgspec.field(default_factory=TopicsSection)
    groups: GroupsSection = msgspec.field(default_factory=GroupsSection)
    transactions: TransactionsSection = msgspec.field(default_factory=TransactionsSection)
    cluster: ClusterSection = msgspec.field(default_factory=ClusterSection)
    limits: LimitsSection = msgspec.field(default_factory=LimitsSection)
    tls: TlsSection = msgspec.field(default_factory=TlsSection)
    sasl: SaslSection = msgspec.field(default_factory=SaslSection)
    auth: AuthSection = msgspec.field(default_factory=AuthSection)
    oidc: OidcSection = msgspec.field(default_factory=OidcSection)
    acl: AclSection = msgspec.field(default_factory=AclSection)
    tenancy: TenancySection = msgspec.field(default_factory=TenancySection)
    audit: AuditSection = msgspec.field(default_factory=AuditSection)
    webhooks: WebhooksSection = msgspec.field(default_factory=WebhooksSection)
    logging: LoggingSection = msgspec.field(default_factory=LoggingSection)
    metrics: MetricsSection = msgspec.field(default_factory=MetricsSection)
    tracing: TracingSection = msgspec.field(default_factory=TracingSection)
    sources: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Where the settings that are not at their defaults came from, by their full names."""

    @property
    def broker_id(self) -> int:
        """The number that Kafka clients know this node by."""
        if self.broker.id is not None:
            return self.broker.id
        digits = re.search(r"[0-9]{1,9}$", self.broker.node_id)
        return int(digits[0]) if digits else 1

    @property
    def asks_kafka_clients(self) -> bool:
        """Whether clients of the Kafka listener must log in."""
        return self.sasl.enabled or self.auth.enabled

    @property
    def audits(self) -> bool:
        """Whether an audit log is written."""
        return self.asks_kafka_clients if self.audit.enabled is None else self.audit.enabled

    def advertised_kafka(self, bound_port: int) -> Address:
        """What Kafka clients are told, once the listener knows its port."""
        if self.listeners.kafka_advertised is not None:
            return self.listeners.kafka_advertised
        host = self.listeners.kafka.host
        return Address(socket.gethostname() if host in EVERYWHERE else host, bound_port)

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


SECTIONS: Final[Mapping[str, type[Any]]] = {
    name: type(section)
    for name, section in asdict(Config()).items()
    if isinstance(section, Section)
}
TABLE: Final[Sequence[Setting]] = table_of(SECTIONS)
"""Every setting, in the order of the reference."""


_ROWS: Final = {row.full_name: row for row in TABLE}


def problem_with(config: Config, name: str, expected: str, found: str | None = None) -> Problem:
    """What is wrong with a setting; without `found` it is the value itself."""
    row = _ROWS[name]
    shown = row.show(row.render(config.value(row))) or "nothing"
    return Problem(name, config.source(row), shown if found is None else found, expected)

"""From the configuration to the settings of each part, in the parts' own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.configs.broker_setting_table import CONNECTIONS_PER_IP_SETTING, CONNECTIONS_SETTING
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.groups.settings import GroupSettings
from goqueue.partitions.upkeep import MaintenanceSettings
from goqueue.protocols.kafka.settings import ConnectionLimits, ListenerSettings, SaslSettings
from goqueue.runtime.process import max_open_files
from goqueue.server.config_docs import kafka_view
from goqueue.storage.open_files import open_segments_within
from goqueue.tracing.files import FileLimits
from goqueue.tracing.store import OtlpSettings, TracingSettings
from goqueue.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    import ssl

    from goqueue.configs.broker_configs import BrokerConfigs
    from goqueue.server.config import Config


def broker_settings(config: Config, cluster_id: str) -> BrokerSettings:
    """What the broker is told."""
    return BrokerSettings(
        data_dir=config.broker.data_dir,
        node_id=config.broker_id,
        cluster_id=cluster_id,
        default_partitions=config.topics.partitions,
        auto_create_topics=config.topics.auto_create,
        topic_defaults=topic_defaults(config),
        kafka_configs=kafka_view(config),
        offsets_partitions=config.groups.offsets_partitions,
        remote_queue_sources=config.cluster.remote_queue_sources,
        groups=_group_settings(config),
        transactions_partitions=config.transactions.state_partitions,
        transactions=TransactionSettings(
            max_timeout_ms=config.transactions.max_timeout_ms,
            session_timeout_ms=config.transactions.session_timeout_ms,
            id_expiration_ms=config.transactions.id_expiration_ms,
        ),
        tracing=tracing_settings(config),
        max_open_segments=open_segments_within(max_open_files()),
        initial_users=config.sasl.users if config.sasl.enabled else (),
    )


def topic_defaults(config: Config) -> dict[str, str]:
    """What topics use where they say nothing.

    In a cluster `min.insync.replicas` follows from how many replicas the topic has, unless the
    configuration says how many.
    """
    defaults = config.topic_defaults()
    if config.cluster.enabled and "topics.min_insync_replicas" not in config.sources:
        del defaults["min.insync.replicas"]
    return defaults


def tracing_settings(config: Config) -> TracingSettings:
    """What is traced, and where it goes."""
    said = config.tracing
    otlp = None
    if said.otlp_endpoint is not None:
        otlp = OtlpSettings(said.otlp_endpoint, said.otlp_protocol, service=said.otlp_service)
    return TracingSettings(
        is_on=said.enabled,
        sampling=said.sampling,
        max_batches_a_second=said.max_batches,
        max_share=said.max_share,
        ring_spans=said.ring_size,
        writes_files=said.files,
        files=FileLimits(said.file_bytes, said.kept_files, said.kept_days),
        stdout=said.stdout,
        otlp=otlp,
    )


def maintenance_settings(config: Config) -> MaintenanceSettings:
    """What the broker's own passes are told."""
    storage = config.storage
    return MaintenanceSettings(
        retention_s=storage.retention_check_ms / 1000,
        compaction_s=storage.compaction_check_ms / 1000,
        checkpoint_s=storage.checkpoint_ms / 1000,
        disk_s=storage.disk_check_ms / 1000,
        disk_limit_percent=storage.disk_limit_percent,
        producer_idle_ms=storage.producer_idle_ms,
        backlogs_s=config.metrics.backlog_check_ms / 1000,
    )


def _group_settings(config: Config) -> GroupSettings:
    """The section's fields are the settings' own; those that it leaves out keep their defaults."""
    names = set(GroupSettings.__struct_fields__)
    said = config.groups.declared.keys() & names
    return GroupSettings(**{name: getattr(config.groups, name) for name in said})


def kafka_listener(config: Config, tls: ssl.SSLContext | None) -> ListenerSettings:
    """What the Kafka listener is told."""
    limits = config.limits
    return ListenerSettings(
        host=config.listeners.kafka.host,
        port=config.listeners.kafka.port,
        name=_listener_name(encrypted=tls is not None, login=config.sasl.enabled),
        tls=tls,
        requires_authentication=config.sasl.enabled,
        max_connections=limits.max_connections,
        max_request_bytes=limits.max_request_bytes,
        max_listener_bytes=limits.request_memory_bytes,
        idle_s=limits.idle_timeout_ms / 1000,
        stalled_write_s=limits.stalled_write_timeout_ms / 1000,
    )


def connection_limits(configs: BrokerConfigs, settings: ListenerSettings) -> ConnectionLimits:
    """How many connections there may be: what was set at run time, or else at the start."""
    total = configs.changed(CONNECTIONS_SETTING)
    per_ip = configs.changed(CONNECTIONS_PER_IP_SETTING)
    return ConnectionLimits(
        settings.max_connections if total is None else total,
        settings.max_connections_per_ip if per_ip is None else per_ip,
    )


def sasl_settings(config: Config) -> SaslSettings:
    """How the Kafka listener lets clients log in."""
    return SaslSettings(
        mechanisms=config.sasl.mechanisms, session_lifetime_ms=config.sasl.session_lifetime_ms
    )


def _listener_name(*, encrypted: bool, login: bool) -> str:
    """Kafka's name for what is spoken on a listener."""
    plain = "SSL" if encrypted else "PLAINTEXT"
    return f"SASL_{plain}" if login else plain

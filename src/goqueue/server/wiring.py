"""From the configuration to the settings of each part, in the parts' own words."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from goqueue.access.name_rules import parse_rules
from goqueue.access.settings import AccessSettings, OidcSettings
from goqueue.configs.broker_setting_table import CONNECTIONS_PER_IP_SETTING, CONNECTIONS_SETTING
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.groups.settings import GroupSettings
from goqueue.partitions.upkeep import MaintenanceSettings
from goqueue.protocols.kafka.settings import ConnectionLimits, ListenerSettings, SaslSettings
from goqueue.runtime.process import max_open_files
from goqueue.server.config_docs import kafka_view
from goqueue.server.errors import StartError
from goqueue.storage.open_files import open_segments_within
from goqueue.tracing.files import FileLimits
from goqueue.tracing.store import OtlpSettings, TracingSettings
from goqueue.transactions.settings import TransactionSettings
from goqueue.webhooks.settings import WebhookSettings

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from goqueue.access.authenticator import Authenticator
    from goqueue.access.principals import CertificatePrincipal
    from goqueue.broker.log_broker import LogBroker
    from goqueue.configs.broker_configs import BrokerConfigs
    from goqueue.server.config import Config


def broker_settings(config: Config, cluster_id: str) -> BrokerSettings:
    """What the broker is told."""
    return BrokerSettings(
        data_dir=config.broker.data_dir,
        node_id=config.broker_id,
        cluster_id=cluster_id,
        default_partitions=config.topics.partitions,
        max_partitions=config.topics.max_partitions,
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
        access=access_settings(config),
        max_open_segments=open_segments_within(max_open_files()),
        initial_users=config.sasl.users if config.asks_kafka_clients else (),
        audit_topic=config.audit.topic,
        webhooks=WebhookSettings(
            is_on=config.webhooks.enabled,
            allow_private=config.webhooks.allow_private,
            allowed_networks=config.webhooks.allowed_networks,
        ),
        exposed=_exposed(config),
    )


def access_settings(config: Config) -> AccessSettings:
    """Whether clients are asked who they are, and which of them need no rule."""
    return AccessSettings(
        is_enabled=config.auth.enabled,
        uses_rules=config.acl.enabled,
        uses_tenants=config.tenancy.enabled,
        super_users=frozenset(each.removeprefix("User:") for each in config.auth.super_users),
        allow_health=config.auth.allow_health,
        open_metrics=config.auth.open_metrics,
        root_key=config.auth.root_key,
        max_login_delay_s=config.auth.max_login_delay_ms / 1000,
        session_lifetime_s=config.auth.session_lifetime_ms / 1000,
        session_key=_session_key(config),
        secure_cookies=config.tls.enabled or config.tls.terminated_by_proxy,
        oidc=_oidc_settings(config),
        certificate_rules=parse_rules(config.auth.certificate_rules),
    )


def _session_key(config: Config) -> bytes:
    """Of one node another one with each start: sessions end with it."""
    path = config.cluster.secret_file
    if path is None:
        return secrets.token_bytes(32)
    from goqueue.server.config_cluster_checks import read_secret  # noqa: PLC0415 - not alone

    return hashlib.sha256(b"console sessions" + read_secret(path)).digest()


def _oidc_settings(config: Config) -> OidcSettings | None:
    said = config.oidc
    if said.issuer is None:
        return None
    return OidcSettings(
        issuer=said.issuer,
        audiences=frozenset(said.audience),
        jwks_url=said.jwks_url,
        clock_skew_s=said.clock_skew_ms / 1000,
        principal_claim=said.principal_claim,
        principal_rules=parse_rules(said.principal_rules),
        roles_claim=said.roles_claim,
        roles=dict(each.split("=", 1) for each in said.roles),
        tenant_claim=said.tenant_claim,
        tenant_optional=said.tenant_optional,
        max_token_lifetime_s=said.max_token_lifetime_ms / 1000,
        client_id=said.client_id,
        client_secret=said.client_secret,
        redirect_url=said.redirect_url,
    )


def check_somebody_may_log_in(config: Config, logs: LogBroker) -> None:
    """Refuse a start after which every client would be refused.

    Raises:
        StartError: saying what to set.
    """
    if logs.users.all() or not config.asks_kafka_clients:
        return
    if not config.auth.enabled:
        raise StartError("sasl.enabled is true and there are no users: add one to sasl.users")
    if not (config.auth.root_key or config.oidc.issuer or logs.access.keys.all):
        raise StartError(
            "auth.enabled is true and nobody may log in: set GOQUEUE_API_ROOT_KEY, or add a user "
            "to sasl.users and to auth.super_users"
        )


def _exposed(config: Config) -> str | None:
    if not config.listeners.insecure:
        return None
    from goqueue.server.security.exposure import exposure  # noqa: PLC0415 - few are

    return exposure(config)


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


def kafka_listener(
    config: Config, tls: ssl.SSLContext | None, authenticator: Authenticator | None = None
) -> ListenerSettings:
    """What the Kafka listener is told."""
    limits = config.limits
    return ListenerSettings(
        host=config.listeners.kafka.host,
        port=config.listeners.kafka.port,
        name=_listener_name(encrypted=tls is not None, login=config.asks_kafka_clients),
        tls=tls,
        requires_authentication=config.asks_kafka_clients,
        certificate_principal=certificate_principal(config, tls, authenticator),
        max_connections=limits.max_connections,
        max_request_bytes=limits.max_request_bytes,
        max_listener_bytes=limits.request_memory_bytes,
        idle_s=limits.idle_timeout_ms / 1000,
        stalled_write_s=limits.stalled_write_timeout_ms / 1000,
    )


def certificate_principal(
    config: Config, tls: ssl.SSLContext | None, authenticator: Authenticator | None
) -> CertificatePrincipal | None:
    """Who clients of the Kafka and HTTP listeners are by their certificates; None: nobody looks."""
    if authenticator is None or tls is None or not config.auth.enabled:
        return None
    return authenticator.peer


def connection_limits(configs: BrokerConfigs, settings: ListenerSettings) -> ConnectionLimits:
    """How many connections there may be: what was set at run time, or else at the start."""
    total = configs.changed(CONNECTIONS_SETTING)
    per_ip = configs.changed(CONNECTIONS_PER_IP_SETTING)
    return ConnectionLimits(
        settings.max_connections if total is None else total,
        settings.max_connections_per_ip if per_ip is None else per_ip,
    )


def client_addresses(config: Config) -> Callable[[str, str], str] | None:
    """Who clients are behind the proxies that are trusted; None where there are none."""
    if not config.http.trusted_proxies:
        return None
    from goqueue.audit.addresses import TrustedProxies  # noqa: PLC0415 - few have any

    return TrustedProxies(config.http.trusted_proxies).client


def sasl_settings(config: Config) -> SaslSettings:
    """How the Kafka listener lets clients log in."""
    return SaslSettings(
        mechanisms=config.sasl.mechanisms, session_lifetime_ms=config.sasl.session_lifetime_ms
    )


def _listener_name(*, encrypted: bool, login: bool) -> str:
    """Kafka's name for what is spoken on a listener."""
    plain = "SSL" if encrypted else "PLAINTEXT"
    return f"SASL_{plain}" if login else plain

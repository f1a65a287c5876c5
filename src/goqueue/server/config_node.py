"""The settings of the process: who it is, where it listens, whom it lets in, what it writes."""

# ruff: noqa: FBT003 - the first argument of `setting` is its default

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from goqueue.access.keys import Mechanism
from goqueue.model.limits import MAX_METRIC_SERIES, MAX_RING_SPANS
from goqueue.partitions.upkeep import MaintenanceSettings
from goqueue.protocols.kafka.settings import ListenerSettings, SaslSettings
from goqueue.server.config_kinds import (
    DAY,
    MINUTE,
    SECOND,
    YEAR,
    Address,
    Choice,
    Choices,
    Credentials,
    Duration,
    FilePath,
    HostPort,
    Share,
    Size,
    Switch,
    Users,
    Whole,
    Word,
    Words,
)
from goqueue.server.config_table import Section, setting
from goqueue.tracing.files import FileLimits
from goqueue.tracing.store import TracingSettings

_MIB: Final = 1 << 20
_INT32: Final = (1 << 31) - 1

_LISTENER: Final = ListenerSettings()
_SASL: Final = SaslSettings()


class LogLevel(StrEnum):
    """The minimum level of log messages."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


class ClientAuth(StrEnum):
    """What a TLS client must show. A certificate that is shown is always verified."""

    NONE = "none"
    REQUEST = "request"
    REQUIRE = "require"
    VERIFY = "verify"
    REQUIRE_VERIFY = "require-verify"


class TlsVersion(StrEnum):
    """The oldest TLS that is spoken."""

    V1_2 = "1.2"
    V1_3 = "1.3"


class BrokerSection(Section):
    """The node and its data folder."""

    data_dir: Path = setting(
        Path("./data"),
        FilePath("a folder, or a path where one can be made"),
        "The folder of everything stored. One process may use it at a time.",
        environment="GOQUEUE_BROKER_DATADIR",
        flag="--data-dir",
        kafka="log.dirs",
    )
    node_id: str = setting(
        "node-1",
        Word(),
        "The name of this node in logs and metrics. In a cluster it ends in the node's place in "
        "`cluster.peers`, unless `broker.id` is set.",
        environment="GOQUEUE_BROKER_NODEID",
        flag="--node-id",
    )
    id: int | None = setting(
        None,
        Whole(0, _INT32),
        "The number that Kafka clients know this node by. "
        "Not set: the digits at the end of the node's name, or 1.",
        flag="--broker-id",
    )
    stop_timeout_ms: int = setting(
        30 * SECOND,
        Duration(0, 10 * MINUTE),
        "How long requests under way may take to end when the server is stopped.",
    )


class ListenersSection(Section):
    """Where clients connect. By default only this machine can."""

    kafka: Address = setting(
        Address(_LISTENER.host, _LISTENER.port),
        HostPort(),
        "Kafka's protocol. Port 0 takes any free port.",
        port_flag="--kafka-port",
        kafka="listeners",
    )
    kafka_advertised: Address | None = setting(
        None,
        HostPort(lowest_port=1),
        "The address that is advertised to Kafka clients. Not set: the listener's own, "
        "or this machine's name when it listens everywhere.",
        kafka="advertised.listeners",
    )
    http: Address = setting(
        Address("127.0.0.1", 8080),
        HostPort(),
        "HTTP: the API, the schema registry, the web console at /console, health and metrics.",
        port_flag="--http-port",
    )
    grpc: Address = setting(
        Address("127.0.0.1", 9000), HostPort(), "gRPC.", port_flag="--grpc-port"
    )
    internal: Address = setting(
        Address("127.0.0.1", 7000),
        HostPort(),
        "The other nodes of a cluster; TCP and UDP. The two ports after it are etcd's. Not set, in "
        "a cluster: this node's address in `cluster.peers`.",
        port_flag="--internal-port",
    )
    insecure: bool = setting(
        False,
        Switch(),
        "Listen on addresses that other machines can reach without logins or without TLS. The log "
        "and the console keep saying so.",
        environment="GOQUEUE_INSECURE",
        flag="--insecure",
    )


class HttpSection(Section):
    """Which requests the HTTP listener accepts; see the page on security."""

    allowed_hosts: tuple[str, ...] = setting(
        (),
        Words(r"\*|(\*\.)?[\w-]+(\.[\w-]+)*\.?", "host names, or *.suffix"),
        "Further names that clients call this server by. `localhost`, IP addresses, this machine's "
        "name and those of `listeners` are always accepted. `*` accepts any name, which lets web "
        "pages "
        "reach the server by DNS rebinding.",
    )
    allowed_origins: tuple[str, ...] = setting(
        (),
        Words(r"\*|null|[a-z][a-z0-9+.-]*://[^\s/]+", "origins such as https://app.example.org"),
        "Web pages that may call this server beside its own console. `*` allows every page to do "
        "everything.",
    )
    trusted_proxies: tuple[str, ...] = setting(
        (),
        Words(r"[0-9a-fA-F.:]+(/[0-9]{1,3})?", "addresses or networks such as 10.0.0.0/8"),
        "Reverse proxies: only their `X-Forwarded-For` says whom a request came from.",
        environment="GOQUEUE_TRUSTED_PROXIES",
    )


class GrpcSection(Section):
    """The gRPC listener."""

    reflection: bool = setting(False, Switch(), "Server reflection, as used by grpcurl.")


class LimitsSection(Section):
    """Limits of connections and requests."""

    max_connections: int = setting(
        _LISTENER.max_connections,
        Whole(1, 1_000_000),
        "Open Kafka connections; a further one is closed at once.",
        kafka="max.connections",
    )
    max_request_bytes: int = setting(
        _LISTENER.max_request_bytes,
        Size(1024, 1 << 30),
        "One request; a larger one closes its connection.",
        name="max_request_size",
        kafka="socket.request.max.bytes",
    )
    request_memory_bytes: int = setting(
        _LISTENER.max_listener_bytes,
        Size(_MIB, 1 << 40),
        "Bytes of all requests in progress; beyond it, reading from sockets pauses.",
        kafka="queued.max.request.bytes",
    )
    idle_timeout_ms: int = setting(
        round(_LISTENER.idle_s * SECOND),
        Duration(SECOND, YEAR),
        "An idle connection is closed after this time.",
        kafka="connections.max.idle.ms",
    )
    stalled_write_timeout_ms: int = setting(
        round(_LISTENER.stalled_write_s * SECOND),
        Duration(SECOND, DAY),
        "A client that reads no response bytes for this long is disconnected.",
    )


class TlsSection(Section):
    """Encryption, on every listener or on none."""

    enabled: bool = setting(False, Switch(), "Use TLS on all listeners.")
    cert_file: Path | None = setting(
        None, FilePath("a PEM file"), "This server's certificate, with its chain."
    )
    key_file: Path | None = setting(
        None, FilePath("a PEM file"), "The certificate's key, without a passphrase."
    )
    ca_file: Path | None = setting(
        None, FilePath("a PEM file"), "The CA certificates for client certificates."
    )
    self_signed: bool = setting(
        False,
        Switch(),
        "Generate a certificate in the data folder, for this machine and for tests. "
        "Needs the extra `goqueue[tls]`.",
    )
    client_auth: ClientAuth = setting(
        ClientAuth.NONE,
        Choice(ClientAuth),
        "Client certificates: `none`, `verify` if they have one, `require-verify`. "
        "A presented certificate is always verified: `request` is `verify`, `require` is "
        "`require-verify`.",
    )
    min_version: TlsVersion = setting(
        TlsVersion.V1_2, Choice(TlsVersion), "The oldest TLS version that is accepted."
    )
    terminated_by_proxy: bool = setting(
        False,
        Switch(),
        "A proxy in front of this server does TLS: listeners that other machines can reach start "
        "without it. Only the proxy may be able to reach them.",
    )
    reload_ms: int = setting(
        30 * SECOND,
        Duration(SECOND, DAY),
        "How often the files are looked at; SIGHUP looks at once.",
        name="reload_interval",
    )


class SaslSection(Section):
    """Authentication of Kafka clients."""

    enabled: bool = setting(False, Switch(), "Require authentication of Kafka clients.")
    mechanisms: tuple[Mechanism, ...] = setting(
        _SASL.mechanisms,
        Choices(Mechanism),
        "The SASL mechanisms. `PLAIN` sends the password itself: combine it with TLS.",
        kafka="sasl.enabled.mechanisms",
    )
    users: Credentials = setting(
        (),
        Users(),
        "Names and passwords of users to create at the first start; later the stored ones are "
        "used. "
        "In the file, a mapping.",
        secret=True,
    )
    session_lifetime_ms: int = setting(
        _SASL.session_lifetime_ms,
        Duration(0, YEAR),
        "How long a login is valid; clients then re-authenticate on the same connection. 0: as "
        "long as the connection.",
        kafka="connections.max.reauth.ms",
    )


class LoggingSection(Section):
    """The server's own log, on standard error."""

    level: LogLevel = setting(
        LogLevel.INFO,
        Choice(LogLevel),
        "The least important message that is written.",
        flag="--log-level",
    )
    format: LogFormat = setting(
        LogFormat.TEXT,
        Choice(LogFormat),
        "Text for people, or JSON for programs.",
        flag="--log-format",
    )


class MetricsSection(Section):
    """The metrics of `/metrics`."""

    partition_label: bool = setting(
        False, Switch(), "Report sizes and offsets of each partition, not only of each topic."
    )
    max_series: int = setting(
        MAX_METRIC_SERIES,
        Whole(10, 1_000_000),
        "Label sets of one metric; further ones share one series, named `other`.",
    )
    backlog_check_ms: int = setting(
        round(MaintenanceSettings().backlogs_s * 1000),
        Duration(10, 3_600_000),
        "How often the age of the oldest unconsumed message and the time to catch up are computed.",
    )


_TRACING: Final = TracingSettings()
_FILES: Final = FileLimits()


class OtlpProtocol(StrEnum):
    """How a collector is spoken to."""

    GRPC = "grpc"
    HTTP = "http"


class TracingSection(Section):
    """Message tracing; see the page on tracing."""

    enabled: bool = setting(True, Switch(), "Messages are traced.")
    sampling: float = setting(
        _TRACING.sampling,
        Share(),
        "The share of batches that is traced. A topic may override it (`goqueue.trace`).",
    )
    max_batches: int = setting(
        _TRACING.max_batches_a_second,
        Whole(0, 1_000_000),
        "The most batches traced per second, of topics without `goqueue.trace`. 0: no bound.",
    )
    max_share: float = setting(
        _TRACING.max_share,
        Share(),
        "The size of trace files beside the bytes published since the start, above the first 4 MB. "
        "Beyond it only topics with `goqueue.trace` are traced. 1: no bound.",
    )
    ring_size: int = setting(
        _TRACING.ring_spans,
        Whole(100, MAX_RING_SPANS),
        "Events held in memory, for searches.",
    )
    files: bool = setting(
        True, Switch(), "Events are written to files under `traces/` in the data folder."
    )
    file_bytes: int = setting(
        _FILES.file_bytes,
        Size(64 * 1024, 1 << 30),
        "A new file is started at this size.",
        name="file_size",
    )
    kept_files: int = setting(
        _FILES.kept_files,
        Whole(1, 10_000),
        "Files that are retained; the oldest beyond it are deleted.",
    )
    kept_days: int = setting(_FILES.kept_days, Whole(1, 3650), "Older files are deleted.")
    stdout: bool = setting(False, Switch(), "Spans are printed, a line of JSON each.")
    otlp_endpoint: str | None = setting(
        None,
        Word(),
        "The OTLP endpoint of a collector, such as `localhost:4317`, or `http://localhost:4318` "
        "for "
        "HTTP. Needs the extra `goqueue[otlp]`. Not set: nothing is sent.",
    )
    otlp_protocol: OtlpProtocol = setting(
        OtlpProtocol.GRPC, Choice(OtlpProtocol), "The OTLP protocol."
    )
    otlp_service: str = setting("goqueue", Word(), "The service name in exported spans.")

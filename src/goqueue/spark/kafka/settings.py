"""How to reach a broker; a value that travels to the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Security:
    """What `kafka.security.protocol`, `kafka.sasl.*` and `kafka.ssl.*` say."""

    is_tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    check_host_name: bool = True
    mechanism: str | None = None
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Everything that a connection needs; equal settings share their connections."""

    servers: tuple[tuple[str, int], ...]
    client_id: str = "goqueue-spark"
    security: Security = Security()
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    patience_s: float = 60.0
    """How long to try again before a query fails."""
    retry_backoff_s: float = 0.1
    max_backoff_s: float = 1.0

    @property
    def addresses(self) -> str:
        """For messages to people."""
        return ", ".join(f"{host}:{port}" for host, port in self.servers)

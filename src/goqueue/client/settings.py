"""What a client can be told, with its bounds."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec

DEFAULT_ADDRESS: Final = "127.0.0.1:9092"

_AT_LEAST_ONE: Final = (
    "batch_messages",
    "batch_bytes",
    "buffer_messages",
    "buffer_bytes",
    "tries",
    "connections",
    "in_flight",
)
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SECRETS: Final = frozenset({"password", "api_key", "token"})
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a client sends, waits and tries again."""

    batch_messages: int = 10_000
    """A batch of one partition is sent when it has so many messages,"""
    batch_bytes: int = 256 * 1024
    """or so many bytes,"""
    linger_ms: float = 2
    """or when its first message has waited so long; 0 sends each at once."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    in_flight: int = 5
    """Batches of one partition that may be under way at once; with idempotence up to 5."""
    buffer_messages: int = 100_000
    """Messages that are not acknowledged yet. At the bound, `publish` does as `when_full` says."""
    buffer_bytes: int = 64 * 1024 * 1024
    """The same in bytes, whichever is reached first."""
    when_full: Literal["block", "raise"] = "block"
    acks: Literal["all", "leader", "none"] = "all"
    idempotent: bool = True
    """Number the messages, so that the broker recognises one that is sent again."""
    tries: int = 3
    """How often a question is asked that no broker has answered."""
    backoff_ms: float = 100
    """Before the second try; doubles with each, with jitter,"""
    max_backoff_ms: float = 1000
    """up to this."""
    delivery_timeout_ms: float = 120_000
    """How long a message may wait for its acknowledgement, through all reconnections."""
    call_timeout_ms: float = 10_000
    """How long a single question may take, connecting included."""
    connect_timeout_ms: float = 10_000
    """How long making a connection may take, where that is less."""
    connections: int = 2
    """Of the time before the Kafka wire; has no effect."""
    client_id: str = "goqueue-python"
    """Shown in descriptions of groups and in the broker's log."""
    tls: bool = False
    """Speak TLS; the system's authorities are trusted, unless `ca_file` says whom to."""
    ca_file: Path | str | None = None
    """Speak TLS with a broker whose certificate one of these authorities has signed (PEM)."""
    certificate_file: Path | str | None = None
    """The client's own certificate (PEM), where the broker asks for one."""
    key_file: Path | str | None = None
    """Its private key (PEM)."""
    check_host_name: bool = True
    """Whether the certificate must name the host that was asked for."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """How to log in; an API key or a token needs no word about it."""
    username: str = ""
    password: str = ""
    api_key: str | None = None
    """Log in with an API key (`gq_...`)."""
    token: str | Callable[[], str] | None = None
    """Log in with a token of an OIDC provider; a function is called for each connection, in a
    thread, so that it can fetch a new one."""

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not 1 or more")
        if self.linger_ms < 0:
            raise ValueError(f"linger_ms: {self.linger_ms} is less than 0")
        if self.compression not in COMPRESSIONS:
            raise ValueError(f"compression: {self.compression!r} is none of {COMPRESSIONS}")
        if self.sasl_mechanism is not None and self.sasl_mechanism not in MECHANISMS:
            raise ValueError(f"sasl_mechanism: {self.sasl_mechanism!r} is none of {MECHANISMS}")
        if self.api_key is not None and self.token is not None:
            raise ValueError("api_key and token: expected one of them")
        has_bearer = self.api_key is not None or self.token is not None
        if has_bearer != (self.mechanism == "OAUTHBEARER"):
            raise ValueError(
                f"sasl_mechanism: {self.sasl_mechanism!r}; expected OAUTHBEARER with api_key or "
                "token, and one of the others with username and password"
            )

    def __repr__(self) -> str:
        shown = ((name, getattr(self, name)) for name in self.__struct_fields__)
        told = (f"{name}={value!r}" for name, value in shown if name not in _SECRETS or not value)
        return f"{type(self).__name__}({', '.join(told)})"

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism, also where the credential alone tells it."""
        if self.sasl_mechanism is None and (self.api_key is not None or self.token is not None):
            return "OAUTHBEARER"
        return self.sasl_mechanism

    @property
    def connect_timeout_s(self) -> float:
        """How long making a connection may take."""
        return min(self.connect_timeout_ms, self.call_timeout_ms) / 1000

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.tls or self.ca_file is not None or self.certificate_file is not None

    def backoff_s(self, failures: int) -> float:
        """How long to wait after so many failures: between half of it and all of it."""
        whole_ms: float = min(self.backoff_ms * 2 ** max(failures - 1, 0), self.max_backoff_ms)
        return whole_ms / 1000 * (0.5 + random.random() / 2)  # noqa: S311 - jitter, not a secret

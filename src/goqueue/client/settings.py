"""What a client can be told, with its bounds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from goqueue.model.limits import MAX_CLIENT_BACKOFF_S

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_ADDRESS: Final = "127.0.0.1:9000"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a client sends, waits and tries again."""

    batch_messages: int = 100
    """A batch of one partition is sent when it has so many messages,"""
    batch_bytes: int = 64 * 1024
    """or so many bytes,"""
    linger_ms: float = 5
    """or when its first message has waited so long; 0 sends each at once."""
    buffer_messages: int = 10_000
    """Messages that are not acknowledged yet. At the bound, `publish` does as `when_full` says."""
    when_full: Literal["block", "raise"] = "block"
    acks: Literal["all", "leader", "none"] = "all"
    idempotent: bool = True
    """Number the messages, so that the broker recognises one that is sent again."""
    tries: int = 3
    """How often a batch is sent that the broker refuses for now, and a question is asked."""
    backoff_ms: float = 100
    """Before the second try; doubles with each, up to a second, with jitter."""
    delivery_timeout_ms: float = 30_000
    """How long a message may wait for its acknowledgement, through all reconnections."""
    call_timeout_ms: float = 10_000
    """How long a single question may take, connecting included."""
    connections: int = 2
    """TCP connections that are kept; calls take turns."""
    ca_file: Path | None = None
    """Speak TLS with a broker whose certificate one of these authorities has signed (PEM)."""

    def __post_init__(self) -> None:
        for name in ("batch_messages", "batch_bytes", "buffer_messages", "tries", "connections"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not 1 or more")
        if self.linger_ms < 0:
            raise ValueError(f"linger_ms: {self.linger_ms} is less than 0")

    def backoff_s(self, failures: int) -> float:
        """How long to wait after so many failures: between half of it and all of it."""
        whole: float = min(self.backoff_ms / 1000 * 2 ** max(failures - 1, 0), MAX_CLIENT_BACKOFF_S)
        return whole * (0.5 + random.random() / 2)  # noqa: S311 - jitter, not a secret

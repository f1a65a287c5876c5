"""How to reach a broker; a value that travels to the tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from msgspec.structs import replace as replace_fields

from goqueue.client.settings import ClientSettings

if TYPE_CHECKING:
    from goqueue.client.link.addresses import Address

_DEFAULTS: Final = ClientSettings(client_id="goqueue-spark", call_timeout_ms=30_000)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Everything that a connection needs; equal settings share their connections."""

    servers: tuple[Address, ...]
    client: ClientSettings = _DEFAULTS
    patience_s: float = 60.0
    """How long to try again before a query fails."""

    def within(self, patience_s: float) -> Self:
        """The same with another patience; connecting takes no longer than that."""
        connect_timeout_ms = min(self.client.connect_timeout_ms, patience_s * 1000)
        client = replace_fields(self.client, connect_timeout_ms=connect_timeout_ms)
        return replace(self, client=client, patience_s=patience_s)

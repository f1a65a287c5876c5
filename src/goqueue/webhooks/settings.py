"""What the server's configuration says of webhooks."""

from __future__ import annotations

import msgspec


class WebhookSettings(msgspec.Struct, frozen=True):
    """Whether events are sent, and which addresses they may be sent to."""

    is_on: bool = False
    allow_private: bool = False
    """Loopback, private and link-local addresses are allowed."""
    allowed_networks: tuple[str, ...] = ()
    """Networks that are allowed whatever they are, such as 10.1.0.0/16."""

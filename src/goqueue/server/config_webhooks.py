"""The settings of webhooks."""

# ruff: noqa: FBT003 - the first argument of `setting` is its default

from __future__ import annotations

from ipaddress import ip_network

import msgspec

from goqueue.server.config_kinds import MismatchError, Switch
from goqueue.server.config_table import Section, setting


class Networks(msgspec.Struct, frozen=True):
    """Networks in CIDR notation; in a file a list, elsewhere with commas between them."""

    expected: str = "networks such as 10.1.0.0/16 or fd00::/8, with commas between them"

    def parse(self, raw: object) -> tuple[str, ...]:
        """Them; raises `MismatchError`."""
        texts = raw if isinstance(raw, list | tuple) else str(raw).split(",")
        try:
            return tuple(str(ip_network(str(each).strip())) for each in texts if str(each).strip())
        except ValueError as error:
            raise MismatchError from error

    def render(self, value: tuple[str, ...]) -> str:
        """As one text."""
        return ",".join(value)


class WebhooksSection(Section):
    """Events that are posted to other servers; see the page on webhooks."""

    enabled: bool = setting(
        False,
        Switch(),
        "Record events and post them to the webhooks that administrators create.",
    )
    allow_private: bool = setting(
        False,
        Switch(),
        "Webhooks may call loopback, private and link-local addresses; metadata addresses of "
        "clouds only if `webhooks.allowed_networks` names them.",
    )
    allowed_networks: tuple[str, ...] = setting(
        (),
        Networks(),
        "Networks that webhooks may call whatever they are.",
    )

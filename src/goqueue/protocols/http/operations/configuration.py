"""The configuration that a node runs with."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import DESCRIBE_CONFIGS, on_cluster
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.served_node import EffectiveSetting, ServedNode

_TAG: Final = "admin"


class Configuration(msgspec.Struct):
    """The settings that a node runs with."""

    node_id: int
    settings: list[EffectiveSetting]


class ConfigurationRoutes:
    """Settings of the server."""

    def __init__(self, node: ServedNode) -> None:
        self._node = node

    @route("GET", "/admin/config", right=on_cluster(DESCRIBE_CONFIGS), tag=_TAG, place=LOCAL)
    async def all(self) -> Configuration:
        """The settings of the node that is asked, with the source of each; secrets are masked."""
        node_id = self._node.broker.settings.node_id
        return Configuration(node_id, self._node.effective_settings())

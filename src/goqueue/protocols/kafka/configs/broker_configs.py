"""Settings of the broker (resource type 4): of this node by its number, of the cluster by ''."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.configs.broker_configs import BrokerConfigs, Level
from goqueue.configs.broker_setting_table import BROKER_SETTINGS
from goqueue.model.errors import InvalidBrokerConfigError
from goqueue.protocols.kafka.configs.entries import (
    SOURCE_CLUSTER,
    SOURCE_DEFAULT,
    SOURCE_NODE,
    SOURCE_STATIC,
    Synonym,
    changed,
    described,
    given,
)

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.wire.kafka.reading import Struct

_SOURCES: Final = {
    Level.NODE: SOURCE_NODE,
    Level.CLUSTER: SOURCE_CLUSTER,
    Level.STATIC: SOURCE_STATIC,
    Level.DEFAULT: SOURCE_DEFAULT,
}


def layers_of(configs: BrokerConfigs, name: str, *, dynamic: bool = True) -> list[Synonym]:
    """Every value that a setting of the broker has, the one in force first."""
    return [
        Synonym(name, layer.value, _SOURCES[layer.level])
        for layer in configs.layers(name)
        if dynamic or layer.level not in {Level.NODE, Level.CLUSTER}
    ]


class BrokerResources:
    """The broker as a resource that has settings."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self, name: str) -> list[dict[str, Any]]:
        """Every setting of the node; of the cluster only those that were set for it, as Kafka."""
        configs = self._broker.configs
        if self._level(name) is Level.CLUSTER:
            return [
                described(row.setting, [Synonym(name, value, SOURCE_CLUSTER)])
                for name, value in configs.overrides(Level.CLUSTER).items()
                if (row := BROKER_SETTINGS.get(name)) is not None
            ]
        return [
            described(row.setting, layers_of(configs, row.name), read_only=not row.is_dynamic)
            for row in BROKER_SETTINGS.values()
            if not row.setting.is_hidden or len(configs.layers(row.name)) > 1
        ]

    async def alter(self, resource: Struct, *, incremental: bool, dry: bool) -> None:
        """Replace the settings of the node or of the cluster, or change some of them."""
        level, configs = self._level(resource.resource_name), self._broker.configs
        if incremental:
            overrides = changed(resource, configs.overrides(level), _kind_of, configs.text)
        else:
            overrides = given(resource)
        if dry:
            configs.check(level, overrides)
        else:
            await self._broker.configure(level, overrides)

    def _level(self, name: str) -> Level:
        node_id = self._broker.settings.node_id
        if not name:
            return Level.CLUSTER
        if name != str(node_id):
            raise InvalidBrokerConfigError(
                f"there is no broker {name!r}, expected {node_id}, or the empty name for the "
                "defaults of the cluster"
            )
        return Level.NODE


def _kind_of(name: str) -> str | None:
    row = BROKER_SETTINGS.get(name)
    return None if row is None else row.setting.kind

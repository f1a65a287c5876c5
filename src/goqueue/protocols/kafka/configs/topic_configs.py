"""Settings of topics (resource type 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.configs.broker_setting_table import TOPIC_SYNONYMS
from goqueue.protocols.kafka.configs.broker_configs import layers_of
from goqueue.protocols.kafka.configs.entries import (
    SOURCE_DEFAULT,
    SOURCE_TOPIC,
    Synonym,
    changed,
    described,
    given,
)
from goqueue.topics.setting_table import LISTED, SETTINGS

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.topics.catalogue import Topic
    from goqueue.topics.setting import Setting
    from goqueue.wire.kafka.reading import Struct


class TopicResources:
    """Topics as resources that have settings."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self, name: str) -> list[dict[str, Any]]:
        """Every setting of a topic."""
        topic = self._broker.topics.catalogue.topic(name)
        return [described(setting, self.synonyms(topic, setting)) for setting in LISTED]

    def synonyms(self, topic: Topic, setting: Setting) -> list[Synonym]:
        """Every value that a setting of a topic has, the one in force first."""
        found = []
        if setting.name in topic.settings.overrides:
            value = topic.settings.overrides[setting.name]
            found.append(Synonym(setting.name, value, SOURCE_TOPIC))
        name = TOPIC_SYNONYMS.get(setting.name)
        if name is None:
            value = topic.settings.defaults.get(setting.name, setting.default)
            return [*found, Synonym(setting.name, value, SOURCE_DEFAULT)]
        found += layers_of(self._broker.configs, name, dynamic=not topic.is_internal)
        value = topic.settings.text(setting.name)
        if found[0].value != value:
            # In a cluster, min.insync.replicas follows from how many replicas the topic has.
            found.insert(0, Synonym(setting.name, value, SOURCE_DEFAULT))
        return found

    async def alter(self, resource: Struct, *, incremental: bool, dry: bool) -> None:
        """Replace the settings of a topic, or change some of them."""
        name = resource.resource_name
        if incremental:
            settings = self._broker.topics.catalogue.topic(name).settings
            overrides = changed(resource, settings.overrides, _kind_of, settings.text)
        else:
            overrides = given(resource)
        if dry:
            self._broker.topics.plan_settings(name, overrides)
        else:
            await self._broker.configure_topic(name, overrides)


def _kind_of(name: str) -> str | None:
    setting = SETTINGS.get(name)
    return None if setting is None else setting.kind

"""Settings of the broker that change while it runs, for this node or for the whole cluster.

Kafka's order: what was set for the node counts more than what was set for the cluster, that more
than the server's configuration, and that more than the default.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from goqueue.configs.absent_settings import absence
from goqueue.configs.broker_setting_table import BROKER_SETTINGS, TOPIC_SYNONYMS
from goqueue.configs.coordinated_setting_table import broker_values
from goqueue.model.errors import (
    InvalidBrokerConfigError,
    InvalidTopicConfigError,
    ReadOnlyConfigError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.topics.stored_configs import StoredConfigs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.configs.broker_settings import BrokerSettings

_PREFIX: Final = "broker-configs/"
_CLUSTER: Final = "default"


class Level(Enum):
    """Where a value comes from, the strongest first."""

    NODE = 1
    CLUSTER = 2
    STATIC = 3
    DEFAULT = 4


class Layer(NamedTuple):
    """One value of a setting, and where it comes from."""

    level: Level
    value: str


class BrokerConfigs:
    """What is set for the broker."""

    def __init__(
        self, store: MetadataStore, settings: BrokerSettings, keeper: ViewKeeper | None = None
    ) -> None:
        self._stored = StoredConfigs(store, _PREFIX, keeper)
        self._node = str(settings.node_id)
        self._static = _static(settings)
        self._always_static = frozenset(("broker.id", "node.id", "log.dirs", "listeners"))

    async def load(self) -> None:
        """Read what was set from the metadata store."""
        await self._stored.load()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call back after a node of the cluster has changed something."""
        self._stored.on_change = callback

    def overrides(self, level: Level) -> Mapping[str, str]:
        """What was set at run time on one of the two levels where that is possible."""
        return self._stored.of(self._key(level))

    def layers(self, name: str) -> list[Layer]:
        """Every value that a setting has, the one in force first."""
        found = [
            Layer(level, overrides[name])
            for level in (Level.NODE, Level.CLUSTER)
            if name in (overrides := self.overrides(level))
        ]
        default = BROKER_SETTINGS[name].setting.default
        static = self._static.get(name, default)
        if static != default or name in self._always_static:
            found.append(Layer(Level.STATIC, static))
        if name not in self._always_static:
            found.append(Layer(Level.DEFAULT, default))
        return found

    def text(self, name: str) -> str:
        """The value in force."""
        return self.layers(name)[0].value

    def changed(self, name: str) -> int | None:
        """The number that was set at run time; None leaves the server's configuration in force."""
        for level in (Level.NODE, Level.CLUSTER):
            value = self.overrides(level).get(name)
            if value is not None:
                return int(value)
        return None

    def is_dynamic(self, name: str) -> bool:
        """Whether there is such a setting, and it can change while a broker runs."""
        row = BROKER_SETTINGS.get(name)
        return row is not None and row.is_dynamic

    def topic_defaults(self) -> dict[str, str]:
        """What topics use where they say nothing, as far as that was set at run time."""
        return {
            row.topic: layer.value
            for row in BROKER_SETTINGS.values()
            if row.topic is not None
            and (layer := self.layers(row.name)[0]).level in {Level.NODE, Level.CLUSTER}
        }

    def check(self, level: Level, overrides: Mapping[str, str]) -> None:
        """Hold settings to what can be set, naming everything that cannot.

        Raises:
            ReadOnlyConfigError: Kafka has the setting, and it cannot change while a broker runs.
            InvalidTopicConfigError: there is no such setting.
            InvalidBrokerConfigError: a setting cannot have that value.
        """
        kept = self.overrides(level)
        changed = {name: value for name, value in overrides.items() if kept.get(name) != value}
        fixed, unknown = _not_changeable(changed)
        if fixed:
            reasons = [f"; {name}: {why}" for name in fixed if (why := absence(name))]
            refusal = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
            raise ReadOnlyConfigError(
                f"{refusal}, they are given when the server starts{''.join(reasons)}"
            )
        if unknown:
            raise InvalidTopicConfigError(
                f"there is no broker setting {', '.join(map(repr, unknown))}"
            )
        objections = [
            objection
            for name, value in changed.items()
            if (objection := BROKER_SETTINGS[name].setting.objection(value)) is not None
        ]
        if objections:
            raise InvalidBrokerConfigError("; ".join(objections))

    async def replace(self, level: Level, overrides: Mapping[str, str]) -> None:
        """Let one level have these settings and no others; returns when that is stored.

        Raises like `check`.
        """
        self.check(level, overrides)
        await self._stored.replace(self._key(level), overrides)

    def _key(self, level: Level) -> str:
        return self._node if level is Level.NODE else _CLUSTER


def _not_changeable(names: Mapping[str, str]) -> tuple[list[str], list[str]]:
    fixed: list[str] = []
    unknown: list[str] = []
    for name in names:
        row = BROKER_SETTINGS.get(name)
        if row is None:
            (unknown if absence(name) is None else fixed).append(name)
        elif not row.is_dynamic:
            fixed.append(name)
    return fixed, unknown


def _static(settings: BrokerSettings) -> dict[str, str]:
    """What the server's configuration says, or this broker was made with."""
    groups = settings.groups
    of_topics = {
        name: settings.topic_defaults[topic]
        for topic, name in TOPIC_SYNONYMS.items()
        if topic in settings.topic_defaults
    }
    return {
        "auto.create.topics.enable": str(settings.auto_create_topics).lower(),
        "broker.id": str(settings.node_id),
        "group.initial.rebalance.delay.ms": str(groups.initial_rebalance_delay_ms),
        "group.max.session.timeout.ms": str(groups.max_session_timeout_ms),
        "group.max.size": str(groups.max_group_size),
        "group.min.session.timeout.ms": str(groups.min_session_timeout_ms),
        "group.share.max.delivery.count.limit": str(groups.share_max_delivery_count_limit),
        "group.share.max.heartbeat.interval.ms": str(groups.share_max_heartbeat_interval_ms),
        "group.share.max.partition.max.record.locks": str(groups.share_max_partition_locks),
        "group.share.max.record.lock.duration.ms": str(groups.share_max_record_lock_duration_ms),
        "group.share.max.session.timeout.ms": str(groups.share_max_session_timeout_ms),
        "group.share.min.heartbeat.interval.ms": str(groups.share_min_heartbeat_interval_ms),
        "group.share.min.record.lock.duration.ms": str(groups.share_min_record_lock_duration_ms),
        "group.share.min.session.timeout.ms": str(groups.share_min_session_timeout_ms),
        "log.dirs": str(settings.data_dir),
        "node.id": str(settings.node_id),
        "num.partitions": str(settings.default_partitions),
        "offsets.topic.num.partitions": str(settings.offsets_partitions),
        "transaction.state.log.num.partitions": str(settings.transactions_partitions),
        **{value.name: str(value.of(groups)) for value, _ in broker_values()},
        **of_topics,
        **settings.kafka_configs,
    }

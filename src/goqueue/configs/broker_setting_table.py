"""The table of broker settings, under Kafka's names: which there are, and which change at run time.

A setting that a topic may have for itself is the default for topics; `topic` names it. The others
come from the server's own configuration, or are constants of this broker.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from goqueue.configs.coordinated_setting_table import (
    ASSIGNMENT_INTERVAL_MS,
    KINDS,
)
from goqueue.configs.fixed_settings import FIXED
from goqueue.model.limits import MAX_ASSIGNMENT_INTERVAL_MS
from goqueue.topics.setting import INT_MAX, LONG_MAX, Effect, Setting, is_share, number, switch
from goqueue.topics.setting_table import SETTINGS

_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 24 * 60 * _MINUTE_MS


class BrokerSetting(msgspec.Struct, frozen=True):
    """One setting of the broker."""

    setting: Setting
    is_dynamic: bool = True
    """It can be changed while the broker runs, for this node or for the whole cluster."""
    topic: str | None = None
    """The topic setting that this is the default of."""

    @property
    def name(self) -> str:
        """Kafka's name."""
        return self.setting.name


def _for_topics(name: str, topic: str) -> BrokerSetting:
    setting = SETTINGS[topic]
    documentation = f"{topic} of topics that do not say otherwise. {setting.documentation}"
    return BrokerSetting(replace(setting, name=name, documentation=documentation), topic=topic)


def _is_rate(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


def _ignored(setting: Setting) -> BrokerSetting:
    return BrokerSetting(replace(setting, effect=Effect.NONE))


def _threads(name: str, default: int, work: str) -> BrokerSetting:
    documentation = f"How many threads {work}."
    note = "one event loop does the work, with a few threads for the disk"
    return _ignored(number(name, default, 1, documentation, kind="int", note=note))


_FOR_TOPICS: Final = (
    _for_topics("compression.type", "compression.type"),
    _for_topics("compression.gzip.level", "compression.gzip.level"),
    _for_topics("compression.lz4.level", "compression.lz4.level"),
    _for_topics("compression.zstd.level", "compression.zstd.level"),
    _for_topics("log.cleaner.delete.retention.ms", "delete.retention.ms"),
    _for_topics("log.cleaner.max.compaction.lag.ms", "max.compaction.lag.ms"),
    _for_topics("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio"),
    _for_topics("log.cleaner.min.compaction.lag.ms", "min.compaction.lag.ms"),
    _for_topics("log.cleanup.policy", "cleanup.policy"),
    _for_topics("log.flush.interval.messages", "flush.messages"),
    _for_topics("log.flush.interval.ms", "flush.ms"),
    _for_topics("log.index.interval.bytes", "index.interval.bytes"),
    _for_topics("log.index.size.max.bytes", "segment.index.bytes"),
    _for_topics("log.local.retention.bytes", "local.retention.bytes"),
    _for_topics("log.local.retention.ms", "local.retention.ms"),
    _for_topics("log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms"),
    _for_topics("log.message.timestamp.before.max.ms", "message.timestamp.before.max.ms"),
    _for_topics("log.message.timestamp.type", "message.timestamp.type"),
    _for_topics("log.preallocate", "preallocate"),
    _for_topics("log.retention.bytes", "retention.bytes"),
    _for_topics("log.retention.ms", "retention.ms"),
    _for_topics("log.roll.jitter.ms", "segment.jitter.ms"),
    _for_topics("log.roll.ms", "segment.ms"),
    _for_topics("log.segment.bytes", "segment.bytes"),
    _for_topics("log.segment.delete.delay.ms", "file.delete.delay.ms"),
    _for_topics("message.max.bytes", "max.message.bytes"),
    _for_topics("min.insync.replicas", "min.insync.replicas"),
    _for_topics("unclean.leader.election.enable", "unclean.leader.election.enable"),
)

PRODUCER_EXPIRY: Final = "producer.id.expiration.ms"
COMPACTION_INTERVAL: Final = "log.cleaner.backoff.ms"
CONNECTIONS_SETTING: Final = "max.connections"
CONNECTIONS_PER_IP_SETTING: Final = "max.connections.per.ip"

_DYNAMIC: Final = (
    BrokerSetting(
        number(
            PRODUCER_EXPIRY,
            7 * _DAY_MS,
            1,
            "How long an idempotent producer may be silent before it is forgotten.",
            kind="int",
            note="7 days by default, Kafka 1",
        )
    ),
    BrokerSetting(
        number(
            COMPACTION_INTERVAL,
            15_000,
            10,
            "How often compaction looks for logs that are due.",
            high=_DAY_MS,
            note="from 10 ms to a day; Kafka takes any number",
        )
    ),
    BrokerSetting(
        number(
            CONNECTIONS_SETTING,
            10_000,
            1,
            "How many connections of Kafka clients there may be; a further one is closed.",
            kind="int",
            note="10 000 by default, Kafka has no bound",
        )
    ),
    BrokerSetting(
        number(
            CONNECTIONS_PER_IP_SETTING,
            INT_MAX,
            1,
            "How many connections there may be from one address; a further one is closed.",
            kind="int",
            note="there are no overrides for single addresses",
        )
    ),
)


def _throttle(name: str, what: str) -> BrokerSetting:
    documentation = f"How many bytes {what} in a second; shown once it was set, as in Kafka."
    note = "replication is not throttled, and a node has one data folder"
    return _ignored(number(name, LONG_MAX, 0, documentation, note=note, is_hidden=True))


def _assignment_interval(kind: str) -> BrokerSetting:
    return _ignored(
        number(
            f"group.{kind}.assignment.interval.ms",
            ASSIGNMENT_INTERVAL_MS,
            0,
            f"How long a {kind} group waits between two assignments.",
            high=MAX_ASSIGNMENT_INTERVAL_MS,
            kind="int",
            note="an assignment is made when it is needed, at once",
        )
    )


_IGNORED: Final = (
    _throttle("follower.replication.throttled.rate", "throttled followers fetch"),
    _throttle("leader.replication.throttled.rate", "throttled leaders send"),
    _throttle("replica.alter.log.dirs.io.max.bytes.per.second", "move between data folders"),
    _threads("background.threads", 10, "do background work"),
    _threads("log.cleaner.threads", 1, "compact logs"),
    _threads("num.io.threads", 8, "serve requests"),
    _threads("num.network.threads", 3, "read requests from the network"),
    _threads("num.recovery.threads.per.data.dir", 2, "recover logs at the start"),
    _threads("num.replica.fetchers", 1, "copy partitions from each other broker"),
    *map(_assignment_interval, KINDS),
    _ignored(
        number(
            "log.cleaner.dedupe.buffer.size",
            128 << 20,
            1 << 20,
            "The memory for the keys of a compaction.",
            note="the keys of one pass are bounded by their number",
        )
    ),
    _ignored(
        number(
            "log.cleaner.io.buffer.size",
            512 << 10,
            0,
            "The memory for the records of a compaction.",
            kind="int",
            note="batches are read one by one",
        )
    ),
    _ignored(
        Setting(
            "log.cleaner.io.buffer.load.factor",
            "0.9",
            "a number from 0 to 1",
            is_share,
            "How full the memory for keys may be.",
            "double",
            note="the keys of one pass are bounded by their number",
        )
    ),
    _ignored(
        Setting(
            "log.cleaner.io.max.bytes.per.second",
            "1.7976931348623157E308",
            "a number that is not negative",
            _is_rate,
            "How much compaction reads and writes in a second.",
            "double",
            note="compaction runs in a thread, and lets others have their turn",
        )
    ),
    _ignored(
        number(
            "max.connection.creation.rate",
            INT_MAX,
            0,
            "How many connections are accepted in a second.",
            kind="int",
            note="what is bounded is the number of connections, and of those before a login",
        )
    ),
    _ignored(
        switch(
            "transaction.partition.verification.enable",
            "Whether a transactional batch is refused of which the coordinator knows nothing.",
            default=True,
            note="that is always refused",
        )
    ),
)

BROKER_SETTINGS: Final[dict[str, BrokerSetting]] = {
    each.name: each
    for each in sorted(
        (
            *_FOR_TOPICS,
            *_DYNAMIC,
            *_IGNORED,
            *(BrokerSetting(each, is_dynamic=False) for each in FIXED),
        ),
        key=lambda each: each.name,
    )
}
"""Every setting of the broker that is shown."""

TOPIC_SYNONYMS: Final[dict[str, str]] = {
    each.topic: each.name for each in BROKER_SETTINGS.values() if each.topic is not None
}
"""What the broker calls the default of a topic setting."""

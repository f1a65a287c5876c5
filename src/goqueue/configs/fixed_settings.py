"""Settings of the broker that hold from its start to its end, under Kafka's names.

They come from the server's own configuration, or are constants of this broker; DescribeConfigs
shows them as read-only, and to change them is refused as Kafka refuses it.
"""

from __future__ import annotations

from typing import Final

from goqueue.configs.coordinated_setting_table import broker_values
from goqueue.topics.setting import Setting


def _fixed(name: str, default: str, kind: str, documentation: str, note: str = "") -> Setting:
    expected = "a value that is given at the start"
    return Setting(name, default, expected, lambda _: False, documentation, kind, note=note)


_COORDINATED: Final = tuple(
    _fixed(value.name, str(value.of()), "int", documentation)
    for value, documentation in broker_values()
)

_GROUPS: Final = (
    _fixed(
        "group.consumer.assignors",
        "uniform,range",
        "list",
        "The assignors of the KIP-848 protocol.",
    ),
    _fixed(
        "group.consumer.migration.policy",
        "bidirectional",
        "string",
        "Which groups with members may change protocol.",
    ),
    _fixed(
        "group.initial.rebalance.delay.ms",
        "3000",
        "int",
        "How long an empty group waits for more members before its first rebalance.",
    ),
    _fixed(
        "group.max.session.timeout.ms", "1800000", "int", "The longest session that is granted."
    ),
    _fixed(
        "group.max.size",
        "10000",
        "int",
        "Members of one group; a further one is refused.",
        "10 000 by default, Kafka has no bound",
    ),
    _fixed("group.min.session.timeout.ms", "6000", "int", "The shortest session that is granted."),
    _fixed(
        "group.share.max.delivery.count.limit",
        "10",
        "int",
        "The largest `share.delivery.count.limit`.",
    ),
    _fixed(
        "group.share.max.heartbeat.interval.ms",
        "15000",
        "int",
        "The longest `share.heartbeat.interval.ms`.",
    ),
    _fixed(
        "group.share.max.partition.max.record.locks",
        "4000",
        "int",
        "The largest `share.partition.max.record.locks`.",
    ),
    _fixed(
        "group.share.max.record.lock.duration.ms",
        "60000",
        "int",
        "The longest `share.record.lock.duration.ms`.",
    ),
    _fixed(
        "group.share.max.session.timeout.ms",
        "60000",
        "int",
        "The longest `share.session.timeout.ms`.",
    ),
    _fixed(
        "group.share.min.heartbeat.interval.ms",
        "5000",
        "int",
        "The shortest `share.heartbeat.interval.ms`.",
    ),
    _fixed(
        "group.share.min.record.lock.duration.ms",
        "15000",
        "int",
        "The shortest `share.record.lock.duration.ms`.",
    ),
    _fixed(
        "group.share.min.session.timeout.ms",
        "45000",
        "int",
        "The shortest `share.session.timeout.ms`.",
    ),
    _fixed(
        "offset.metadata.max.bytes", "4096", "int", "The most that is committed with an offset."
    ),
    _fixed(
        "offsets.retention.check.interval.ms",
        "600000",
        "long",
        "How often expired offsets are looked for.",
    ),
    _fixed(
        "offsets.retention.minutes",
        "10080",
        "int",
        "How long committed offsets outlive a group's last member.",
    ),
    _fixed(
        "offsets.topic.num.partitions",
        "16",
        "int",
        "Partitions of __consumer_offsets.",
        "16 by default, Kafka 50",
    ),
)

_BROKER: Final = (
    _fixed("advertised.listeners", "", "list", "Where clients are told to connect."),
    _fixed("authorizer.class.name", "", "string", "The authorizer is built in: `auth.enabled`."),
    _fixed(
        "auto.create.topics.enable",
        "true",
        "boolean",
        "Whether a topic is made that a client asks for and that does not exist.",
    ),
    _fixed("broker.id", "1", "int", "The number of this node."),
    _fixed(
        "connections.max.idle.ms", "600000", "long", "After how long an idle connection is closed."
    ),
    _fixed("connections.max.reauth.ms", "0", "long", "How long a login counts; 0 is without end."),
    _fixed(
        "default.replication.factor", "1", "int", "Copies of each partition: there is one node."
    ),
    _fixed("delete.topic.enable", "true", "boolean", "Topics can be deleted."),
    _fixed("listeners", "", "list", "Where Kafka clients are listened for."),
    _fixed("log.cleaner.enable", "true", "boolean", "Compacted topics are compacted."),
    _fixed("log.dirs", "", "list", "The folder of the data."),
    _fixed(
        "log.flush.offset.checkpoint.interval.ms",
        "60000",
        "int",
        "How often logs note how far they are safe.",
    ),
    _fixed(
        "log.retention.check.interval.ms",
        "60000",
        "long",
        "How often retention runs.",
    ),
    _fixed("node.id", "1", "int", "The number of this node."),
    _fixed(
        "num.partitions",
        "3",
        "int",
        "Partitions of a topic whose maker does not say how many.",
        "3 by default, Kafka 1",
    ),
    _fixed("process.roles", "broker,controller", "list", "This node is all there is."),
    _fixed(
        "queued.max.request.bytes",
        "268435456",
        "long",
        "The memory for requests that are being read or served.",
        "256 MiB by default, Kafka has no bound",
    ),
    _fixed(
        "sasl.enabled.mechanisms",
        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "list",
        "How clients may log in.",
    ),
    _fixed("socket.request.max.bytes", "104857600", "int", "The largest request that is read."),
    _fixed(
        "transaction.max.timeout.ms",
        "900000",
        "int",
        "The longest that a transaction may be allowed to stay open.",
    ),
    _fixed(
        "transaction.state.log.num.partitions",
        "16",
        "int",
        "Partitions of __transaction_state.",
        "16 by default, Kafka 50",
    ),
    _fixed(
        "transaction.two.phase.commit.enable",
        "false",
        "boolean",
        "Transactions are never left to an external coordinator.",
    ),
    _fixed(
        "transactional.id.expiration.ms",
        "604800000",
        "int",
        "After how long an unused transactional id is forgotten.",
    ),
)

FIXED: Final = (*_COORDINATED, *_GROUPS, *_BROKER)
"""All of them."""

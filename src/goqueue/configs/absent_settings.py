"""Settings of Kafka's brokers that this broker does not have, and why."""

from __future__ import annotations

from typing import Final

_ELSEWHERE: Final = "the server's own configuration has it"

ABSENT: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("ssl.",), f"{_ELSEWHERE}, in `tls`"),
    (("sasl.", "security.", "principal.builder.class"), f"{_ELSEWHERE}, in `sasl`"),
    (("delegation.token.",), "there are no delegation tokens"),
    (
        (
            "controller.",
            "metadata.",
            "broker.heartbeat.",
            "broker.session.",
            "initial.broker.registration.",
            "inter.broker.",
            "controlled.shutdown.",
        ),
        "one node is broker and controller, and its metadata store is a file",
    ),
    (
        (
            "replica.",
            "replication.quota.",
            "num.replica.",
            "alter.log.dirs.",
            "broker.rack",
            "auto.leader.",
            "leader.",
        ),
        "replication is configured in the section `cluster`",
    ),
    (("remote.", "follower.fetch."), "there is no remote storage"),
    (
        ("quota.", "client.quota.", "max.connections.per.ip.overrides"),
        "quotas are set by AlterClientQuotas, and kept by token buckets of one second",
    ),
    (
        (
            "metric.",
            "metrics.",
            "kafka.metrics.",
            "telemetry.",
        ),
        "metrics are served for Prometheus",
    ),
    (
        (
            "log.retention.hours",
            "log.retention.minutes",
            "log.roll.hours",
            "log.roll.jitter.hours",
            "log.dir",
            "cordoned.log.dirs",
            "log.flush.scheduler.",
            "log.flush.start.",
            "log.dir.failure.",
        ),
        "another setting has it, or it is about several data folders, or a constant here",
    ),
    (
        (
            "share.coordinator.",
            "group.share.",
            "group.streams.",
            "group.coordinator.",
            "group.consumer.",
            "offsets.",
            "transaction.",
            "share.",
        ),
        "an internal of Kafka's coordinators, or a bound that is a constant here",
    ),
    (
        (
            "create.topic.policy.",
            "alter.config.policy.",
            "config.providers",
            "early.start.",
            "listener.",
        ),
        "there are no plug-ins, and one listener",
    ),
    (
        (
            "add.partitions.",
            "connection.failed.",
            "delete.records.",
            "fetch.",
            "max.incremental.",
            "max.request.",
            "producer.",
            "queued.",
            "request.",
            "socket.",
        ),
        "a bound or an interval that is a constant here",
    ),
)
"""Settings of Kafka's that this broker does not have, by how their names begin, and why."""


def absence(name: str) -> str | None:
    """Why there is no such setting although Kafka has it; None for a name that nobody knows."""
    for beginnings, reason in ABSENT:
        if any(matches(beginning, name) for beginning in beginnings):
            return reason
    return None


def matches(beginning: str, name: str) -> bool:
    """Whether a name is meant: one that ends with a dot is the beginning of others."""
    return name.startswith(beginning) if beginning.endswith(".") else name == beginning


ABSENT_OF_GROUPS: Final = {
    "share.assignment.interval.ms": "an assignment is made when it is needed, at once",
}
"""Settings of Kafka's groups that groups do not have here, and why; to set one is refused."""

"""The reference page of Kafka's APIs: which versions are served, and what differs.

`python -m goqueue.protocols.kafka.api_reference > docs/reference/kafka-apis.md`; a test holds
the page to it. The versions are those that the handlers declare; `_NOTES` says what a version
number cannot.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from goqueue.protocols.kafka import families
from goqueue.protocols.kafka.cluster.api_versions import ApiVersionsApi
from goqueue.protocols.kafka.cluster.features import FEATURES
from goqueue.protocols.kafka.registry import ApiKey, ApiSpec, declared_specs
from goqueue.protocols.kafka.share import families as share_families
from goqueue.wire.kafka.schemas import OWN_FROM, versions

if TYPE_CHECKING:
    from collections.abc import Iterator


_INTRODUCTION: Final = """\
# Kafka's APIs

Every API of Apache Kafka 4.3, with the versions that this broker serves; made from the broker's own
declarations. *Served* means that it behaves as in Kafka, unless the last column says otherwise.
APIs from 20001 on are GoQueue's own; those *between nodes* are served on the internal listener of a
cluster only. *Refused* means that the request is understood and always answered with an error.
An API that is *not served* is not advertised either: clients do not call it, and the connection of
one that does is closed, as Kafka does with an API that it does not know.

[Kafka clients](../how-to/kafka.md) describes how consumers, producers and share groups differ.

## APIs
"""

_FEATURES: Final = """\
## Features

The features in the response to ApiVersions. The levels belong to the release:
`UpdateFeatures` accepts the level that is in force and refuses all others.

| feature | supported | finalized |
| --- | --- | --- |\
"""

_BETWEEN_NODES: Final = "between brokers and controllers, never called by clients"
_RULES: Final = (
    "`SECURITY_DISABLED` unless `auth.enabled` is set ([rights](../how-to/security.md#rights))"
)
_TOKENS: Final = "delegation tokens do not exist here"
_OWN_FIELDS: Final = (
    "has tagged fields from 10000 on for queue groups, which only clients that send theirs get"
)
_TELEMETRY: Final = "client metrics are not collected; clients go on without"

_NOTES: Final[dict[int, str]] = {
    ApiKey.PRODUCE: "advertised from 0, as Kafka does, since old clients look for that; versions "
    "0 to 2 are not served",
    ApiKey.FETCH: "for consumers; replicas fetch over the internal listener, and are refused here",
    ApiKey.INIT_PRODUCER_ID: "version 6 (two-phase commit) is not finished in Kafka either",
    ApiKey.DESCRIBE_ACLS: _RULES,
    ApiKey.CREATE_ACLS: _RULES,
    ApiKey.DELETE_ACLS: _RULES,
    ApiKey.ALTER_REPLICA_LOG_DIRS: "a broker has one data folder",
    ApiKey.ELECT_LEADERS: "of preferred leaders; on a single node `ELECTION_NOT_NEEDED`",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "replicas cannot be moved yet; a single node accepts an "
    "assignment to itself",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "none is ever in progress",
    ApiKey.ALTER_CLIENT_QUOTAS: "of users and client ids, not of `ip`; `request_rate` is ours",
    ApiKey.SHARE_GROUP_HEARTBEAT: _OWN_FIELDS,
    ApiKey.SHARE_FETCH: _OWN_FIELDS,
    ApiKey.SHARE_ACKNOWLEDGE: _OWN_FIELDS,
    ApiKey.DESCRIBE_QUORUM: "the nodes, led by the controller; offsets are revisions of the "
    "metadata store",
    ApiKey.UPDATE_FEATURES: "levels belong to the release and cannot be changed",
    ApiKey.LIST_CONFIG_RESOURCES: "loggers and client metrics have no settings here, so none are "
    "listed",
    ApiKey.DESCRIBE_CONFIGS: "[Kafka's settings](kafka-settings.md)",
    ApiKey.ALTER_CONFIGS: "[Kafka's settings](kafka-settings.md)",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "[Kafka's settings](kafka-settings.md); an unknown setting "
    "of the broker is refused, where Kafka stores it",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "at most 2000 partitions a page",
    ApiKey.COMMIT_TOGETHER: "our own: ends the transactions of a batch in one decision",
    ApiKey.HELLO: "between nodes: proves that a node knows the cluster's secret",
    ApiKey.LOG_ENDS: "between nodes: how far the logs of a node's replicas reach",
    ApiKey.READ_BATCHES: "between nodes: stored batches, for a replica whose own are damaged",
    ApiKey.FIND_PRODUCERS: "between nodes: which producers a coordinator of transactions knows",
    ApiKey.SHARE_TURN: "between nodes: what a share consumer did and wants at a leader",
    ApiKey.CALL_GRPC: "between nodes: a call of the gRPC API that another node serves",
    ApiKey.HAND_OVER: "between nodes: messages that another node moves to a partition",
    ApiKey.FIND_BATCHES: "between nodes: which of them are in its committed log",
    ApiKey.VIEW_REACHED: "between nodes: whether a node has seen a change of the metadata",
    ApiKey.STATE_APPLIED: "between nodes: whether a node has what another one has stored",
    ApiKey.BACKUP_PART: "between nodes: a node's part in a backup or a restore",
    ApiKey.TRACE_EVENTS: "between nodes: what happened to messages that another node traces",
    ApiKey.FIND_RESTS: "between nodes: whether batches of which a part is delayed were stored",
    ApiKey.PARTITION_FIGURES: "between nodes: sizes and ends of what a node leads",
    ApiKey.WATCH_SOURCES: "between nodes: how far partitions can be read that queues read",
    ApiKey.SETTLE_RECEIPTS: "between nodes: receipts of queue groups that the node keeps",
    ApiKey.CALL_HTTP: "our own: [a request of the HTTP API](http.md#over-a-kafka-connection), for "
    "clients that know the Kafka address only",
    38: _TOKENS,
    39: _TOKENS,
    40: _TOKENS,
    41: _TOKENS,
    52: _BETWEEN_NODES,
    53: _BETWEEN_NODES,
    54: _BETWEEN_NODES,
    56: _BETWEEN_NODES,
    58: _BETWEEN_NODES,
    59: _BETWEEN_NODES,
    62: _BETWEEN_NODES,
    63: _BETWEEN_NODES,
    64: "nodes cannot be removed from a cluster yet",
    67: _BETWEEN_NODES,
    70: _BETWEEN_NODES,
    71: _TELEMETRY,
    72: _TELEMETRY,
    73: _BETWEEN_NODES,
    80: "nodes cannot be added or removed yet",
    81: "nodes cannot be added or removed yet",
    82: _BETWEEN_NODES,
    83: _BETWEEN_NODES,
    84: _BETWEEN_NODES,
    85: _BETWEEN_NODES,
    86: _BETWEEN_NODES,
    87: _BETWEEN_NODES,
    ApiKey.STREAMS_GROUP_HEARTBEAT: "standbys, no warm-up tasks; no static members and no source "
    "topics by pattern, as in Kafka",
}


def reference() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_api_rows(), "", _FEATURES, *_feature_rows(), ""])


def served_specs() -> dict[int, ApiSpec]:
    """What every family of handlers declares, by the number of the API."""
    modules = (families, share_families)
    homes = [each for module in modules for each in vars(module).values()]
    classes = [each for each in homes if isinstance(each, type)]
    found = (spec for each in (*classes, ApiVersionsApi) for spec in declared_specs(each))
    return {spec.key: spec for spec in found}


def _api_rows() -> Iterator[str]:
    served = served_specs()
    yield "| key | API | Kafka 4.3 | here | | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for key in sorted(ApiKey):
        spec = served.get(key)
        theirs = "" if key >= OWN_FROM else _range(versions(key)[0], versions(key)[-1])
        ours = "" if spec is None else _range(spec.first_version, spec.last_version)
        name = _camel(key.name)
        cells = (str(key), name, theirs, ours, _status(key, spec), _NOTES.get(key, ""))
        yield f"| {' | '.join(cells)} |"


def _status(key: int, spec: ApiSpec | None) -> str:
    if spec is None:
        return "not served"
    return "served"


def _feature_rows() -> Iterator[str]:
    for each in FEATURES:
        supported = _range(each.min_version, each.max_version)
        yield f"| `{each.name}` | {supported} | {each.finalised_version} |"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.lower().split("_"))


if __name__ == "__main__":
    sys.stdout.write(reference())

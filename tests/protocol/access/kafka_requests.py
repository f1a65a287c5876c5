"""One request for each API of Kafka's protocol, in its last version, and who may send it.

p is the role producer, c consumer, r readonly; the role admin may send all. A request that is
allowed may still fail for other reasons, such as a member that is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.schemas import schema_of

if TYPE_CHECKING:
    from goqueue.wire.kafka.schema import Schema
    from support.guarded import Things

_FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "nothing",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def requests_of(things: Things) -> dict[ApiKey, tuple[str, dict[str, Any]]]:
    """Who may send a request of each API, and its fields."""
    key = ApiKey
    topic, group, name = things.topic, things.group, things.transactional_id
    topic_id = things.topic_id
    producer = {
        "producer_id": things.producer.producer_id,
        "producer_epoch": things.producer.epoch,
    }
    groups = {"group_id": group, "member_id": "m"}
    acl = {
        "resource_type": 2,
        "resource_name": topic,
        "resource_pattern_type": 3,
        "principal": "User:somebody",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return {
        key.LIST_OFFSETS: (
            "pcr",
            {
                "replica_id": -1,
                "topics": [
                    {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}
                ],
            },
        ),
        key.METADATA: (
            "pcr",
            {
                "topics": [{"name": topic, "topic_id": None}],
                "allow_auto_topic_creation": False,
            },
        ),
        key.OFFSET_COMMIT: (
            "-c-",
            {
                **groups,
                "topics": [
                    {
                        "topic_id": topic_id,
                        "partitions": [{"partition_index": 0, "committed_offset": 0}],
                    }
                ],
            },
        ),
        key.OFFSET_FETCH: (
            "-cr",
            {"groups": [{"group_id": group, "topics": None}], "require_stable": False},
        ),
        key.FIND_COORDINATOR: ("-cr", {"key_type": 0, "coordinator_keys": [group]}),
        key.JOIN_GROUP: (
            "-c-",
            {
                **groups,
                "session_timeout_ms": 10_000,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
        ),
        key.HEARTBEAT: ("-c-", {**groups, "generation_id": 1}),
        key.LEAVE_GROUP: ("-c-", {"group_id": group, "members": [{"member_id": "m"}]}),
        key.SYNC_GROUP: ("-c-", {**groups, "generation_id": 1, "assignments": []}),
        key.DESCRIBE_GROUPS: ("-cr", {"groups": [group]}),
        key.LIST_GROUPS: ("pcr", {}),
        key.CREATE_TOPICS: (
            "---",
            {
                "topics": [
                    {
                        "name": f"{topic}-made",
                        "num_partitions": 1,
                        "replication_factor": 1,
                        "assignments": [],
                        "configs": [],
                    }
                ],
                "timeout_ms": 1000,
            },
        ),
        key.DELETE_TOPICS: (
            "---",
            {"topics": [{"name": "nothing", "topic_id": None}], "timeout_ms": 1000},
        ),
        key.DELETE_RECORDS: (
            "---",
            {
                "topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}],
                "timeout_ms": 1000,
            },
        ),
        key.INIT_PRODUCER_ID: (
            "p--",
            {"transactional_id": None, "transaction_timeout_ms": 60_000},
        ),
        key.OFFSET_FOR_LEADER_EPOCH: (
            "pcr",
            {
                "replica_id": -1,
                "topics": [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}],
            },
        ),
        key.ADD_PARTITIONS_TO_TXN: (
            "p--",
            {
                "transactions": [
                    {
                        "transactional_id": name,
                        **producer,
                        "verify_only": False,
                        "topics": [{"name": topic, "partitions": [0]}],
                    }
                ]
            },
        ),
        key.ADD_OFFSETS_TO_TXN: (
            "---",
            {"transactional_id": name, **producer, "group_id": group},
        ),
        key.END_TXN: ("p--", {"transactional_id": name, **producer, "committed": False}),
        key.WRITE_TXN_MARKERS: (
            "---",
            {
                "markers": [
                    {
                        **producer,
                        "transaction_result": False,
                        "topics": [{"name": topic, "partition_indexes": [0]}],
                        "coordinator_epoch": 0,
                    }
                ]
            },
        ),
        key.TXN_OFFSET_COMMIT: (
            "---",
            {
                "transactional_id": name,
                **groups,
                **producer,
                "topics": [
                    {
                        "name": topic,
                        "partitions": [{"partition_index": 0, "committed_offset": 0}],
                    }
                ],
            },
        ),
        key.DESCRIBE_ACLS: ("---", _FILTER),
        key.CREATE_ACLS: ("---", {"creations": [acl]}),
        key.DELETE_ACLS: ("---", {"filters": [_FILTER]}),
        key.DESCRIBE_CONFIGS: (
            "pcr",
            {"resources": [{"resource_type": 2, "resource_name": topic}]},
        ),
        key.ALTER_CONFIGS: (
            "---",
            {"resources": [{"resource_type": 2, "resource_name": topic, "configs": []}]},
        ),
        key.INCREMENTAL_ALTER_CONFIGS: (
            "---",
            {"resources": [{"resource_type": 2, "resource_name": topic, "configs": []}]},
        ),
        key.DESCRIBE_LOG_DIRS: ("---", {"topics": None}),
        key.CREATE_PARTITIONS: (
            "---",
            {"topics": [{"name": topic, "count": 3, "assignments": None}], "timeout_ms": 1000},
        ),
        key.DELETE_GROUPS: ("---", {"groups_names": ["nothing"]}),
        key.ELECT_LEADERS: (
            "---",
            {
                "election_type": 0,
                "topic_partitions": [{"topic": topic, "partitions": [0]}],
                "timeout_ms": 1000,
            },
        ),
        key.ALTER_PARTITION_REASSIGNMENTS: ("---", {"timeout_ms": 1000, "topics": []}),
        key.LIST_PARTITION_REASSIGNMENTS: ("---", {"timeout_ms": 1000, "topics": None}),
        key.OFFSET_DELETE: (
            "---",
            {
                "group_id": group,
                "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}],
            },
        ),
        key.DESCRIBE_CLIENT_QUOTAS: ("---", {"components": [], "strict": False}),
        key.ALTER_CLIENT_QUOTAS: (
            "---",
            {
                "entries": [
                    {"entity": [{"entity_type": "user", "entity_name": "x"}], "ops": []},
                ],
                "validate_only": True,
            },
        ),
        key.DESCRIBE_USER_SCRAM_CREDENTIALS: ("---", {"users": None}),
        key.ALTER_USER_SCRAM_CREDENTIALS: (
            "---",
            {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []},
        ),
        key.DESCRIBE_QUORUM: (
            "---",
            {
                "topics": [
                    {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
                ]
            },
        ),
        key.UPDATE_FEATURES: ("---", {"timeout_ms": 1000, "feature_updates": []}),
        key.DESCRIBE_CLUSTER: ("pcr", {}),
        key.DESCRIBE_PRODUCERS: (
            "-c-",
            {"topics": [{"name": topic, "partition_indexes": [0]}]},
        ),
        key.DESCRIBE_TRANSACTIONS: ("p--", {"transactional_ids": [name]}),
        key.LIST_TRANSACTIONS: ("pcr", {}),
        key.CONSUMER_GROUP_HEARTBEAT: (
            "-c-",
            {**groups, "member_epoch": 0, "subscribed_topic_names": [topic]},
        ),
        key.CONSUMER_GROUP_DESCRIBE: ("-cr", {"group_ids": [group]}),
        key.LIST_CONFIG_RESOURCES: ("---", {"resource_types": []}),
        key.DESCRIBE_TOPIC_PARTITIONS: (
            "pcr",
            {"topics": [{"name": topic}], "response_partition_limit": 10, "cursor": None},
        ),
        key.SHARE_GROUP_HEARTBEAT: (
            "-c-",
            {**groups, "member_epoch": 0, "subscribed_topic_names": [topic]},
        ),
        key.SHARE_GROUP_DESCRIBE: ("-cr", {"group_ids": [group]}),
        key.SHARE_FETCH: (
            "-c-",
            {
                **groups,
                "share_session_epoch": 0,
                "max_wait_ms": 0,
                "min_bytes": 0,
                "topics": [
                    {"topic_id": topic_id, "partitions": [{"partition_index": 0}]},
                ],
                "forgotten_topics_data": [],
            },
        ),
        key.SHARE_ACKNOWLEDGE: (
            "-c-",
            {**groups, "share_session_epoch": 1, "topics": []},
        ),
        key.STREAMS_GROUP_HEARTBEAT: ("-c-", {**groups, "member_epoch": 1}),
        key.STREAMS_GROUP_DESCRIBE: ("-cr", {"group_ids": [group]}),
        key.DESCRIBE_SHARE_GROUP_OFFSETS: (
            "-cr",
            {"groups": [{"group_id": group, "topics": None}]},
        ),
        key.ALTER_SHARE_GROUP_OFFSETS: (
            "-c-",
            {
                "group_id": "nothing",
                "topics": [
                    {
                        "topic_name": topic,
                        "partitions": [{"partition_index": 0, "start_offset": 99}],
                    }
                ],
            },
        ),
        key.DELETE_SHARE_GROUP_OFFSETS: (
            "---",
            {"group_id": group, "topics": [{"topic_name": topic}]},
        ),
        key.COMMIT_TOGETHER: (
            "p--",
            {
                "series": name,
                "number": 1,
                "committed": False,
                "keep_ms": 1000,
                "members": [{"transactional_id": f"{name}::1", **producer}],
            },
        ),
    }


def first_requests_of(things: Things) -> dict[ApiKey, tuple[str, dict[str, Any]]]:
    """The same in the first version of each API, some of which have other fields."""
    found = requests_of(things)
    partitions = [{"name": things.topic, "partitions": [0]}]
    others: dict[ApiKey, dict[str, Any]] = {
        ApiKey.OFFSET_FETCH: {
            "group_id": things.group,
            "topics": [{"name": things.topic, "partition_indexes": [0]}],
        },
        ApiKey.DELETE_TOPICS: {"topic_names": ["nothing"], "timeout_ms": 1000},
        ApiKey.ADD_PARTITIONS_TO_TXN: {
            "v3_and_below_transactional_id": things.transactional_id,
            "v3_and_below_producer_id": things.producer.producer_id,
            "v3_and_below_producer_epoch": things.producer.epoch,
            "v3_and_below_topics": partitions,
        },
    }
    return {key: (letters, others.get(key, fields)) for key, (letters, fields) in found.items()}


def filled(key: ApiKey, version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """A request with every field that was left out."""
    return _filled(schema_of(key, version, "request"), fields)


def _filled(schema: Schema, fields: dict[str, Any]) -> dict[str, Any]:
    whole = {field.name: field.default for field in schema.fields if field.tag is None}
    for name, value in fields.items():
        field = schema.by_name.get(name)
        inner = None if field is None else field.schema
        if inner is not None and isinstance(value, list):
            whole[name] = [_filled(inner, each) for each in value]
        else:
            whole[name] = value
    return whole

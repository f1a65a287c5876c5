"""Every metric there is. A dashboard or an alert may name these and nothing else.

The label `node_id` is on all of them. `partition` is last on those that have it, and left out
unless the settings turn it on. Fetches of the Kafka protocol do not name a group, so
`consumer_group` is empty there.
"""

from __future__ import annotations

from typing import Final

from goqueue.metrics.cluster_names import OF_CLUSTERS
from goqueue.metrics.kinds import (
    BATCH_BUCKETS,
    Combine,
    CounterName,
    Definition,
    GaugeName,
    HistogramName,
)
from goqueue.metrics.security_names import OF_SECURITY
from goqueue.metrics.webhook_names import OF_WEBHOOKS

_TOPIC: Final = ("topic",)
_GROUP: Final = ("consumer_group",)
_BOTH: Final = ("topic", "consumer_group")
_PARTITION: Final = ("topic", "partition")

# --- broker: requests of clients

MESSAGES_PUBLISHED: Final = CounterName(
    "broker_messages_published_total", "Messages appended for producers.", _TOPIC
)
MESSAGES_FETCHED: Final = CounterName(
    "broker_messages_fetched_total",
    "Messages returned to clients; a message counts each time it is read.",
    _TOPIC,
)
MESSAGES_CONSUMED: Final = CounterName(
    "broker_messages_consumed_total",
    "Messages consumed by a group: delivered to members of a queue group, or passed by the commits "
    "of a log group.",
    _BOTH,
)
MESSAGES_FAILED: Final = CounterName(
    "broker_messages_failed_total",
    "Messages refused, by the class of the error.",
    ("topic", "error_type"),
)
MESSAGES_ACKED: Final = CounterName(
    "broker_messages_acked_total", "Messages acknowledged by members of queue groups.", _BOTH
)
MESSAGES_NACKED: Final = CounterName(
    "broker_messages_nacked_total", "Messages nacked by members, to be redelivered.", _BOTH
)
MESSAGES_REJECTED: Final = CounterName(
    "broker_messages_rejected_total", "Messages rejected by members, to be dead-lettered.", _BOTH
)
MESSAGES_EXPIRED: Final = CounterName(
    "broker_messages_expired_total",
    "Messages whose TTL expired before they were delivered.",
    _TOPIC,
)
DEAD_LETTERS: Final = CounterName(
    "broker_dead_letters_total", "Messages dead-lettered, by reason.", (*_BOTH, "reason")
)
VISIBILITY_TIMEOUTS: Final = CounterName(
    "broker_visibility_timeouts_total", "Deliveries whose visibility timeout expired.", _BOTH
)
DEAD_LETTERS_REDRIVEN: Final = CounterName(
    "broker_dead_letters_redriven_total", "Dead letters redriven, by their original topic.", _TOPIC
)
ACK_LATENCY: Final = HistogramName(
    "broker_ack_latency_seconds", "Acknowledgement persist latency.", ("topic", "ack_type")
)
BYTES_PUBLISHED: Final = CounterName(
    "broker_bytes_published_total", "Bytes of batches appended, as sent by producers.", _TOPIC
)
BYTES_CONSUMED: Final = CounterName(
    "broker_bytes_consumed_total", "Bytes of batches returned to consumers.", _TOPIC
)
PRIORITY_PUBLISHED: Final = CounterName(
    "broker_priority_messages_published_total",
    "Messages published by priority; batches without a priority header are not counted.",
    ("topic", "priority"),
)
DELAYED_SCHEDULED: Final = CounterName(
    "broker_delayed_messages_scheduled_total", "Messages accepted for delayed delivery.", _TOPIC
)
DELAYED_FIRED: Final = CounterName(
    "broker_delayed_messages_fired_total",
    "Delayed messages delivered to their topic when due.",
    _TOPIC,
)
DELAYED_PENDING: Final = GaugeName(
    "broker_delayed_messages_pending", "Delayed messages that are not due yet.", _TOPIC
)
PUBLISH_LATENCY: Final = HistogramName(
    "broker_publish_latency_seconds", "Publish latency, fsync included.", _TOPIC
)
FETCH_LATENCY: Final = HistogramName(
    "broker_fetch_latency_seconds", "Time spent reading for a fetch, without the wait for data."
)
TRANSACTIONS_STARTED: Final = CounterName(
    "broker_transactions_started_total", "Transactions started by producers."
)
TRANSACTIONS_COMMITTED: Final = CounterName(
    "broker_transactions_committed_total", "Transactions committed."
)
TRANSACTIONS_ABORTED: Final = CounterName(
    "broker_transactions_aborted_total", "Transactions aborted, by producers or the broker."
)
TRANSACTION_LATENCY: Final = HistogramName(
    "broker_transaction_latency_seconds", "Transaction duration, to the last marker."
)
SCHEMA_VALIDATIONS: Final = CounterName(
    "broker_schema_validations_total",
    "Messages validated against a schema, by result: valid or invalid.",
    ("topic", "result"),
)
SCHEMA_VALIDATION_LATENCY: Final = HistogramName(
    "broker_schema_validation_latency_seconds", "Time to validate a batch against its schemas."
)
ACTIVE_CONNECTIONS: Final = GaugeName(
    "broker_active_connections",
    "Open client connections, without gRPC, whose library does not report them.",
    ("protocol",),
)
ACTIVE_CONSUMERS: Final = GaugeName(
    "broker_active_consumers", "Members of all groups on this node."
)
TOPIC_COUNT: Final = GaugeName("broker_topic_count", "Topics, including internal ones.")
TOPIC_PARTITIONS: Final = GaugeName("broker_topic_partitions", "Partitions of a topic.", _TOPIC)
TOPIC_MESSAGES: Final = GaugeName(
    "broker_topic_messages",
    "Messages stored of a topic; what compaction has removed counts, delayed messages do not.",
    _TOPIC,
)

# --- storage: logs on disk

BYTES_WRITTEN: Final = CounterName("storage_bytes_written_total", "Bytes appended to logs.", _TOPIC)
BYTES_READ: Final = CounterName("storage_bytes_read_total", "Bytes read from logs.", _TOPIC)
FSYNCS: Final = CounterName("storage_fsync_total", "Fsyncs of logs.")
FSYNC_LATENCY: Final = HistogramName("storage_fsync_latency_seconds", "Fsync latency.")
FSYNC_ERRORS: Final = CounterName(
    "storage_fsync_errors_total", "Failed fsyncs; the log refuses appends until it has recovered."
)
SEGMENTS_ACTIVE: Final = GaugeName(
    "storage_segments_active", "Active segments, one per partition.", _TOPIC
)
SEGMENTS: Final = GaugeName("storage_segments_total", "Segments on the disk.", _TOPIC)
SEGMENTS_CREATED: Final = CounterName("storage_segments_created_total", "Segments created.", _TOPIC)
SEGMENTS_DELETED: Final = CounterName("storage_segments_deleted_total", "Segments deleted.", _TOPIC)
LOG_SIZE: Final = GaugeName(
    "storage_log_size_bytes", "Size of a log on disk, in bytes.", _PARTITION, per_partition=True
)
LOG_END_OFFSET: Final = GaugeName(
    "storage_log_end_offset",
    "Log end offset: the offset of the next message.",
    _PARTITION,
    per_partition=True,
)
LOG_START_OFFSET: Final = GaugeName(
    "storage_log_start_offset",
    "Log start offset: the oldest offset that is retained.",
    _PARTITION,
    per_partition=True,
)
INDEX_LOOKUPS: Final = CounterName(
    "storage_index_lookups_total", "Index lookups, by offset or by time.", ("topic", "index_type")
)
INDEX_LOOKUP_LATENCY: Final = HistogramName(
    "storage_index_lookup_latency_seconds", "Index lookup latency.", ("index_type",)
)
INDEX_REBUILDS: Final = CounterName(
    "storage_index_rebuilds_total", "Indexes rebuilt from their segment.", _TOPIC
)
COMPACTION_RUNS: Final = CounterName(
    "storage_compaction_runs_total", "Compactions of a log.", _TOPIC
)
COMPACTION_LATENCY: Final = HistogramName(
    "storage_compaction_latency_seconds", "Duration of a compaction."
)
COMPACTION_BYTES_RECLAIMED: Final = CounterName(
    "storage_compaction_bytes_reclaimed_total", "Bytes reclaimed by compaction.", _TOPIC
)
COMPACTION_DIRTY_RATIO: Final = GaugeName(
    "storage_compaction_dirty_ratio",
    "Share of a log written since its last compaction; for a topic, the largest of its partitions.",
    _PARTITION,
    per_partition=True,
    combine=Combine.MAX,
)
SNAPSHOTS_CREATED: Final = CounterName(
    "storage_snapshots_created_total", "Snapshots of coordinator state written.", ("snapshot_type",)
)
SNAPSHOT_SIZE: Final = GaugeName(
    "storage_snapshot_size_bytes", "Size of the newest snapshots, in bytes.", ("snapshot_type",)
)
SNAPSHOT_LATENCY: Final = HistogramName(
    "storage_snapshot_latency_seconds", "Duration of a snapshot.", ("snapshot_type",)
)
DAMAGE_FOUND: Final = CounterName(
    "storage_damage_found_total",
    "Damage found in stored data, by kind: records, undecodable, snapshot, state or delay_slot.",
    ("kind",),
)
DISK_USED: Final = GaugeName(
    "storage_disk_used_bytes", "Used bytes of the disk that holds the data folder."
)
DISK_TOTAL: Final = GaugeName(
    "storage_disk_total_bytes", "Size of the disk that holds the data folder, in bytes."
)
DISK_FREE: Final = GaugeName(
    "storage_disk_free_bytes", "Free bytes of that disk that this process may use."
)
CLOCK_JUMP: Final = GaugeName(
    "storage_clock_jump_seconds",
    "Size of the wall clock jump that has stopped retention and TTL; 0 when there is none.",
)

# --- process: the process of the broker and its event loop

LOOP_LAG: Final = HistogramName(
    "process_loop_lag_seconds", "Event loop lag, sampled ten times a second."
)
LOOP_LAG_WORST: Final = GaugeName(
    "process_loop_lag_worst_seconds",
    "Worst event loop lag in the last 30 to 60 seconds.",
    combine=Combine.MAX,
)
GC_PAUSE: Final = HistogramName(
    "process_gc_pause_seconds", "Garbage collection pauses.", ("generation",)
)
THREADS: Final = GaugeName(
    "process_threads", "Threads of the process, including those of libraries."
)

# --- consumer: groups

COMMITTED_OFFSET: Final = GaugeName(
    "consumer_committed_offset",
    "Committed offset of a group.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
LAG: Final = GaugeName(
    "consumer_lag",
    "Messages between the committed offset and the log end offset; without a commit, from the log "
    "start offset.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
UNCOMMITTED_LAG: Final = GaugeName(
    "consumer_uncommitted_lag",
    "The part of consumer_lag in partitions without a committed offset: an upper bound.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
OLDEST_AGE: Final = GaugeName(
    "consumer_oldest_unacked_age_seconds",
    "Age of the oldest unconsumed or unacknowledged message of a group; 0 when there is none.",
    _BOTH,
    combine=Combine.MAX,
)
TIME_TO_DRAIN: Final = GaugeName(
    "consumer_time_to_drain_seconds",
    "Estimated time to catch up, by lag and the rates of the last minute; +Inf when never.",
    _BOTH,
    combine=Combine.MAX,
)
IN_FLIGHT: Final = GaugeName(
    "consumer_messages_in_flight",
    "Messages delivered to members of a queue group and not acknowledged.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
RETRIES_WAITING: Final = GaugeName(
    "consumer_retries_waiting",
    "Messages of a queue group that wait for their retry back-off before redelivery.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
OFFSET_COMMITS: Final = CounterName("consumer_offset_commits_total", "Offsets committed.", _BOTH)
OFFSET_COMMIT_LATENCY: Final = HistogramName(
    "consumer_offset_commit_latency_seconds", "Offset commit latency."
)
OFFSET_COMMIT_ERRORS: Final = CounterName(
    "consumer_offset_commit_errors_total",
    "Offset commits refused, by the class of the error; unknown groups share an empty name.",
    ("consumer_group", "error_type"),
)
GROUP_MEMBERS: Final = GaugeName("consumer_group_members", "Members of a group.", _GROUP)
GROUP_GENERATION: Final = GaugeName(
    "consumer_group_generation", "The group's generation.", _GROUP, combine=Combine.MAX
)
GROUP_STATE: Final = GaugeName(
    "consumer_group_state", "1 for the current state of the group.", ("consumer_group", "state")
)
ASSIGNED_PARTITIONS: Final = GaugeName(
    "consumer_assigned_partitions", "Partitions assigned to members of a group.", _GROUP
)
REBALANCES: Final = CounterName(
    "consumer_rebalances_total", "Rebalances started.", ("consumer_group", "trigger")
)
REBALANCE_LATENCY: Final = HistogramName(
    "consumer_rebalance_latency_seconds",
    "Rebalance duration, from trigger to stable group, by group protocol.",
    ("rebalance_type",),
)
PARTITIONS_REVOKED: Final = CounterName(
    "consumer_partitions_revoked_total", "Partitions revoked from members.", _GROUP
)
PARTITIONS_ASSIGNED: Final = CounterName(
    "consumer_partitions_assigned_total", "Partitions assigned to members.", _GROUP
)
GROUP_JOINS: Final = CounterName("consumer_group_joins_total", "Members that joined.", _GROUP)
GROUP_LEAVES: Final = CounterName(
    "consumer_group_leaves_total",
    "Members that left or were removed, by reason.",
    ("consumer_group", "reason"),
)
HEARTBEATS: Final = CounterName(
    "consumer_heartbeats_sent_total", "Heartbeats received from members.", _GROUP
)
HEARTBEAT_LATENCY: Final = HistogramName("consumer_heartbeat_latency_seconds", "Heartbeat latency.")
HEARTBEAT_TIMEOUTS: Final = CounterName(
    "consumer_heartbeat_timeouts_total", "Members removed by the rebalance timeout.", _GROUP
)
SESSION_TIMEOUTS: Final = CounterName(
    "consumer_session_timeouts_total", "Members removed because their session timed out.", _GROUP
)
POLLS: Final = CounterName("consumer_polls_total", "Polls of consumers.")
POLLS_EMPTY: Final = CounterName("consumer_polls_empty_total", "Polls that returned no message.")
POLL_LATENCY: Final = HistogramName(
    "consumer_poll_latency_seconds", "Poll latency, including the wait for data."
)
POLL_BATCH_SIZE: Final = HistogramName(
    "consumer_poll_batch_size", "Messages returned by one poll.", buckets=BATCH_BUCKETS
)

# --- cluster: nodes and the partitions that they lead

NODES: Final = GaugeName("cluster_nodes_total", "Nodes of the cluster.")
NODES_HEALTHY: Final = GaugeName(
    "cluster_nodes_healthy", "Nodes that are ready and have no failed partition."
)
NODE_STATE: Final = GaugeName(
    "cluster_node_state",
    "1 for the current state of the node, 0 for others: ready, degraded, read_only or stopping.",
    ("state",),
)
IS_CONTROLLER: Final = GaugeName("cluster_is_controller", "1 when this node is the controller.")
CONTROLLER_AGE: Final = GaugeName(
    "cluster_controller_age_seconds", "How long this node has been the controller."
)
PARTITION_COUNT: Final = GaugeName(
    "cluster_partition_count", "Partitions on this node, including those of internal topics."
)
LEADERS: Final = GaugeName("cluster_leaders_per_node", "Partitions that this node leads.")
OFFLINE_PARTITIONS: Final = GaugeName(
    "cluster_offline_partitions", "Partitions that refuse appends because their log has failed."
)
UNDER_REPLICATED: Final = GaugeName(
    "cluster_under_replicated_partitions",
    "Partitions with fewer in-sync replicas than configured; a failed log is not in sync.",
)
HIGH_WATERMARK: Final = GaugeName(
    "cluster_high_watermark",
    "High watermark: consumers read up to this offset.",
    _PARTITION,
    per_partition=True,
)

# --- metrics: the registry itself

METRICS_SERIES: Final = GaugeName(
    "metrics_series", "Series in one scrape; a histogram counts as one."
)
METRICS_OVERFLOWS: Final = CounterName(
    "metrics_overflows_total",
    "Values counted under `other` because a metric had reached its bound of label sets.",
    ("metric",),
)

ALL: Final[tuple[Definition, ...]] = (
    *(value for value in list(globals().values()) if isinstance(value, Definition)),
    *OF_SECURITY,
    *OF_WEBHOOKS,
    *OF_CLUSTERS,
)

"""Every metric there is. A dashboard or an alert may name these and nothing else.

The label `node_id` is on all of them. `partition` is last on those that have it, and left out
unless the settings turn it on. Fetches of Kafka's protocol do not say which group they are for, so
there `consumer_group` is empty.
"""

from __future__ import annotations

from typing import Final

from goqueue.metrics.kinds import (
    BATCH_BUCKETS,
    Combine,
    CounterName,
    Definition,
    GaugeName,
    HistogramName,
)

_TOPIC: Final = ("topic",)
_GROUP: Final = ("consumer_group",)
_BOTH: Final = ("topic", "consumer_group")
_PARTITION: Final = ("topic", "partition")

# --- broker: what clients asked for and got

MESSAGES_PUBLISHED: Final = CounterName(
    "broker_messages_published_total", "Messages appended for producers.", _TOPIC
)
MESSAGES_FETCHED: Final = CounterName(
    "broker_messages_fetched_total",
    "Messages handed to clients, whoever reads them; a message counts each time.",
    _TOPIC,
)
MESSAGES_CONSUMED: Final = CounterName(
    "broker_messages_consumed_total",
    "Messages consumed by a group: handed to members of a queue group, or passed by the commits of "
    "a log group.",
    _BOTH,
)
MESSAGES_FAILED: Final = CounterName(
    "broker_messages_failed_total",
    "Messages refused, by the class of the error.",
    ("topic", "error_type"),
)
MESSAGES_ACKED: Final = CounterName(
    "broker_messages_acked_total", "Messages that members of queue groups have processed.", _BOTH
)
MESSAGES_NACKED: Final = CounterName(
    "broker_messages_nacked_total", "Messages that members handed back to be tried again.", _BOTH
)
MESSAGES_REJECTED: Final = CounterName(
    "broker_messages_rejected_total", "Messages that members have refused for good.", _BOTH
)
MESSAGES_EXPIRED: Final = CounterName(
    "broker_messages_expired_total", "Messages that outlived themselves undelivered.", _TOPIC
)
DEAD_LETTERS: Final = CounterName(
    "broker_dead_letters_total",
    "Messages put into dead-letter topics, by why they died.",
    (*_BOTH, "reason"),
)
VISIBILITY_TIMEOUTS: Final = CounterName(
    "broker_visibility_timeouts_total",
    "Messages taken back from members that did not acknowledge them in time.",
    _BOTH,
)
DEAD_LETTERS_REDRIVEN: Final = CounterName(
    "broker_dead_letters_redriven_total",
    "Dead letters that were published again, by the topic that they had come from.",
    _TOPIC,
)
ACK_LATENCY: Final = HistogramName(
    "broker_ack_latency_seconds",
    "From a verdict on messages to its being stored.",
    ("topic", "ack_type"),
)
BYTES_PUBLISHED: Final = CounterName(
    "broker_bytes_published_total", "Bytes of batches appended, as the producers sent them.", _TOPIC
)
BYTES_CONSUMED: Final = CounterName(
    "broker_bytes_consumed_total", "Bytes of batches handed to consumers.", _TOPIC
)
PRIORITY_PUBLISHED: Final = CounterName(
    "broker_priority_messages_published_total",
    "Messages by their priority; batches in which none names one are not looked at.",
    ("topic", "priority"),
)
DELAYED_SCHEDULED: Final = CounterName(
    "broker_delayed_messages_scheduled_total", "Messages taken in that are due later.", _TOPIC
)
DELAYED_FIRED: Final = CounterName(
    "broker_delayed_messages_fired_total", "Delayed messages appended when they were due.", _TOPIC
)
DELAYED_PENDING: Final = GaugeName(
    "broker_delayed_messages_pending", "Delayed messages that wait.", _TOPIC
)
PUBLISH_LATENCY: Final = HistogramName(
    "broker_publish_latency_seconds",
    "From the request to the acknowledgement, durability included.",
    _TOPIC,
)
FETCH_LATENCY: Final = HistogramName(
    "broker_fetch_latency_seconds", "Time spent on reading for a fetch; waiting for data is not in."
)
TRANSACTIONS_STARTED: Final = CounterName(
    "broker_transactions_started_total", "Transactions that producers have begun."
)
TRANSACTIONS_COMMITTED: Final = CounterName(
    "broker_transactions_committed_total", "Transactions whose records count."
)
TRANSACTIONS_ABORTED: Final = CounterName(
    "broker_transactions_aborted_total",
    "Transactions whose records nobody sees: aborted by their producers, or by the broker.",
)
TRANSACTION_LATENCY: Final = HistogramName(
    "broker_transaction_latency_seconds", "From the beginning of a transaction to its last marker."
)
SCHEMA_VALIDATIONS: Final = CounterName(
    "broker_schema_validations_total",
    "Messages held against a schema, by the result: valid or invalid.",
    ("topic", "result"),
)
SCHEMA_VALIDATION_LATENCY: Final = HistogramName(
    "broker_schema_validation_latency_seconds",
    "How long it took to hold a batch against its schemas.",
)
ACTIVE_CONNECTIONS: Final = GaugeName(
    "broker_active_connections",
    "Open client connections; those of gRPC are known to its library alone.",
    ("protocol",),
)
ACTIVE_CONSUMERS: Final = GaugeName(
    "broker_active_consumers", "Members of all groups on this node."
)
TOPIC_COUNT: Final = GaugeName("broker_topic_count", "Topics, internal ones included.")
TOPIC_PARTITIONS: Final = GaugeName("broker_topic_partitions", "Partitions of a topic.", _TOPIC)
TOPIC_MESSAGES: Final = GaugeName(
    "broker_topic_messages",
    "Messages stored of a topic; what compaction has removed counts, delayed messages do not.",
    _TOPIC,
)

# --- storage: what the logs did to the disk

BYTES_WRITTEN: Final = CounterName("storage_bytes_written_total", "Bytes appended to logs.", _TOPIC)
BYTES_READ: Final = CounterName("storage_bytes_read_total", "Bytes read from logs.", _TOPIC)
FSYNCS: Final = CounterName("storage_fsync_total", "Times that a log was forced to the disk.")
FSYNC_LATENCY: Final = HistogramName(
    "storage_fsync_latency_seconds", "How long the disk took for it."
)
FSYNC_ERRORS: Final = CounterName(
    "storage_fsync_errors_total", "Times that the disk refused; the log stops until it recovers."
)
SEGMENTS_ACTIVE: Final = GaugeName(
    "storage_segments_active", "Segments that take appends, one a partition.", _TOPIC
)
SEGMENTS: Final = GaugeName("storage_segments_total", "Segments on the disk.", _TOPIC)
SEGMENTS_CREATED: Final = CounterName("storage_segments_created_total", "Segments begun.", _TOPIC)
SEGMENTS_DELETED: Final = CounterName(
    "storage_segments_deleted_total",
    "Segments removed by retention, compaction or request.",
    _TOPIC,
)
LOG_SIZE: Final = GaugeName(
    "storage_log_size_bytes", "Bytes of a log on the disk.", _PARTITION, per_partition=True
)
LOG_END_OFFSET: Final = GaugeName(
    "storage_log_end_offset", "The offset the next message gets.", _PARTITION, per_partition=True
)
LOG_START_OFFSET: Final = GaugeName(
    "storage_log_start_offset", "The oldest offset still kept.", _PARTITION, per_partition=True
)
INDEX_LOOKUPS: Final = CounterName(
    "storage_index_lookups_total", "Searches by offset or by time.", ("topic", "index_type")
)
INDEX_LOOKUP_LATENCY: Final = HistogramName(
    "storage_index_lookup_latency_seconds", "How long such a search took.", ("index_type",)
)
INDEX_REBUILDS: Final = CounterName(
    "storage_index_rebuilds_total", "Indexes made anew from their segment.", _TOPIC
)
COMPACTION_RUNS: Final = CounterName(
    "storage_compaction_runs_total", "Compactions of a log.", _TOPIC
)
COMPACTION_LATENCY: Final = HistogramName(
    "storage_compaction_latency_seconds", "How long a compaction took."
)
COMPACTION_BYTES_RECLAIMED: Final = CounterName(
    "storage_compaction_bytes_reclaimed_total", "Bytes that compactions gave back.", _TOPIC
)
COMPACTION_DIRTY_RATIO: Final = GaugeName(
    "storage_compaction_dirty_ratio",
    "Share of a log that was written since its last compaction; of a topic, the largest.",
    _PARTITION,
    per_partition=True,
    combine=Combine.MAX,
)
SNAPSHOTS_CREATED: Final = CounterName(
    "storage_snapshots_created_total", "Snapshots of state that a log holds.", ("snapshot_type",)
)
SNAPSHOT_SIZE: Final = GaugeName(
    "storage_snapshot_size_bytes", "Bytes of the newest snapshots.", ("snapshot_type",)
)
SNAPSHOT_LATENCY: Final = HistogramName(
    "storage_snapshot_latency_seconds", "How long a snapshot took.", ("snapshot_type",)
)
DAMAGE_FOUND: Final = CounterName(
    "storage_damage_found_total",
    "Places in stored data that were found damaged, by kind: records, undecodable, snapshot, state "
    "or delay_slot.",
    ("kind",),
)
DISK_USED: Final = GaugeName(
    "storage_disk_used_bytes", "Bytes in use on the disk that holds the data folder."
)
DISK_TOTAL: Final = GaugeName(
    "storage_disk_total_bytes", "Bytes of the disk that holds the data folder."
)
DISK_FREE: Final = GaugeName(
    "storage_disk_free_bytes", "Bytes that this process may still write to that disk."
)
CLOCK_JUMP: Final = GaugeName(
    "storage_clock_jump_seconds",
    "How far the wall clock is from where it should be while retention and TTL are stopped by a "
    "jump of it; 0 when there was none.",
)

# --- process: how the broker's own process is

LOOP_LAG: Final = HistogramName(
    "process_loop_lag_seconds", "How late timers of the event loop were, ten times a second."
)
LOOP_LAG_WORST: Final = GaugeName(
    "process_loop_lag_worst_seconds",
    "How late the event loop was at its worst, in the last half minute to minute.",
    combine=Combine.MAX,
)
GC_PAUSE: Final = HistogramName(
    "process_gc_pause_seconds",
    "How long collections of garbage took, in which nothing else runs.",
    ("generation",),
)
THREADS: Final = GaugeName("process_threads", "Threads of the process, those of libraries, too.")

# --- consumer: what groups do

COMMITTED_OFFSET: Final = GaugeName(
    "consumer_committed_offset",
    "The offset a group continues at.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
LAG: Final = GaugeName(
    "consumer_lag",
    "Messages between where a group continues and the end of the log; without a commit it counts "
    "from the log start.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
UNCOMMITTED_LAG: Final = GaugeName(
    "consumer_uncommitted_lag",
    "The part of consumer_lag in partitions that a group has committed nothing of: an upper bound.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
OLDEST_AGE: Final = GaugeName(
    "consumer_oldest_unacked_age_seconds",
    "Age of the oldest message that a group is not done with; 0 when there is none.",
    _BOTH,
    combine=Combine.MAX,
)
TIME_TO_DRAIN: Final = GaugeName(
    "consumer_time_to_drain_seconds",
    "When a group will have nothing left, by its lag and the rates of a minute; +Inf when never.",
    _BOTH,
    combine=Combine.MAX,
)
IN_FLIGHT: Final = GaugeName(
    "consumer_messages_in_flight",
    "Messages that members of a queue group have and have not acknowledged.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
RETRIES_WAITING: Final = GaugeName(
    "consumer_retries_waiting",
    "Messages of a queue group that were handed back and wait to be tried again.",
    ("topic", "consumer_group", "partition"),
    per_partition=True,
)
OFFSET_COMMITS: Final = CounterName("consumer_offset_commits_total", "Offsets committed.", _BOTH)
OFFSET_COMMIT_LATENCY: Final = HistogramName(
    "consumer_offset_commit_latency_seconds", "From the request to the answer of a commit."
)
OFFSET_COMMIT_ERRORS: Final = CounterName(
    "consumer_offset_commit_errors_total",
    "Commits refused, by the class of the error; groups that there are not have no name.",
    ("consumer_group", "error_type"),
)
GROUP_MEMBERS: Final = GaugeName("consumer_group_members", "Members of a group.", _GROUP)
GROUP_GENERATION: Final = GaugeName(
    "consumer_group_generation", "The group's generation.", _GROUP, combine=Combine.MAX
)
GROUP_STATE: Final = GaugeName(
    "consumer_group_state", "1 for the state that the group is in.", ("consumer_group", "state")
)
ASSIGNED_PARTITIONS: Final = GaugeName(
    "consumer_assigned_partitions", "Partitions that members of a group own.", _GROUP
)
REBALANCES: Final = CounterName(
    "consumer_rebalances_total", "Rebalances begun.", ("consumer_group", "trigger")
)
REBALANCE_LATENCY: Final = HistogramName(
    "consumer_rebalance_latency_seconds",
    "From the trigger to a stable group, by the protocol of the group: classic or consumer.",
    ("rebalance_type",),
)
PARTITIONS_REVOKED: Final = CounterName(
    "consumer_partitions_revoked_total", "Partitions taken from members.", _GROUP
)
PARTITIONS_ASSIGNED: Final = CounterName(
    "consumer_partitions_assigned_total", "Partitions given to members.", _GROUP
)
GROUP_JOINS: Final = CounterName("consumer_group_joins_total", "Members that joined.", _GROUP)
GROUP_LEAVES: Final = CounterName(
    "consumer_group_leaves_total", "Members that are gone.", ("consumer_group", "reason")
)
HEARTBEATS: Final = CounterName(
    "consumer_heartbeats_sent_total", "Heartbeats that members sent.", _GROUP
)
HEARTBEAT_LATENCY: Final = HistogramName(
    "consumer_heartbeat_latency_seconds", "From a heartbeat to its answer."
)
HEARTBEAT_TIMEOUTS: Final = CounterName(
    "consumer_heartbeat_timeouts_total",
    "Members dropped for not taking part in a rebalance in time.",
    _GROUP,
)
SESSION_TIMEOUTS: Final = CounterName(
    "consumer_session_timeouts_total", "Members dropped because nothing was heard of them.", _GROUP
)
POLLS: Final = CounterName("consumer_polls_total", "Times that a consumer asked for messages.")
POLLS_EMPTY: Final = CounterName("consumer_polls_empty_total", "Such polls that got none.")
POLL_LATENCY: Final = HistogramName(
    "consumer_poll_latency_seconds", "From a poll to its answer, waiting for data included."
)
POLL_BATCH_SIZE: Final = HistogramName(
    "consumer_poll_batch_size", "Messages handed out by one poll.", buckets=BATCH_BUCKETS
)

# --- cluster: nodes and the partitions that they lead; of a node on its own, itself

NODES: Final = GaugeName("cluster_nodes_total", "Nodes of the cluster.")
NODES_HEALTHY: Final = GaugeName(
    "cluster_nodes_healthy", "Nodes that are ready, and all of whose partitions take messages."
)
NODE_STATE: Final = GaugeName(
    "cluster_node_state",
    "1 for the state that the node is in, 0 for others: ready, degraded, read_only or stopping.",
    ("state",),
)
IS_CONTROLLER: Final = GaugeName(
    "cluster_is_controller", "1 when this node decides about topics and leaders."
)
CONTROLLER_AGE: Final = GaugeName(
    "cluster_controller_age_seconds", "How long this node has decided about them."
)
PARTITION_COUNT: Final = GaugeName(
    "cluster_partition_count", "Partitions on this node, those of internal topics included."
)
LEADERS: Final = GaugeName("cluster_leaders_per_node", "Partitions that this node leads.")
OFFLINE_PARTITIONS: Final = GaugeName(
    "cluster_offline_partitions", "Partitions that take no messages: their log has failed."
)
UNDER_REPLICATED: Final = GaugeName(
    "cluster_under_replicated_partitions",
    "Partitions with fewer replicas in sync than they should have; a failed log is not in sync.",
)
HIGH_WATERMARK: Final = GaugeName(
    "cluster_high_watermark",
    "The offset at which readers stop.",
    _PARTITION,
    per_partition=True,
)

# --- metrics: this very list

METRICS_SERIES: Final = GaugeName(
    "metrics_series", "Series that one scrape shows; the lines of a histogram count as one."
)
METRICS_OVERFLOWS: Final = CounterName(
    "metrics_overflows_total",
    "Values shown as `other`, because a metric had no room for one more set of labels.",
    ("metric",),
)

ALL: Final[tuple[Definition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Definition)
)

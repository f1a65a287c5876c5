"""What a node does, and how its disk is."""
# ruff: noqa: INP001 - scripts beside what they write, not a package

from __future__ import annotations

from typing import Final

from panels import GREEN, RED, YELLOW, Dashboard, Panel, Query, Row
from queries import NODE, NODES, TOPIC, TOPICS, percentile, percentiles, rate

_JOB: Final = 'job="goqueue"'

OVERVIEW: Final = Dashboard(
    uid="goqueue-overview",
    title="GoQueue: overview",
    description="Health, throughput, latency, backlogs and errors: where to look first.",
    choices=[NODES],
    rows=[
        Row(
            "Health",
            [
                Panel(
                    "Nodes that answer",
                    "Targets of the job goqueue that could be scraped.",
                    [Query(f"sum(up{{{_JOB}}})")],
                    kind="stat",
                    steps=[(None, RED), (1, GREEN)],
                    height=4,
                ),
                Panel(
                    "Healthy nodes",
                    "Ready, with a disk that has room and no failed log.",
                    [Query(f"max(goqueue_cluster_nodes_healthy{{{NODE}}})")],
                    kind="stat",
                    steps=[(None, RED), (1, GREEN)],
                    height=4,
                ),
                Panel(
                    "Partitions offline",
                    "They take no messages: their logs have failed.",
                    [Query(f"sum(goqueue_cluster_offline_partitions{{{NODE}}})")],
                    kind="stat",
                    steps=[(None, GREEN), (1, RED)],
                    height=4,
                ),
                Panel(
                    "Disk in use",
                    "Of the disk that holds the data; publishing is refused at 90 %.",
                    [
                        Query(
                            f"max(goqueue_storage_disk_used_bytes{{{NODE}}} "
                            f"/ goqueue_storage_disk_total_bytes{{{NODE}}})"
                        )
                    ],
                    unit="percentunit",
                    kind="stat",
                    steps=[(None, GREEN), (0.8, YELLOW), (0.9, RED)],
                    height=4,
                ),
                Panel(
                    "Messages left",
                    "The lag of all groups together.",
                    [Query(f"sum(goqueue_consumer_lag{{{NODE}}})")],
                    kind="stat",
                    height=4,
                ),
                Panel(
                    "Up for",
                    "Since the process that was started last.",
                    [Query(f"time() - max(process_start_time_seconds{{{_JOB}}})")],
                    unit="s",
                    kind="stat",
                    height=4,
                ),
            ],
        ),
        Row(
            "Throughput",
            [
                Panel(
                    "Messages a second",
                    "Appended for producers, and handed to consumers.",
                    [
                        Query(rate("goqueue_broker_messages_published_total", NODE), "in"),
                        Query(rate("goqueue_broker_messages_fetched_total", NODE), "out"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Bytes a second",
                    "Batches as producers sent them, and as consumers got them.",
                    [
                        Query(rate("goqueue_broker_bytes_published_total", NODE), "in"),
                        Query(rate("goqueue_broker_bytes_consumed_total", NODE), "out"),
                    ],
                    unit="Bps",
                ),
                Panel(
                    "Busiest topics",
                    "Messages a second that are appended.",
                    [
                        Query(
                            "topk(10, "
                            + rate("goqueue_broker_messages_published_total", NODE, "topic")
                            + ")",
                            "{{topic}}",
                        )
                    ],
                    unit="cps",
                    stacked=True,
                ),
            ],
        ),
        Row(
            "Latency",
            [
                Panel(
                    "Publish",
                    "From the request to the acknowledgement, durability included.",
                    percentiles("goqueue_broker_publish_latency_seconds", NODE),
                    unit="s",
                    steps=[(None, GREEN), (0.05, YELLOW), (0.1, RED)],
                ),
                Panel(
                    "Fetch",
                    "Reading for a fetch; waiting for messages is not part of it.",
                    percentiles("goqueue_broker_fetch_latency_seconds", NODE),
                    unit="s",
                    steps=[(None, GREEN), (0.05, RED)],
                ),
                Panel(
                    "Sync",
                    "How long the disk takes to make appends durable.",
                    percentiles("goqueue_storage_fsync_latency_seconds", NODE),
                    unit="s",
                    steps=[(None, GREEN), (0.1, RED)],
                ),
            ],
        ),
        Row(
            "Backlogs and errors",
            [
                Panel(
                    "Messages left, by group",
                    "The ten groups with the most.",
                    [
                        Query(
                            f"topk(10, sum by (consumer_group) (goqueue_consumer_lag{{{NODE}}}))",
                            "{{consumer_group}}",
                        )
                    ],
                ),
                Panel(
                    "Oldest message, by group",
                    "Age of the oldest message that a group is not done with.",
                    [
                        Query(
                            "topk(10, max by (consumer_group) "
                            f"(goqueue_consumer_oldest_unacked_age_seconds{{{NODE}}}))",
                            "{{consumer_group}}",
                        )
                    ],
                    unit="s",
                ),
                Panel(
                    "Refused messages a second",
                    "By the class of the error.",
                    [
                        Query(
                            rate("goqueue_broker_messages_failed_total", NODE, "error_type"),
                            "{{error_type}}",
                        )
                    ],
                    unit="cps",
                    stacked=True,
                ),
            ],
        ),
        Row(
            "What there is",
            [
                Panel(
                    "Connections",
                    "Open connections of clients.",
                    [
                        Query(
                            f"sum by (protocol) (goqueue_broker_active_connections{{{NODE}}})",
                            "{{protocol}}",
                        ),
                        Query(
                            f"sum(goqueue_broker_active_consumers{{{NODE}}})", "members of groups"
                        ),
                    ],
                ),
                Panel(
                    "Topics and partitions",
                    "Internal ones included; leaders are the partitions that take messages here.",
                    [
                        Query(f"sum(goqueue_broker_topic_count{{{NODE}}})", "topics"),
                        Query(f"sum(goqueue_cluster_partition_count{{{NODE}}})", "partitions"),
                        Query(f"sum(goqueue_cluster_leaders_per_node{{{NODE}}})", "leaders"),
                        Query(
                            f"sum(goqueue_cluster_under_replicated_partitions{{{NODE}}})",
                            "under-replicated",
                        ),
                    ],
                ),
                Panel(
                    "State of nodes",
                    "ready, degraded (logs have failed), read_only (disk too full), stopping.",
                    [Query(f"goqueue_cluster_node_state{{{NODE}}} == 1", "{{node_id}}: {{state}}")],
                ),
            ],
        ),
        Row(
            "The process",
            [
                Panel(
                    "Event loop",
                    "How late timers are, and how late at worst: all clients wait as long.",
                    [
                        Query(percentile("goqueue_process_loop_lag_seconds", NODE, 0.99), "p99"),
                        Query(f"max(goqueue_process_loop_lag_worst_seconds{{{NODE}}})", "worst"),
                    ],
                    unit="s",
                    steps=[(None, GREEN), (0.5, RED)],
                ),
                Panel(
                    "CPU and collections of garbage",
                    "Seconds a second: cores in use, and time in which nothing else runs.",
                    [
                        Query(
                            f"sum(rate(process_cpu_seconds_total{{{_JOB}}}[$__rate_interval]))",
                            "CPU",
                        ),
                        Query(rate("goqueue_process_gc_pause_seconds_sum", NODE), "garbage"),
                    ],
                    unit="percentunit",
                ),
                Panel(
                    "Memory",
                    "What the process has of the machine's memory.",
                    [
                        Query(
                            f"sum by (instance) (process_resident_memory_bytes{{{_JOB}}})",
                            "{{instance}}",
                        )
                    ],
                    unit="bytes",
                ),
                Panel(
                    "Files and threads",
                    "Open files and connections, and how many there may be.",
                    [
                        Query(f"sum by (instance) (process_open_fds{{{_JOB}}})", "open"),
                        Query(f"min by (instance) (process_max_fds{{{_JOB}}})", "limit"),
                        Query(f"sum(goqueue_process_threads{{{NODE}}})", "threads"),
                    ],
                ),
            ],
        ),
    ],
)

STORAGE: Final = Dashboard(
    uid="goqueue-storage",
    title="GoQueue: storage",
    description="The disk, the logs on it, and what looking after them costs.",
    choices=[NODES, TOPICS],
    rows=[
        Row(
            "The disk",
            [
                Panel(
                    "In use",
                    "Of the disk that holds the data; publishing is refused at 90 %.",
                    [
                        Query(
                            f"max(goqueue_storage_disk_used_bytes{{{NODE}}} "
                            f"/ goqueue_storage_disk_total_bytes{{{NODE}}})"
                        )
                    ],
                    unit="percentunit",
                    kind="gauge",
                    steps=[(None, GREEN), (0.8, YELLOW), (0.9, RED)],
                    low=0,
                    high=1,
                ),
                Panel(
                    "Left",
                    "Bytes that may still be written, now and in four hours by the last hour.",
                    [
                        Query(f"min(goqueue_storage_disk_free_bytes{{{NODE}}})", "left"),
                        Query(
                            "min(predict_linear("
                            f"goqueue_storage_disk_free_bytes{{{NODE}}}[1h], 14400))",
                            "in four hours",
                        ),
                    ],
                    unit="bytes",
                ),
                Panel(
                    "Syncs a second",
                    "Times that logs were forced to the disk, and that it refused.",
                    [
                        Query(rate("goqueue_storage_fsync_total", NODE), "syncs"),
                        Query(rate("goqueue_storage_fsync_errors_total", NODE), "refused"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Sync latency",
                    "How long the disk takes for one.",
                    percentiles("goqueue_storage_fsync_latency_seconds", NODE),
                    unit="s",
                    steps=[(None, GREEN), (0.1, RED)],
                ),
            ],
        ),
        Row(
            "Logs",
            [
                Panel(
                    "Largest topics",
                    "Bytes of their logs on the disk.",
                    [
                        Query(
                            f"topk(10, sum by (topic) (goqueue_storage_log_size_bytes{{{TOPIC}}}))",
                            "{{topic}}",
                        )
                    ],
                    unit="bytes",
                    stacked=True,
                ),
                Panel(
                    "Written and read",
                    "Bytes a second, to and from logs.",
                    [
                        Query(rate("goqueue_storage_bytes_written_total", TOPIC), "written"),
                        Query(rate("goqueue_storage_bytes_read_total", TOPIC), "read"),
                    ],
                    unit="Bps",
                ),
                Panel(
                    "Offsets kept",
                    "From the first to the end of each log, the ten longest topics.",
                    [
                        Query(
                            f"topk(10, sum by (topic) (goqueue_storage_log_end_offset{{{TOPIC}}} "
                            f"- goqueue_storage_log_start_offset{{{TOPIC}}}))",
                            "{{topic}}",
                        )
                    ],
                ),
                Panel(
                    "Not yet visible",
                    "Offsets between where readers stop and the end of the log.",
                    [
                        Query(
                            f"sum by (topic) (goqueue_storage_log_end_offset{{{TOPIC}}}) "
                            f"- sum by (topic) (goqueue_cluster_high_watermark{{{TOPIC}}})",
                            "{{topic}}",
                        )
                    ],
                ),
            ],
        ),
        Row(
            "Segments and indexes",
            [
                Panel(
                    "Segments",
                    "On the disk, and those that take appends.",
                    [
                        Query(f"sum(goqueue_storage_segments_total{{{TOPIC}}})", "all"),
                        Query(f"sum(goqueue_storage_segments_active{{{TOPIC}}})", "active"),
                    ],
                ),
                Panel(
                    "Segments begun and removed",
                    "A second.",
                    [
                        Query(rate("goqueue_storage_segments_created_total", TOPIC), "begun"),
                        Query(rate("goqueue_storage_segments_deleted_total", TOPIC), "removed"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Index lookups a second",
                    "By offset and by time, and indexes that had to be made anew.",
                    [
                        Query(
                            rate("goqueue_storage_index_lookups_total", TOPIC, "index_type"),
                            "{{index_type}}",
                        ),
                        Query(rate("goqueue_storage_index_rebuilds_total", TOPIC), "rebuilt"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Index lookup latency",
                    "99 of 100 are faster.",
                    [
                        Query(
                            percentile(
                                "goqueue_storage_index_lookup_latency_seconds",
                                NODE,
                                0.99,
                                "index_type",
                            ),
                            "{{index_type}}",
                        )
                    ],
                    unit="s",
                ),
            ],
        ),
        Row(
            "Compaction and snapshots",
            [
                Panel(
                    "Compactions",
                    "Runs and bytes given back, a second.",
                    [
                        Query(rate("goqueue_storage_compaction_runs_total", TOPIC), "runs"),
                        Query(
                            rate("goqueue_storage_compaction_bytes_reclaimed_total", TOPIC), "bytes"
                        ),
                    ],
                ),
                Panel(
                    "Compaction latency",
                    "How long one takes.",
                    percentiles("goqueue_storage_compaction_latency_seconds", NODE),
                    unit="s",
                ),
                Panel(
                    "Dirtiest logs",
                    "Share of a log that was written since its last compaction.",
                    [
                        Query(
                            f"topk(10, max by (topic) "
                            f"(goqueue_storage_compaction_dirty_ratio{{{TOPIC}}}))",
                            "{{topic}}",
                        )
                    ],
                    unit="percentunit",
                    high=1,
                ),
                Panel(
                    "Snapshots",
                    "Bytes of the newest, by what they hold.",
                    [
                        Query(
                            "sum by (snapshot_type) "
                            f"(goqueue_storage_snapshot_size_bytes{{{NODE}}})",
                            "{{snapshot_type}}",
                        )
                    ],
                    unit="bytes",
                ),
                Panel(
                    "Snapshots made",
                    "A second, and how long one in a hundred takes.",
                    [
                        Query(rate("goqueue_storage_snapshots_created_total", NODE), "a second"),
                        Query(
                            percentile("goqueue_storage_snapshot_latency_seconds", NODE, 0.99),
                            "p99 seconds",
                        ),
                    ],
                ),
            ],
        ),
    ],
)

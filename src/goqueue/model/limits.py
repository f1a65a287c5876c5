"""Bounds that are not settings and that several modules share, with what happens at each.

Those of a protocol or of schemas are in the `limits.py` of their package. A bound of one module is
private and stands beside its use.
"""

from typing import Final

MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""One record's value. A larger one is refused with `BatchTooLargeError`; nothing is stored."""

MAX_HEADERS_BYTES: Final = 64 * 1024
"""One record's headers block. A larger one is refused with `MalformedHeadersError`."""

MAX_BATCH_BYTES: Final = 64 * 1024 * 1024
"""One batch, compressed or not. A larger length field is read as damage, never allocated."""

MAX_DECOMPRESSION_RATIO: Final = 1000
FREE_DECOMPRESSED_BYTES: Final = MAX_VALUE_BYTES + 1024 * 1024
"""The records of a compressed batch may be `FREE_DECOMPRESSED_BYTES` whatever their ratio, so that
one record of every permitted size fits. Above that a compressed byte may become at most
`MAX_DECOMPRESSION_RATIO`, and a batch `MAX_BATCH_BYTES`. A batch with more is not decompressed
further: `BatchTooLargeError` where it is published, a record that does not decode where it is read.
"""

FREE_BATCH_ITEMS: Final = 250_000
STORED_BYTES_PER_ITEM: Final = 16
"""The records of a batch and their headers, counted together. So many are always allowed, and in
batches that are larger than that one for each `STORED_BYTES_PER_ITEM` on the disk: a few bytes of
the sender must not become millions of objects. More is refused as above."""

MAX_PUBLISHED_MESSAGES: Final = 10_000
"""Messages of one publish over HTTP or gRPC. A request with more is refused, and none is stored."""

MAX_ID_CHARS: Final = 1000
"""Ids of groups, members, instances, clients and transactions. A longer one is refused."""

PRIORITY_COUNT: Final = 5
"""Lanes 0 (critical) to 4 (background). Another number is refused with `PriorityError`."""

MAX_METADATA_KEY_BYTES: Final = 1024
"""One key of the metadata store, in UTF-8; a longer one: `InvalidMetadataRequestError`."""

MAX_FORWARDED_BYTES: Final = 40 * 1024 * 1024
"""Requests of clients of one node that wait for answers of other nodes, however slow those are; one
that would go beyond is refused, and may be tried again. With `MAX_ROUTED_BYTES`, a node holds 64 MB
for other nodes, and besides 8 MB of the answers of each (`topics.forwarding`) and 4 MB of batches
that it moves there (`publishing.targets`)."""

MAX_METADATA_TRANSACTION_KEYS: Final = 128
"""Conditions and operations of one transaction, etcd's own bound; more are refused the same way."""

MAX_METADATA_TRANSACTION_BYTES: Final = 1024 * 1024
"""Keys and values of one transaction, under etcd's own bound; more are refused the same way."""

MAX_METADATA_SESSIONS: Final = 10_000
"""Open sessions of one metadata store; a further one is refused the same way."""

MAX_USER_NAME_BYTES: Final = 255
"""One user name, in UTF-8; a longer one is refused with `UnacceptableCredentialError`."""

MAX_RESOURCE_NAME_CHARS: Final = 1000
"""The name of a resource in a rule; a rule with a longer one is refused."""

MIN_SCRAM_ITERATIONS: Final = 4096
"""Iterations of a salted password. Fewer are refused, as in Kafka; RFC 7677 asks for at least as
many."""

MAX_SASL_MESSAGE_BYTES: Final = 8192
"""One SASL message of a client, of any mechanism; a longer one fails the login."""

MAX_TOKEN_CHARS: Final = 16 * 1024
"""One bearer token; a longer one is refused before it is looked at."""

MAX_STANDBY_REPLICAS: Final = 10
"""Standby replicas of one Streams task; a setting with more is refused."""

MAX_REBALANCE_DURATIONS: Final = 10_000
"""Rebalance durations that wait for the next scrape; of more, the oldest is dropped."""

MAX_METRIC_SERIES: Final = 1000
"""Label sets of one metric, unless `metrics_max_series` says otherwise; all further ones share one
series."""

MAX_PIPELINE_REPORT_BYTES: Final = 256 * 1024
"""One report of a Spark pipeline; a larger one is refused."""

MAX_REASON_CHARS: Final = 1000
"""The reason of a rejected delivery; a longer one of a client is refused, one of ours is cut."""

MAX_LANE_WEIGHT: Final = 1000
"""Messages that one lane may deliver in a row while others wait; a larger weight is refused."""

MAX_DELIVERIES: Final = 250
"""Deliveries of one message before it is dead-lettered: they are counted in one byte. A larger
setting is refused."""

MAX_WEBHOOKS: Final = 100
"""Webhook endpoints of a cluster; a further one is refused with `TooManyWebhooksError`."""

MAX_WEBHOOK_RETRIES: Final = MAX_DELIVERIES - 1
"""Retries of one event at one endpoint; a larger setting is refused."""

MAX_WEBHOOK_TIMEOUT_MS: Final = 60_000
"""What a target has to answer; a longer timeout is refused."""

MAX_UNACKED: Final = 1_000_000
"""Unacknowledged messages of one member of a queue group; a larger setting is refused."""

MAX_VISIBILITY_MS: Final = 12 * 3600 * 1000
"""The longest visibility timeout of a delivery; a longer one is refused."""

MAX_CACHED_RECORD_BYTES: Final = 32 * 1024 * 1024
"""Decoded batches that a reader of records holds, and bytes that one delivery reads; the batch used
least recently is dropped."""

MAX_LOGS_AWAITING_FLUSH: Final = 256
"""Logs that wait for their flush interval; with more, all of them are flushed now."""

MAX_TAIL_BYTES: Final = 4 * 1024 * 1024
"""In a cluster: the newest batches of a partition that are held in memory for followers and readers
that keep up. Of more, the oldest are dropped, and read from the log."""

MAX_TAILS_BYTES: Final = 64 * 1024 * 1024
"""The same for all partitions of a node together. Of more, those of the partition that was not
appended to for the longest are dropped."""

MAX_ROUTED_BYTES: Final = 24 * 1024 * 1024
"""Batches of HTTP and gRPC that wait for other nodes to store them, on one node. One more is
refused, and its client tries again later."""

MAX_OPEN_SEGMENTS: Final = 512
"""Segments of all logs with open descriptors. A sealed one has up to three: its batches and two
mapped indexes. At the bound the one that was not used for the longest is closed."""

MAX_TOPIC_PARTITIONS: Final = 10_000
"""Partitions of one topic; more are refused with `InvalidPartitionCountError`."""

MAX_PARTITIONS: Final = 100_000
"""Partitions of all topics of clients together, unless `topics.max_partitions` says otherwise; more
are refused with `InvalidPartitionCountError`."""

MAX_RING_SPANS: Final = 100_000
"""Spans that the ring of recent traces may be configured to hold; a larger setting is refused."""

MAX_LISTED_TRACES: Final = 1000
"""Traces of one search; a larger `limit` is refused."""

MAX_SERIES_TRANSACTIONS: Final = 10_000
"""Transactions of one atomic commit; more are refused, so that the decision is one record batch."""

MAX_SERIES_PARTITIONS: Final = 1_000_000
"""Partitions of all transactions of one atomic commit, each counted for each; more are refused
likewise."""

MAX_ASSIGNMENT_INTERVAL_MS: Final = 15_000
"""`group.consumer.max.assignment.interval.ms` and that of Streams; a longer interval is refused."""

MAX_PIPELINE_BYTES: Final = 256 * 1024
"""One file that describes a Spark pipeline; a larger one is refused unread."""

MAX_POLLED_BYTES: Final = 50 * 1024 * 1024
"""Of all partitions together; a poll stops reading there, and the next goes on."""

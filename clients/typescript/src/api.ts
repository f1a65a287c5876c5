// Generated from the server's OpenAPI document by scripts/generate-types.mjs: do not edit.

/** Messages to acknowledge. */
export interface AckBatchBody {
  /** Receipts of other groups are refused. */
  group?: string | null;
  /** From polls. */
  receipt_handles: string[];
}

/** One message to acknowledge. */
export interface AckBody {
  /** Receipts of other groups are refused. */
  group?: string | null;
  /** From the poll. */
  receipt_handle: string;
}

/** The partitions of each member. */
export interface AssignmentAnswer {
  group: string;
  generation: number;
  members: MemberInfo[];
}

/** One result per receipt, in the order of the request. */
export interface BatchSettled {
  /** `ack`, `nack`, `reject` or `extend`. */
  verdict: string;
  /** Accepted receipts. */
  settled: number;
  results: SettleResult[];
  /** After an `extend`: the new end of the visibility timeout. */
  visible_until?: number | null;
}

/** A topic with a dead-letter topic. */
export interface BoxLine {
  /** The original topic. */
  topic: string;
  /** The dead-letter topic. */
  dead_letter_topic: string;
  /** Letters that have not been redriven. */
  total: number;
  /** When the newest letter was dead-lettered; null if none is left. */
  newest_at: number | null;
}

/** Topics with a dead-letter topic. */
export interface BoxList {
  topics: BoxLine[];
}

/** One partition's committed offset. */
export interface Change {
  topic: string;
  partition: number;
  /** Null if no offset was committed. */
  before: number | null;
  after: number;
  /** Log start offset. */
  log_start: number;
  /** Log end offset: the offset of the next message. */
  log_end: number;
  /** Messages that the group will skip. */
  skipped: number;
  /** Messages that the group will read again. */
  again: number;
}

/** Offsets to commit; without a member id only for a group without members. */
export interface CommitBody {
  /** The next offset to read, by topic and partition. */
  offsets: Record<string, Record<string, number>>;
  /** The member that commits. */
  member_id?: string | null;
  /** Checked if present. */
  generation?: number | null;
}

/** The committed offsets. */
export interface Committed {
  group: string;
  /** By topic and partition; partition numbers are strings, as JSON keys. */
  committed: Record<string, Record<string, number>>;
}

/** A topic to create. */
export interface CreateTopic {
  /** 1 to 249 letters, digits, `.`, `_` and `-`, not `.` or `..`. */
  name: string;
  /** Partition count; the server's default if omitted. */
  num_partitions?: number | null;
  retention_hours?: number | null;
  /** Replicas of each partition; the server's default if omitted, 1 on a single node. */
  replication_factor?: number | null;
  /** Settings under Kafka's names. */
  settings?: Record<string, string | number | boolean>;
}

/** A value decoded with its schema. */
export interface DecodedOut {
  schema_id: number;
  subject: string | null;
  version: number | null;
  /** AVRO, JSON or PROTOBUF. */
  format: string;
  /** The value as JSON. */
  json: string;
}

/** Pending delayed messages of a topic. */
export interface DelayedList {
  topic: string;
  /** All pending messages. */
  total: number;
  messages: DelayedOut[];
  /** Nodes of the cluster whose part is missing; left out when there are none. */
  unanswered?: UnansweredNode[];
}

/** A delayed message. */
export interface DelayedOut {
  /** The id of the delayed message. */
  id: number;
  /** The same id: a delayed message has no log offset before it is due. */
  offset: number;
  topic: string;
  /** The target partition. */
  partition: number;
  /** pending, delivered, cancelled or expired. */
  state: string;
  /** When it is due. */
  deliverAt: number;
  /** When it was published. */
  publishedAt: number;
  /** The priority lane. */
  priority: string;
  /** Null if there is none. */
  key: string | null;
  /** Null for a tombstone. */
  value: string | null;
  headers: HeaderOut[];
  /** Encoding of `value`. */
  encoding?: "base64" | "text";
  /** Encoding of `key`. */
  key_encoding?: "base64" | "text";
}

/** Which letters are deleted. */
export interface DeleteLettersBody {
  /** At least one field, or `all` is true. */
  filter?: FilterBody | null;
  /** Delete every letter when there is no filter. */
  all?: boolean;
}

/** What was deleted. */
export interface Deleted {
  deleted: string;
}

/** What was deleted. */
export interface DeletedLetters {
  topic: string;
  /** Letters deleted by this request. */
  deleted: number;
}

/** Dead letters with the same reason and last error. */
export interface ErrorLine {
  /** The reason. */
  reason: string | null;
  /** The last error, with # for numbers and ids; empty if none was given. */
  error: string;
  /** Letters in this group. */
  count: number;
  /** Milliseconds since the Unix epoch. */
  oldest_at: number;
  /** Milliseconds since the Unix epoch. */
  newest_at: number;
  /** Consumer groups. */
  groups: string[];
  /** The newest of them. */
  example: LetterLine;
}

/** Dead letters by reason and last error, the most frequent first. */
export interface ErrorsAnswer {
  /** The original topic. */
  topic: string;
  errors: ErrorLine[];
  /** Matching letters that this response counts. */
  letters: number;
  /** Of them, letters of rarer errors that are not listed. */
  others: number;
  /** The `cursor` of the next request; null at the end. */
  next: string | null;
}

/** Filters, all of which must match. */
export interface FilterBody {
  /** MAX_RETRIES_EXCEEDED, REJECTED, TTL_EXPIRED, POISON_MESSAGE or BACKPRESSURE. */
  reason?: string | null;
  /** The consumer group. */
  group?: string | null;
  /** The whole key. */
  key?: string | null;
  /** Encoding of `key`. */
  key_encoding?: "base64" | "text";
  /** Dead-lettered at this time or later. */
  since?: number | string | null;
  /** Dead-lettered before this time. */
  until?: number | string | null;
  /** Only these offsets, by partition of the dead-letter topic. */
  offsets?: Record<string, number[]> | null;
  /** The last error, ignoring numbers and ids in it. Empty: letters without an error. */
  error?: string | null;
}

/** A matching message; fields over 64 KB are truncated. */
export interface FoundMessage {
  topic: string;
  /** A partition. */
  partition: number;
  /** An offset in a partition. */
  offset: number;
  /** Milliseconds since the Unix epoch. */
  timestamp: number;
  /** Null if there is none. */
  key: string | null;
  /** Null for a tombstone. */
  value: string | null;
  headers: HeaderOut[];
  /** Encoding of `value`. */
  encoding?: "base64" | "text";
  /** Encoding of `key`. */
  key_encoding?: "base64" | "text";
  /** The priority lane. */
  priority?: string;
  decoded?: DecodedOut | null;
  /** Why the value could not be decoded. */
  decode_error?: string | null;
  /** Type of the timestamp. */
  timestamp_type: "append" | "create";
  /** Size of key, value and headers. */
  size_bytes: number;
  /** The trace id, if the message is traced. */
  trace_id?: string | null;
  /** Whether a field was truncated; read the message to get all of it. */
  truncated?: boolean;
}

/** What was deleted. */
export interface GroupDeleted {
  deleted: string;
}

/** One group. */
export interface GroupInfo {
  group: string;
  /** As in Kafka, such as Empty, Assigning, Reconciling, Stable or Dead. */
  state: string;
  /** `classic`, `consumer` or `share`. */
  protocol: string;
  generation: number;
  member_count: number;
  /** `log`, or `queue`. */
  type: string;
  /** Queue groups: `exclusive` or `shared`. */
  mode: string | null;
  /** The partition assignor. */
  assignor: string;
  members: MemberInfo[];
  /** Committed offsets by topic and partition; null without a commit. */
  offsets: Record<string, Record<string, number | null>>;
  /** Log end offsets by topic and partition. */
  log_ends: Record<string, Record<string, number>>;
  /** Messages between where the group continues and the end of the log. Where nothing is committed it counts from the log start, which is an upper bound. */
  lag: Record<string, Record<string, number>>;
  total_lag: number;
  /** The part of the lag in partitions without a committed offset. */
  uncommitted_lag: number;
  /** Queue groups only. */
  queue: QueueInfo | null;
}

/** Every group, by name. */
export interface GroupList {
  groups: ListedGroup[];
  /** Nodes of the cluster whose part is missing; left out when there are none. */
  unanswered?: UnansweredNode[];
}

/** The new partition count. */
export interface GrowTopic {
  /** The total count, old and new. */
  count: number;
  /** The nodes of each new partition, the leader first; chosen by the broker if omitted. */
  replica_assignments?: number[][] | null;
}

/** A header of a message to be published. */
export interface HeaderIn {
  /** A name may occur several times. */
  name: string;
  /** Null for a header without a value. */
  value: string | null;
  /** Encoding of `value`. */
  encoding?: "base64" | "text";
}

/** A header of a message. */
export interface HeaderOut {
  name: string;
  value: string | null;
  /** `base64` where `value` is not UTF-8. */
  encoding?: "base64" | "text";
}

/** The health of the server. */
export interface Health {
  /** `ok`, or `failing`. */
  status: string;
  /** Milliseconds since the Unix epoch. */
  timestamp: number;
  /** `ok`, or a wall clock jump that has stopped retention and TTL. */
  clock?: string;
  /** `ok`, or the reason why messages cannot be stored. */
  storage?: string;
}

/** The assignment of a new member. */
export interface JoinAnswer {
  member_id: string;
  /** Incremented by every assignment; a request with an older one is refused. */
  generation: number;
  /** State of the group. */
  state: string;
  /** The rebalance protocol. */
  protocol: string;
  /** Partitions by topic. */
  partitions: Record<string, number[]>;
  /** Assigned since the last response. */
  added: Record<string, number[]>;
  /** Revoked since the last response. */
  revoked: Record<string, number[]>;
  /** To be released with `revoke`. */
  partitions_to_revoke: Record<string, number[]>;
  /** A rebalance is in progress. */
  rebalance_required: boolean;
  /** Time limit of `revoke`. */
  revocation_timeout_ms: number;
  /** Heartbeat interval. */
  heartbeat_interval_ms: number;
  /** All members of the group. */
  members: string[];
  /** The mode of the group. */
  assignment: string;
  /** Queue groups only. */
  settings: SettingsShape | null;
  /** Always null: the broker assigns partitions. */
  leader_id?: string | null;
}

/** The subscription of a member. The settings apply if the group is new. */
export interface JoinBody {
  /** The visibility timeout: an unacknowledged message is redelivered after it; up to 12h. */
  visibility_timeout?: number | string | null;
  /** After this many failed deliveries a message is dead-lettered. */
  max_deliveries?: number | null;
  /** Before the first redelivery of a message that was returned; doubles each time. */
  backoff?: number | string | null;
  /** Upper bound of the back-off. */
  max_backoff?: number | string | null;
  /** Unacknowledged messages that a member may hold. */
  max_unacked?: number | null;
  /** How many of a partition may wait for a retry; one more is dead-lettered at once. */
  max_waiting?: number | null;
  /** The weight of each lane: some by name, or all five in order. */
  weights?: Record<string, number> | number[] | null;
  /** A lane that waits this long is served out of turn; 0 disables it. */
  starvation_timeout?: number | string | null;
  /** Whether dead-lettered messages are stored in `{topic}.dlq`. */
  dead_letters?: boolean | null;
  /** Existing topics. */
  topics: string[];
  /** Prefix of the member id. */
  client_id?: string;
  /** Rejoin with the member id of an earlier join. */
  member_id?: string | null;
  /** `exclusive`: a queue, every partition has one owner, and order is kept. `shared`: a queue, every member takes from every partition. `log`: no queue, members commit offsets as Kafka's do. */
  assignment?: "exclusive" | "log" | "shared";
  /** Session timeout: a member without a heartbeat for this long is removed; 45s if omitted. */
  session_timeout?: number | string | null;
  /** How partitions are shared out, where they have owners; what most members ask for counts. */
  assignor?: "range" | "round-robin" | "sticky" | null;
  /** Of log groups: each poll commits what the polls before it returned, at most once in `auto_commit_interval`; so does leaving. */
  auto_commit?: boolean;
  /** With `auto_commit`: 5s if omitted; 0 commits at every poll. */
  auto_commit_interval?: number | string | null;
  /** Where to start in partitions without a committed offset. */
  start?: "earliest" | "latest";
  /** Partitions to be given up are kept until `revoke` says so, up to a minute; otherwise they go with the next heartbeat or poll. */
  acknowledge_revocations?: boolean;
}

/** A member that has left. */
export interface Left {
  member_id: string;
}

/** One dead letter with value and headers. */
export interface LetterDetail {
  /** Partition of the dead-letter topic. */
  partition: number;
  /** Offset in the dead-letter topic. */
  offset: number;
  /** Null if there is none. */
  key: string | null;
  key_encoding: "base64" | "text";
  /** Preview of the value. */
  preview: string | null;
  preview_encoding: "base64" | "text";
  /** Size of the whole value. */
  size_bytes: number;
  /** The original topic. */
  source_topic: string | null;
  source_partition: number | null;
  source_offset: number | null;
  source_timestamp: number | null;
  /** The consumer group. */
  group: string | null;
  /** The last member that it was delivered to. */
  member: string | null;
  /** MAX_RETRIES_EXCEEDED, REJECTED, TTL_EXPIRED, POISON_MESSAGE or BACKPRESSURE. */
  reason: string | null;
  /** The last error. */
  error: string | null;
  /** Deliveries before it was dead-lettered. */
  deliveries: number | null;
  first_delivery: number | null;
  last_delivery: number | null;
  /** Milliseconds since the Unix epoch. */
  died_at: number;
  /** Earlier redrives. */
  redriven_count: number;
  /** The priority lane after a redrive. */
  priority: string;
  /** Null for a tombstone. */
  value: string | null;
  encoding: "base64" | "text";
  /** The original headers. */
  headers: HeaderOut[];
  /** Whether it was redriven or deleted; it is not listed any more. */
  is_redriven: boolean;
}

/** What replaces parts of a letter; what is omitted stays. */
export interface LetterEditBody {
  /** With another key it goes to the partition of that key. */
  key?: string | null;
  /** Encoding of `key`. */
  key_encoding?: "base64" | "text";
  /** Null for a tombstone. */
  value?: string | null;
  /** Encoding of `value`. */
  encoding?: "base64" | "text";
  /** Replace all original headers. */
  headers?: HeaderIn[];
}

/** One dead letter in a list. */
export interface LetterLine {
  /** Partition of the dead-letter topic. */
  partition: number;
  /** Offset in the dead-letter topic. */
  offset: number;
  /** Null if there is none. */
  key: string | null;
  key_encoding: "base64" | "text";
  /** Preview of the value. */
  preview: string | null;
  preview_encoding: "base64" | "text";
  /** Size of the whole value. */
  size_bytes: number;
  /** The original topic. */
  source_topic: string | null;
  source_partition: number | null;
  source_offset: number | null;
  source_timestamp: number | null;
  /** The consumer group. */
  group: string | null;
  /** The last member that it was delivered to. */
  member: string | null;
  /** MAX_RETRIES_EXCEEDED, REJECTED, TTL_EXPIRED, POISON_MESSAGE or BACKPRESSURE. */
  reason: string | null;
  /** The last error. */
  error: string | null;
  /** Deliveries before it was dead-lettered. */
  deliveries: number | null;
  first_delivery: number | null;
  last_delivery: number | null;
  /** Milliseconds since the Unix epoch. */
  died_at: number;
  /** Earlier redrives. */
  redriven_count: number;
  /** The priority lane after a redrive. */
  priority: string;
}

/** Dead letters that have not been redriven, by partition and offset. */
export interface LetterList {
  /** The original topic. */
  topic: string;
  /** Null if there is none. */
  dead_letter_topic: string | null;
  /** All letters that have not been redriven, regardless of the filters. */
  total: number;
  letters: LetterLine[];
  /** The `cursor` of the next page; null at the end. */
  next: string | null;
}

/** One group in a list, and its lag. */
export interface ListedGroup {
  group: string;
  /** As in Kafka, such as Empty, Assigning, Reconciling, Stable or Dead. */
  state: string;
  /** `classic`, `consumer` or `share`. */
  protocol: string;
  generation: number;
  member_count: number;
  /** `log`, or `queue`. */
  type: string;
  /** Queue groups: `exclusive` or `shared`. */
  mode: string | null;
  /** Lag over all topics. */
  total_lag: number;
  /** The part of the lag in partitions without a committed offset. */
  uncommitted_lag: number;
  /** Age of the oldest unconsumed message; null if there is none, or it is unknown. */
  oldest_age_ms: number | null;
  /** Topics of the group, at most 20. */
  topics: string[];
}

/** The assignment of a member. */
export interface MemberAnswer {
  member_id: string;
  /** Incremented by every assignment; a request with an older one is refused. */
  generation: number;
  /** State of the group. */
  state: string;
  /** The rebalance protocol. */
  protocol: string;
  /** Partitions by topic. */
  partitions: Record<string, number[]>;
  /** Assigned since the last response. */
  added: Record<string, number[]>;
  /** Revoked since the last response. */
  revoked: Record<string, number[]>;
  /** To be released with `revoke`. */
  partitions_to_revoke: Record<string, number[]>;
  /** A rebalance is in progress. */
  rebalance_required: boolean;
  /** Time limit of `revoke`. */
  revocation_timeout_ms: number;
  /** Heartbeat interval. */
  heartbeat_interval_ms: number;
}

/** The member that sends the request. */
export interface MemberBody {
  /** From the response of `join`. */
  member_id: string;
  /** Checked if present. */
  generation?: number | null;
}

/** One member of a group. */
export interface MemberInfo {
  member_id: string;
  client_id: string;
  client_host: string;
  /** `classic`, `consumer` or `share`; a group may have members of two. */
  protocol: string;
  /** Partitions by topic. */
  partitions: Record<string, number[]>;
  /** Queue groups: its unacknowledged messages. */
  unacked?: number | null;
}

/** A message to be published. */
export interface MessageIn {
  /** Null for a tombstone. */
  value: string | null;
  /** Messages with the same key go to one partition, in order. */
  key?: string | null;
  /** An object of texts, or a list. */
  headers?: Record<string, string> | HeaderIn[];
  /** By key hash, or round-robin, if omitted. */
  partition?: number | null;
  /** The current time if omitted. */
  timestamp?: number | string | null;
  /** Encoding of `value`. */
  encoding?: "base64" | "text";
  /** Encoding of `key`. */
  key_encoding?: "base64" | "text";
  /** The message is delivered after this delay. */
  delay?: number | string | null;
  /** The same as a point in time; a past one means now. */
  deliver_at?: number | string | null;
  /** Another name for `deliver_at`. */
  deliverAt?: number | string | null;
  /** critical, high, normal, low or background, or 0 to 4. */
  priority?: string | number | null;
  /** TTL: queue groups do not deliver the message after it. */
  ttl?: number | string | null;
}

/** A message. */
export interface MessageOut {
  topic: string;
  /** A partition. */
  partition: number;
  /** An offset in a partition. */
  offset: number;
  /** Milliseconds since the Unix epoch. */
  timestamp: number;
  /** Null if there is none. */
  key: string | null;
  /** Null for a tombstone. */
  value: string | null;
  headers: HeaderOut[];
  /** Encoding of `value`. */
  encoding?: "base64" | "text";
  /** Encoding of `key`. */
  key_encoding?: "base64" | "text";
  /** The priority lane. */
  priority?: string;
  decoded?: DecodedOut | null;
  /** Why the value could not be decoded. */
  decode_error?: string | null;
}

/** Letters of one partition that have been redriven. */
export interface MovedAnswer {
  /** The original topic. */
  topic: string;
  /** Partition of the dead-letter topic. */
  partition: number;
  /** Offset ranges: first, and last + 1. */
  ranges: number[][];
  /** Start of the next request; null at the end. */
  next_offset: number | null;
}

/** Letters that were redriven by other means. */
export interface MovedBody {
  /** Offsets of the dead-letter topic. */
  ranges: ([number, number])[];
  /** The topic that holds the letters; the dead-letter topic if omitted. */
  letters_in?: string | null;
}

/** Messages to return for redelivery. */
export interface NackBatchBody {
  /** Receipts of other groups are refused. */
  group?: string | null;
  /** The reason; stored in the headers of a dead-lettered message. */
  reason?: string;
  /** Delay before redelivery, instead of the group's back-off. */
  delay?: number | string | null;
  /** From polls. */
  receipt_handles: string[];
}

/** One message to return for redelivery. */
export interface NackBody {
  /** Receipts of other groups are refused. */
  group?: string | null;
  /** The reason; stored in the headers of a dead-lettered message. */
  reason?: string;
  /** Delay before redelivery, instead of the group's back-off. */
  delay?: number | string | null;
  /** From the poll. */
  receipt_handle: string;
}

/** Newly recorded redriven letters. */
export interface Noted {
  topic: string;
  partition: number;
  /** Letters newly recorded as redriven. */
  noted: number;
}

/** Committed offsets and lag of a group. */
export interface OffsetsAnswer {
  group: string;
  /** Committed offsets by topic and partition; null without a commit. */
  offsets: Record<string, Record<string, number | null>>;
  /** Log end offsets by topic and partition. */
  log_ends: Record<string, Record<string, number>>;
  /** Messages between where the group continues and the end of the log. Where nothing is committed it counts from the log start, which is an upper bound. */
  lag: Record<string, Record<string, number>>;
  total_lag: number;
  /** The part of the lag in partitions without a committed offset. */
  uncommitted_lag: number;
}

/** One partition of a queue group. */
export interface PartitionCounts {
  /** Messages ready for delivery, counted up to 100000 per lane. */
  ready: number;
  /** Messages delivered and not acknowledged. */
  in_flight: number;
  /** Messages that wait for redelivery. */
  waiting: number;
  /** Messages being moved to the dead-letter topic. */
  dead: number;
  /** The lowest offset that is not acknowledged. */
  committed: number;
  log_end: number;
}

/** One partition: its replicas and watermarks. */
export interface PartitionInfo {
  /** A partition. */
  partition: number;
  /** The leader; -1 while there is none. */
  leader: number;
  replicas: number[];
  /** The in-sync replicas. */
  isr: number[];
  /** The leader epoch. */
  version: number;
  /** The first offset; -1 where the node has no replica, as are the next two. */
  earliest_offset: number;
  /** Log end offset: the offset of the next message. */
  latest_offset: number;
  /** Consumers read up to this offset. */
  high_watermark: number;
  size_bytes: number;
  /** Why appends are refused; null if they are accepted. */
  failure: string | null;
}

/** The partitions of a topic. */
export interface PartitionList {
  topic: string;
  partitions: PartitionInfo[];
}

/** Settings to be changed; the others stay as they are. */
export interface PatchTopic {
  /** The changes; null resets a setting to its default. */
  settings: Record<string, string | number | boolean | null>;
}

/** Messages delivered to a member. */
export interface PollAnswer {
  /** Incremented by every assignment; a request with an older one is refused. */
  generation: number;
  messages: PolledMessage[];
  /** The offsets to commit after processing. */
  next_offsets: Record<string, Record<string, number>>;
  /** Partitions by topic. */
  partitions: Record<string, number[]>;
}

/** A message delivered to a member of a group. In a queue group it has a receipt, and a visibility timeout. */
export interface PolledMessage {
  topic: string;
  /** A partition. */
  partition: number;
  /** An offset in a partition. */
  offset: number;
  /** Milliseconds since the Unix epoch. */
  timestamp: number;
  /** Null if there is none. */
  key: string | null;
  /** Null for a tombstone. */
  value: string | null;
  headers: HeaderOut[];
  /** Encoding of `value`. */
  encoding?: "base64" | "text";
  /** Encoding of `key`. */
  key_encoding?: "base64" | "text";
  /** The priority lane. */
  priority?: string;
  decoded?: DecodedOut | null;
  /** Why the value could not be decoded. */
  decode_error?: string | null;
  /** The delivery count. */
  delivery_count?: number | null;
  /** The handle for acknowledgements. */
  receipt_handle?: string | null;
  /** End of the visibility timeout. */
  visible_until?: number | null;
}

/** One result per message, in the order of the request. */
export interface PublishAnswer {
  results: PublishResult[];
}

/** Messages for one topic. */
export interface PublishBody {
  messages: MessageIn[];
  /** Which replicas must store a message before the response. */
  acks?: "all" | "leader" | "none";
}

/** The result of one message: its offset, or an error. */
export interface PublishResult {
  /** 200, or the status that a request with this message alone would have. */
  status: number;
  /** Where it is. */
  partition?: number | null;
  /** The offset. */
  offset?: number | null;
  /** The timestamp, in ms. */
  timestamp?: number | null;
  /** The priority lane. */
  priority?: string | null;
  /** Whether the message is delayed. */
  delayed?: boolean | null;
  /** When a delayed message is due, in ms. */
  deliverAt?: number | null;
  /** Delayed messages: their id, which is also in `offset`; they have no log offset yet. */
  id?: number | null;
  /** The error code, if it was refused. */
  code?: string | null;
  /** The error message, if it was refused. */
  error?: string | null;
  /** The invalid field. */
  field?: string | null;
  /** Whether a retry may succeed. */
  retriable?: boolean | null;
}

/** What was deleted. */
export interface Purged {
  topic: string;
  /** Letters that had not been redriven. */
  purged: number;
}

/** The new log start offset of a partition. */
export interface PurgedPartition {
  partition: number;
  earliest_offset: number;
  /** Deleted offsets. */
  removed: number;
}

/** What was deleted. */
export interface PurgedTopic {
  topic: string;
  removed: number;
  partitions: PurgedPartition[];
}

/** All overrides of the topic. */
export interface PutTopic {
  /** Settings under Kafka's names. */
  settings: Record<string, string | number | boolean>;
}

/** The settings of a queue group, and its messages by state. */
export interface QueueInfo {
  ready: number;
  in_flight: number;
  waiting: number;
  /** Messages dead-lettered since the server started, or being moved. */
  dead: number;
  settings: SettingsShape;
  /** By topic and partition; keys are strings. */
  partitions: Record<string, Record<string, PartitionCounts>>;
}

/** Messages of all partitions, merged by time. */
export interface RangeAnswer {
  messages: MessageOut[];
  /** The `cursor` of the next request; null at the end. */
  next: string | null;
}

/** Messages in order, and the next offset. */
export interface ReadAnswer {
  messages: MessageOut[];
  /** The offset of the next request. */
  next_offset: number;
  /** High watermark. */
  high_watermark: number;
  /** Log start offset. */
  earliest_offset: number;
}

/** Readiness. */
export interface Readiness {
  status: string;
  /** `ok`, or the problem, by check. */
  checks?: Record<string, string> | null;
  broker?: Summary | null;
}

/** Counts of rebalances, joins, leaves, heartbeats and commits. */
export interface RebalanceStats {
  total: number;
  successful: number;
  /** Rebalances that timed out waiting for members. */
  failed: number;
  /** Rebalances restarted before they completed. */
  superseded: number;
  partitions_revoked: number;
  partitions_assigned: number;
  revocation_timeouts: number;
  last_duration_ms: number;
  /** A moving average. */
  average_duration_ms: number;
  /** When the last rebalance ended; null before the first. */
  last_at: number | null;
  /** Rebalances by trigger. */
  reasons: Record<string, number>;
  joins: number;
  /** By reason. */
  leaves: Record<string, number>;
  heartbeats: number;
  offset_commits: number;
  offset_commit_errors: number;
  /** Nodes of the cluster whose part is missing; left out when there are none. */
  unanswered?: UnansweredNode[];
}

/** A redrive. */
export interface RedriveAnswer {
  id: number;
  /** The original topic. */
  topic: string;
  /** The target. */
  to: string;
  dry_run: boolean;
  /** counting, running, done, cancelled or failed. */
  state: string;
  /** Matching letters, after counting. */
  total: number;
  /** Letters redriven. */
  done: number;
  /** Letters refused by the target; they stay in the dead-letter queue. */
  failed: number;
  /** Messages per second so far. */
  rate: number;
  /** The last error. */
  error: string | null;
  /** Milliseconds since the Unix epoch. */
  started_at: number;
  ended_at: number | null;
  /** Letters redriven, by target topic. */
  targets: Record<string, number>;
  /** The first hundred letters that were refused. */
  refused: RefusedLine[];
}

/** Which letters are redriven, and how fast. */
export interface RedriveBody {
  /** Another target topic; the original topic if omitted. */
  to?: string | null;
  /** All if omitted. */
  filter?: FilterBody;
  /** The most letters to redrive. */
  limit?: number | null;
  /** Messages per second. */
  rate?: number | null;
  /** Count the letters without redriving them. */
  dry_run?: boolean;
  /** The topic that holds the letters; the dead-letter topic if omitted. */
  letters_in?: string | null;
  /** Redrive each letter to the original topic in its headers, or to `to` without one. */
  to_source?: boolean;
  /** Corrects the one letter that `filter.offsets` names. */
  edit?: LetterEditBody | null;
}

/** Redrives since the server started, the newest last. */
export interface RedriveList {
  redrives: RedriveAnswer[];
}

/** A letter refused by its target topic. */
export interface RefusedLine {
  /** Partition of the dead-letter topic. */
  partition: number;
  /** Offset in the dead-letter topic. */
  offset: number;
  /** The target topic. */
  to: string;
  /** Why it was refused. */
  error: string;
}

/** Messages to dead-letter. */
export interface RejectBatchBody {
  /** Receipts of other groups are refused. */
  group?: string | null;
  /** The reason; stored in the headers of a dead-lettered message. */
  reason: string;
  /** From polls. */
  receipt_handles: string[];
}

/** One message to dead-letter. */
export interface RejectBody {
  /** Receipts of other groups are refused. */
  group?: string | null;
  /** The reason; stored in the headers of a dead-lettered message. */
  reason: string;
  /** From the poll. */
  receipt_handle: string;
}

/** The changes of a reset. */
export interface ResetAnswer {
  group: string;
  dry_run: boolean;
  changes: Change[];
}

/** New committed offsets for a group. */
export interface ResetBody {
  /** 1 to 249 letters, digits, `.`, `_` and `-`, not `.` or `..`. */
  topic: string;
  /** How the new offset is found. */
  strategy: "earliest" | "latest" | "offset" | "timestamp";
  /** -1 means all partitions. */
  partition?: number;
  /** Several partitions, instead of `partition`. */
  partitions?: number[] | null;
  /** For the strategy `timestamp`. */
  timestamp?: number | string | null;
  /** For the strategy `offset`. */
  offset?: number | null;
  /** Return the changes without making them. */
  dry_run?: boolean;
}

/** Matching messages, and the cursor of the next page. */
export interface SearchAnswer {
  messages: FoundMessage[];
  /** The cursor of the next request; null at the end. */
  cursor: string | null;
  /** Whether the search has reached the end. */
  complete: boolean;
  /** Messages examined by this request. */
  scanned: number;
}

/** One setting of a topic. */
export interface SettingInfo {
  /** The name in Kafka. */
  name: string;
  value: string;
  /** The default. */
  default: string;
  /** Where the value comes from. */
  source: "default" | "topic";
  description: string;
  /** The type in Kafka. */
  type: string;
  /** `no effect`: it is checked, stored and shown, and changes nothing. */
  effect: "no effect" | "obeyed";
  /** Why it has no effect, or what is different from Kafka. */
  note: string;
}

/** A queue group's settings. */
export interface SettingsAnswer {
  group: string;
  /** `exclusive` or `shared`. */
  mode: string;
  /** Where it began what it had never read: `earliest`, `latest`, `by_duration:PT1H`. */
  start: string;
  settings: SettingsShape;
}

/** The settings of a queue group; omitted ones stay as they are. */
export interface SettingsBody {
  /** The visibility timeout: an unacknowledged message is redelivered after it; up to 12h. */
  visibility_timeout?: number | string | null;
  /** After this many failed deliveries a message is dead-lettered. */
  max_deliveries?: number | null;
  /** Before the first redelivery of a message that was returned; doubles each time. */
  backoff?: number | string | null;
  /** Upper bound of the back-off. */
  max_backoff?: number | string | null;
  /** Unacknowledged messages that a member may hold. */
  max_unacked?: number | null;
  /** How many of a partition may wait for a retry; one more is dead-lettered at once. */
  max_waiting?: number | null;
  /** The weight of each lane: some by name, or all five in order. */
  weights?: Record<string, number> | number[] | null;
  /** A lane that waits this long is served out of turn; 0 disables it. */
  starvation_timeout?: number | string | null;
  /** Whether dead-lettered messages are stored in `{topic}.dlq`. */
  dead_letters?: boolean | null;
}

/** The settings of a queue group; durations are milliseconds. */
export interface SettingsShape {
  /** The visibility timeout. */
  visibility_timeout: number;
  /** After this many failed deliveries a message is dead-lettered. */
  max_deliveries: number;
  /** Before the first retry; doubles each time. */
  backoff: number;
  /** Upper bound of the back-off. */
  max_backoff: number;
  /** Unacknowledged messages that a member may hold. */
  max_unacked: number;
  /** Messages of a partition that may wait for a retry. */
  max_waiting: number;
  /** The weight of each lane. */
  weights: Record<string, number>;
  /** How long a lane may wait before it is served out of turn. */
  starvation_timeout: number;
  /** Whether dead-lettered messages are stored in `{topic}.dlq`. */
  dead_letters: boolean;
}

/** The result of one receipt. */
export interface SettleResult {
  receipt_handle: string;
  /** 200, or the status that a request with this receipt alone would have. */
  status: number;
  /** The error code, if it was refused. */
  code?: string | null;
  /** The error message, if it was refused. */
  error?: string | null;
  /** The class of the error in the Python client, if it was refused. */
  error_name?: string | null;
}

/** An accepted acknowledgement. */
export interface Settled {
  receipt_handle: string;
  /** `ack`, `nack`, `reject` or `extend`. */
  verdict: string;
  /** After an `extend`: the new end of the visibility timeout. */
  visible_until?: number | null;
}

/** A status. */
export interface Status {
  status: string;
}

/** Totals. */
export interface Summary {
  node_id: number;
  cluster_id: string;
  uptime_s: number;
  topic_count: number;
  partition_count: number;
  size_bytes: number;
  /** Partitions that refuse appends. */
  failed_partitions: string[];
}

/** A topic. */
export interface TopicInfo {
  name: string;
  topic_id: string;
  internal: boolean;
  num_partitions: number;
  /** Offsets that can be read; what was compacted away counts along. */
  total_messages: number;
  size_bytes: number;
  /** The settings that override defaults. */
  settings: Record<string, string>;
  partitions: PartitionInfo[];
}

/** The names of topics, in order. */
export interface TopicList {
  topics: string[];
  /** The same topics described, if `details` was asked for. */
  details?: TopicInfo[];
}

/** All settings of a topic, by name. */
export interface TopicSettingsAnswer {
  topic: string;
  settings: SettingInfo[];
}

/** A node whose part is missing. */
export interface UnansweredNode {
  node_id: number;
  /** Why. */
  error: string;
}

/** Version of the server and its runtime. */
export interface Version {
  version: string;
  /** The commit that it was built from. */
  commit: string;
  /** When it was built; `checkout` for one that runs from its sources. */
  built: string;
  record_codec: string;
  python: string;
  event_loop: string;
  platform: string;
}

/** Messages whose visibility timeouts are extended. */
export interface VisibilityBatchBody {
  /** Receipts of other groups are refused. */
  group?: string | null;
  /** The new visibility timeout, counted from now. */
  extension_seconds?: number | null;
  /** The same, as a duration. */
  extension?: number | string | null;
  /** From polls. */
  receipt_handles: string[];
}

/** One message whose visibility timeout is extended. */
export interface VisibilityBody {
  /** Receipts of other groups are refused. */
  group?: string | null;
  /** The new visibility timeout, counted from now. */
  extension_seconds?: number | null;
  /** The same, as a duration. */
  extension?: number | string | null;
  /** From the poll. */
  receipt_handle: string;
}

/** Every request that the client can send: its path, query, body and answer. */
export interface Operations {
  /** Create a topic. */
  "POST /topics": { body: CreateTopic; answer: TopicInfo };
  /** List the topics. */
  "GET /topics": { query?: { internal?: boolean; details?: boolean }; answer: TopicList };
  /** Describe a topic: partitions, watermarks, settings. */
  "GET /topics/{topic}": { path: { topic: string }; answer: TopicInfo };
  /** Change some settings of a topic. */
  "PATCH /topics/{topic}": { path: { topic: string }; body: PatchTopic; answer: TopicInfo };
  /** Replace all settings of a topic; omitted ones are reset to their defaults. */
  "PUT /topics/{topic}": { path: { topic: string }; body: PutTopic; answer: TopicInfo };
  /** Delete a topic with its messages and its committed offsets. */
  "DELETE /topics/{topic}": { path: { topic: string }; answer: Deleted };
  /** List the settings of a topic with their values and sources. */
  "GET /topics/{topic}/settings": { path: { topic: string }; answer: TopicSettingsAnswer };
  /** The partitions of a topic. */
  "GET /topics/{topic}/partitions": { path: { topic: string }; answer: PartitionList };
  /** Add partitions to a topic. */
  "POST /topics/{topic}/partitions": { path: { topic: string }; body: GrowTopic; answer: TopicInfo };
  /** Publish messages. */
  "POST /topics/{topic}/messages": { path: { topic: string }; body: PublishBody; answer: PublishAnswer };
  /** Read a time range of a topic, all partitions merged by time. */
  "GET /topics/{topic}/messages": { path: { topic: string }; query?: { from_time?: number | string; to_time?: number | string; partition?: number; limit?: number; cursor?: string; encoding?: "auto" | "base64"; decode?: "auto" | "none" }; answer: RangeAnswer };
  /** Delete messages up to an offset, or all; requires `confirm=true`. */
  "DELETE /topics/{topic}/messages": { path: { topic: string }; query?: { confirm?: boolean; partition?: number; before?: number }; answer: PurgedTopic };
  /** Read a partition from an offset or a time. */
  "GET /topics/{topic}/partitions/{partition}/messages": { path: { topic: string; partition: number }; query?: { offset?: number | "earliest" | "latest"; time?: number | string; limit?: number; wait?: number | string; encoding?: "auto" | "base64"; decode?: "auto" | "none" }; answer: ReadAnswer };
  /** Search a topic by partition, offset, time, key, text and JSON. */
  "GET /topics/{topic}/search": { path: { topic: string }; query?: { partition?: number; offset?: number; start?: number | string; end?: number | string; key?: string; key_match?: "contains" | "exact"; text?: string; json?: string; direction?: "newest" | "oldest"; limit?: number; cursor?: string }; answer: SearchAnswer };
  /** Export the messages that a search finds as JSON lines, CSV or Parquet. */
  "GET /topics/{topic}/export": { path: { topic: string }; query?: { partition?: number; offset?: number; start?: number | string; end?: number | string; key?: string; key_match?: "contains" | "exact"; text?: string; json?: string; direction?: "newest" | "oldest"; format?: "csv" | "jsonl" | "parquet"; limit?: number }; answer: unknown };
  /** List the groups of all protocols. */
  "GET /groups": { answer: GroupList };
  /** Describe a group: members, committed offsets, lag. */
  "GET /groups/{group}": { path: { group: string }; answer: GroupInfo };
  /** Delete a group without members, with its committed offsets. */
  "DELETE /groups/{group}": { path: { group: string }; answer: GroupDeleted };
  /** Describe a group: members, committed offsets, lag. */
  "GET /groups/{group}/cooperative": { path: { group: string }; answer: GroupInfo };
  /** List the partitions of each member. */
  "GET /groups/{group}/assignment": { path: { group: string }; query?: { member_id?: string }; answer: AssignmentAnswer };
  /** Rebalances of one group since the server started. */
  "GET /groups/{group}/rebalance/stats": { path: { group: string }; answer: RebalanceStats };
  /** Rebalances of all groups since the server started. */
  "GET /rebalance/stats": { answer: RebalanceStats };
  /** Join a group: a queue group unless `assignment` is `log`. */
  "POST /groups/{group}/join": { path: { group: string }; body: JoinBody; answer: JoinAnswer };
  /** Join a group as a member that acknowledges revocations. */
  "POST /groups/{group}/join/cooperative": { path: { group: string }; body: JoinBody; answer: JoinAnswer };
  /** Send a heartbeat; returns changes of the assignment. */
  "POST /groups/{group}/heartbeat": { path: { group: string }; body: MemberBody; answer: MemberAnswer };
  /** Send a heartbeat; returns changes of the assignment. */
  "POST /groups/{group}/heartbeat/cooperative": { path: { group: string }; body: MemberBody; answer: MemberAnswer };
  /** Release `partitions_to_revoke`, so that other members get them. */
  "POST /groups/{group}/revoke": { path: { group: string }; body: MemberBody; answer: MemberAnswer };
  /** Leave a group; its partitions and messages go to other members at once. */
  "POST /groups/{group}/leave": { path: { group: string }; body: MemberBody; answer: Left };
  /** Leave a group; its partitions and messages go to other members at once. */
  "POST /groups/{group}/leave/cooperative": { path: { group: string }; body: MemberBody; answer: Left };
  /** The settings of a queue group. */
  "GET /groups/{group}/settings": { path: { group: string }; answer: SettingsAnswer };
  /** Change the settings of a queue group. */
  "PUT /groups/{group}/settings": { path: { group: string }; body: SettingsBody; answer: SettingsAnswer };
  /** Poll messages, waiting for the first; counts as a heartbeat. */
  "GET /groups/{group}/poll": { path: { group: string }; query: { member_id: string; generation?: number; timeout?: number | string; limit?: number; visibility?: number | string; rewind?: boolean; encoding?: "auto" | "base64"; decode?: "auto" | "none" }; answer: PollAnswer };
  /** Acknowledge a message: it is not delivered in this group again. */
  "POST /messages/ack": { body: AckBody; answer: Settled };
  /** Return a message, to be redelivered after its back-off. */
  "POST /messages/nack": { body: NackBody; answer: Settled };
  /** Move a message to the dead-letter queue, for a reason. */
  "POST /messages/reject": { body: RejectBody; answer: Settled };
  /** Extend the visibility timeout of a message, counted from now; 0 returns it at once. */
  "POST /messages/visibility": { body: VisibilityBody; answer: Settled };
  /** Acknowledge many messages. The response is 200 even if some receipts are refused. */
  "POST /messages/ack/batch": { body: AckBatchBody; answer: BatchSettled };
  /** Return many messages. The response is 200 even if some receipts are refused. */
  "POST /messages/nack/batch": { body: NackBatchBody; answer: BatchSettled };
  /** Move many messages to the dead-letter queue. */
  "POST /messages/reject/batch": { body: RejectBatchBody; answer: BatchSettled };
  /** Extend many visibility timeouts; 200 even if some receipts are refused. */
  "POST /messages/visibility/batch": { body: VisibilityBatchBody; answer: BatchSettled };
  /** Commit offsets. A member may commit its own partitions only. */
  "POST /groups/{group}/offsets": { path: { group: string }; body: CommitBody; answer: Committed };
  /** Committed offsets and lag of a group, by partition. */
  "GET /groups/{group}/offsets": { path: { group: string }; query?: { partitions?: string }; answer: OffsetsAnswer };
  /** Reset the committed offsets of a group without members. */
  "POST /groups/{group}/offsets/reset": { path: { group: string }; body: ResetBody; answer: ResetAnswer };
  /** List dead-letter queues with their letter counts. */
  "GET /dlq": { answer: BoxList };
  /** List the dead letters of a topic that have not been redriven. */
  "GET /topics/{topic}/dlq": { path: { topic: string }; query?: { reason?: string; group?: string; since?: number | string; until?: number | string; error?: string; limit?: number; skip?: number; cursor?: string }; answer: LetterList };
  /** Delete all dead letters of a topic; requires `confirm=true`. */
  "DELETE /topics/{topic}/dlq": { path: { topic: string }; query?: { confirm?: boolean }; answer: Purged };
  /** One dead letter with value and headers. */
  "GET /topics/{topic}/dlq/{partition}/{offset}": { path: { topic: string; partition: number; offset: number }; answer: LetterDetail };
  /** Redrive dead letters to their original topic or to another one. */
  "POST /topics/{topic}/dlq/redrive": { path: { topic: string }; body: RedriveBody; answer: RedriveAnswer };
  /** List the redriven letters of a partition of the dead-letter topic. */
  "GET /topics/{topic}/redriven/{partition}": { path: { topic: string; partition: number }; query?: { from_offset?: number; letters_in?: string }; answer: MovedAnswer };
  /** Record letters as redriven by other means; they are not listed or redriven again. */
  "POST /topics/{topic}/redriven/{partition}": { path: { topic: string; partition: number }; body: MovedBody; answer: Noted };
  /** List recent redrives. */
  "GET /redrives": { answer: RedriveList };
  /** Describe a redrive. */
  "GET /redrives/{id}": { path: { id: number }; answer: RedriveAnswer };
  /** Cancel a redrive; letters that were redriven stay redriven. */
  "DELETE /redrives/{id}": { path: { id: number }; answer: RedriveAnswer };
  /** Count the dead letters of a topic by reason and last error. */
  "GET /topics/{topic}/dlq/errors": { path: { topic: string }; query?: { reason?: string; group?: string; since?: number | string; until?: number | string; error?: string; cursor?: string }; answer: ErrorsAnswer };
  /** Delete dead letters of a topic: those that a filter names. */
  "POST /topics/{topic}/dlq/delete": { path: { topic: string }; body: DeleteLettersBody; answer: DeletedLetters };
  /** List the pending delayed messages of a topic. */
  "GET /topics/{topic}/delayed": { path: { topic: string }; query?: { limit?: number; skip?: number }; answer: DelayedList };
  /** Describe a delayed message and its state. */
  "GET /topics/{topic}/delayed/{offset}": { path: { topic: string; offset: number }; answer: DelayedOut };
  /** Cancel a delayed message. */
  "DELETE /topics/{topic}/delayed/{partition}/{offset}": { path: { topic: string; partition: number; offset: number }; answer: DelayedOut };
  /** Whether messages can be stored, and the server's time. */
  "GET /health": { answer: Health };
  /** Liveness: the event loop responds. */
  "GET /healthz": { answer: Status };
  /** Startup: whether the start has completed. */
  "GET /livez": { answer: Status };
  /** Readiness; with `?verbose=true`, by check. */
  "GET /readyz": { query?: { verbose?: boolean }; answer: Readiness };
  /** Version of the server and its runtime. */
  "GET /version": { answer: Version };
}

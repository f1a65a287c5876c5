// The shapes of the HTTP API that more than one page knows. A page's own shapes are in its file.

/** Null where nothing was measured. */
export type Percentiles = { p50: number | null; p95: number | null; p99: number | null };

export type Severity = "critical" | "warning" | "info";

export type Attention = { severity: Severity; title: string; detail: string; link: string };

export type Overview = {
  at: number;
  node_id: number;
  version: string;
  uptime_ms: number;
  health: { status: string; checks: Record<string, string> };
  rates: {
    published_per_s: number;
    consumed_per_s: number;
    acked_per_s: number;
    failed_per_s: number;
    bytes_in_per_s: number;
    bytes_out_per_s: number;
  };
  latency_ms: Record<"publish" | "fetch" | "ack", Percentiles>;
  totals: {
    topics: number;
    partitions: number;
    groups: number;
    consumers: number;
    connections: number;
    messages: number;
    bytes: number;
    delayed: number;
    in_flight: number;
    retrying: number;
    dead_letters: number;
    open_transactions: number;
    subjects: number;
  };
  disk: { used_bytes: number; total_bytes: number; free_bytes: number } | null;
  process: {
    rss_bytes: number | null;
    loop_lag_ms: number;
    open_files: number | null;
    max_open_files: number | null;
    gc_pause_ms: number;
  } | null;
  attention: Attention[];
  /** In a cluster: every node that has answered. */
  nodes?: Pick<Overview, "node_id" | "version" | "uptime_ms" | "disk" | "process">[];
};

/** One value per step, the last one at `at`. */
export type Values = (number | null)[];

type History<Names extends string> = { step_ms: number; at: number } & Record<Names, Values>;

export type NodeHistory = History<
  "published_per_s" | "consumed_per_s" | "failed_per_s" | "bytes_in_per_s" | "bytes_out_per_s" | "publish_p99_ms" | "lag"
>;

export type TopicHistory = History<"published_per_s" | "consumed_per_s" | "bytes_in_per_s" | "bytes_out_per_s">;

export type GroupHistory = History<
  "lag" | "committed_per_s" | "published_per_s" | "in_flight" | "failed_per_s" | "dead_lettered_per_s"
> & { oldest_age_ms: number | null; time_to_drain_ms: number | null };

export type Encoding = "text" | "base64";

export type Header = { name: string; value: string | null; encoding?: Encoding };

export type Decoded = {
  schema_id: number;
  subject: string | null;
  version: number | null;
  format: string;
  json: string;
};

/** A stored message as reading and searching answer it. */
export type Message = {
  topic: string;
  partition: number;
  offset: number;
  timestamp: number;
  timestamp_type?: string;
  key: string | null;
  key_encoding: Encoding;
  value: string | null;
  encoding: Encoding;
  headers: Header[];
  priority: string;
  size_bytes?: number;
  truncated?: boolean;
  trace_id?: string | null;
  decoded?: Decoded | null;
  decode_error?: string | null;
};

export type PartitionInfo = {
  partition: number;
  leader: number;
  replicas: number[];
  isr: number[];
  version: number;
  earliest_offset: number;
  latest_offset: number;
  high_watermark: number;
  size_bytes: number;
  failure: string | null;
};

export type TopicInfo = {
  name: string;
  topic_id: string;
  internal: boolean;
  num_partitions: number;
  total_messages: number;
  size_bytes: number;
  settings: Record<string, string>;
  partitions: PartitionInfo[];
};

export const PRIORITIES = ["critical", "high", "normal", "low", "background"] as const;

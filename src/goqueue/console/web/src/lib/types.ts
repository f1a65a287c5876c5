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
  history: {
    step_ms: number;
    at: number;
    published_per_s: (number | null)[];
    consumed_per_s: (number | null)[];
    failed_per_s: (number | null)[];
    publish_p99_ms: (number | null)[];
    lag: (number | null)[];
  };
};

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

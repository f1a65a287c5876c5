// What happened to messages: found by topic, group, time, status and duration.
import { useEffect, useState } from "preact/hooks";
import { SelectField, TextField } from "../kit/form";
import { Badge, Button, Card, Empty, Loaded, Note, PageHead, Plain, Status, Time, type Tone } from "../kit/parts";
import { type Column, Table } from "../kit/table";
import { api, path } from "../lib/api";
import { milliseconds, percent, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { go, Link, setQueryFields, usePlace } from "../lib/router";

export type TraceSummary = {
  trace_id: string;
  topic: string | null;
  partition: number | null;
  offset: number | null;
  status: string;
  start: number;
  end: number;
  duration_ms: number;
  spans: number;
};

type Stats = { enabled: boolean; sampling: number; events: number; capacity: number; damaged_lines: number };

const WRITING_MS = 400;
const STATUSES = ["delayed", "pending", "in_progress", "retrying", "completed", "failed", "cancelled", "expired"];
const SPANS = [
  { value: "", label: "Any time" },
  { value: "900000", label: "The last 15 minutes" },
  { value: "3600000", label: "The last hour" },
  { value: "86400000", label: "The last day" },
];

export function statusTone(status: string): Tone {
  if (status === "completed") return "good";
  if (status === "failed" || status === "expired") return "bad";
  return status === "retrying" ? "warn" : status === "in_progress" ? "accent" : "neutral";
}

const COLUMNS: Column<TraceSummary>[] = [
  {
    id: "trace",
    title: "Trace",
    cell: (row) => <Link class="mono" to={path("traces", row.trace_id)}>…{row.trace_id.slice(-12)}</Link>,
  },
  {
    id: "message",
    title: "Message",
    wide: true,
    sort: (row) => `${row.topic}/${row.partition}/${row.offset}`,
    cell: (row) => <Plain text={row.topic === null ? "–" : `${row.topic} ${row.partition ?? "–"}/${row.offset ?? "–"}`} most={100} />,
  },
  { id: "status", title: "Status", sort: (row) => row.status, cell: (row) => <Status tone={statusTone(row.status)}>{row.status.replaceAll("_", " ")}</Status> },
  { id: "start", title: "Began", minor: true, sort: (row) => row.start, cell: (row) => <Time ms={row.start} /> },
  { id: "took", title: "Took", number: true, minor: true, sort: (row) => row.duration_ms, cell: (row) => milliseconds(row.duration_ms) },
  { id: "events", title: "Events", number: true, minor: true, sort: (row) => row.spans, cell: (row) => whole(row.spans) },
];

const FIELDS = ["topic", "group", "status", "since", "slower"] as const;

export function TracesPage() {
  const { query } = usePlace();
  const wanted = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  const found = useResource(
    (signal) =>
      api.get<{ traces: TraceSummary[]; complete: boolean }>("/traces/search", {
        signal,
        query: {
          topic: wanted["topic"],
          consumer_group: wanted["group"],
          status: wanted["status"],
          start: wanted["since"] ? Date.now() - Number(wanted["since"]) : null,
          min_duration: wanted["slower"],
          limit: 200,
        },
      }),
    FIELDS.map((name) => wanted[name]),
    { everyMs: 5000 },
  );
  const stats = useResource((signal) => api.get<Stats>("/traces/stats", { signal }), [], { everyMs: 15_000 });
  return (
    <>
      <PageHead
        title="Traces"
        lead={
          stats.data &&
          (stats.data.enabled
            ? `${percent(stats.data.sampling)} of published batches are traced; ${whole(stats.data.events)} of ${whole(stats.data.capacity)} events are in memory.`
            : "Tracing is disabled: set tracing.enabled, or goqueue.trace of a topic.")
        }
      />
      <Search wanted={wanted} />
      {stats.data && stats.data.damaged_lines > 0 && (
        <Note tone="warn">
          <p>{whole(stats.data.damaged_lines)} lines of trace files could not be read and were passed over; the log names the files.</p>
        </Note>
      )}
      <Loaded from={found}>
        {({ traces, complete }) => (
          <>
            {!complete && (
              <Note>
                <p>The search stopped at its bound. Narrow the filters.</p>
              </Note>
            )}
            <Card flush>
              <Table
                label="Traces"
                rows={traces}
                columns={COLUMNS}
                rowKey={(row) => row.trace_id}
                rowTo={(row) => path("traces", row.trace_id)}
                empty={<Empty title="No matching traces" />}
              />
            </Card>
          </>
        )}
      </Loaded>
    </>
  );
}

function Search({ wanted }: { wanted: Record<string, string> }) {
  const [id, setId] = useState("");
  return (
    <div class="toolbar">
      <form
        class="inline-form"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          const parts = id.trim().split("/");
          if (parts.length === 3) go(path("traces", "message", ...parts));
          else if (id.trim()) go(path("traces", id.trim()));
        }}
      >
        <TextField label="Trace, or topic/partition/offset" data-search mono value={id} onChange={setId} />
        <Button type="submit" icon="search">
          Open
        </Button>
      </form>
      <Late label="Topic" value={wanted["topic"] ?? ""} onChange={(topic) => setQueryFields({ topic })} />
      <Late label="Group" value={wanted["group"] ?? ""} onChange={(group) => setQueryFields({ group })} />
      <SelectField
        label="Status"
        value={wanted["status"] ?? ""}
        onChange={(status) => setQueryFields({ status })}
        choices={[{ value: "", label: "Any" }, ...STATUSES.map((each) => ({ value: each, label: each.replaceAll("_", " ") }))]}
      />
      <SelectField label="When" value={wanted["since"] ?? ""} onChange={(since) => setQueryFields({ since })} choices={SPANS} />
      <Late
        label="Slower than, ms"
        value={wanted["slower"] ?? ""}
        isNumber
        onChange={(slower) => setQueryFields({ slower })}
      />
    </div>
  );
}

/** A field whose text is searched for once nobody writes on. */
function Late({
  label,
  value,
  isNumber = false,
  onChange,
}: {
  label: string;
  value: string;
  isNumber?: boolean;
  onChange: (value: string) => void;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = window.setTimeout(() => onChange(text.trim()), WRITING_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
  return (
    <TextField
      label={label}
      inputMode={isNumber ? "numeric" : "text"}
      value={text}
      onChange={(next) => setText(isNumber ? next.replace(/\D/g, "") : next)}
    />
  );
}

export function TraceBadge({ status }: { status: string }) {
  return <Badge tone={statusTone(status)}>{status.replaceAll("_", " ")}</Badge>;
}

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

function statusTone(status: string): Tone {
  if (status === "completed") return "good";
  if (status === "failed" || status === "expired") return "bad";
  return status === "retrying" ? "warn" : status === "in_progress" ? "accent" : "neutral";
}

/** What went wrong first, then what may be about to. */
const RANKS: Record<string, number> = { failed: 0, expired: 0, retrying: 1 };

function worstFirst(traces: readonly TraceSummary[]): TraceSummary[] {
  const rank = (each: TraceSummary) => RANKS[each.status] ?? 2;
  return [...traces].sort((one, other) => rank(one) - rank(other) || other.duration_ms - one.duration_ms || other.start - one.start);
}

/** How long a trace is beside the longest of the list. */
function DurationBar({ ms, most, tone }: { ms: number; most: number; tone: Tone }) {
  const width = most > 0 ? Math.max((ms / most) * 100, 1) : 1;
  return (
    <svg class="duration-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width="100" height="8" />
      <rect class={tone} width={width} height="8" />
    </svg>
  );
}

function columnsOf(traces: readonly TraceSummary[]): Column<TraceSummary>[] {
  const most = Math.max(0, ...traces.map((each) => each.duration_ms));
  const bar: Column<TraceSummary> = {
    id: "bar",
    title: "",
    head: <span class="unseen">Duration as a bar</span>,
    minor: true,
    cell: (row) => <DurationBar ms={row.duration_ms} most={most} tone={statusTone(row.status)} />,
  };
  const at = COLUMNS.findIndex((column) => column.id === "took") + 1;
  return [...COLUMNS.slice(0, at), bar, ...COLUMNS.slice(at)];
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
  { id: "took", title: "Duration", number: true, minor: true, sort: (row) => row.duration_ms, cell: (row) => milliseconds(row.duration_ms) },
  { id: "events", title: "Events", number: true, minor: true, sort: (row) => row.spans, cell: (row) => whole(row.spans) },
];

const FIELDS = ["topic", "group", "status", "since", "slower"] as const;

type Answer = { traces: TraceSummary[]; complete: boolean };

const SHOWN = 200;

/** The newest that match; without a status, failed ones that are older as well. */
async function searched(wanted: Record<string, string>, signal: AbortSignal): Promise<Answer> {
  const ask = (status: string) =>
    api.get<Answer>("/traces/search", {
      signal,
      query: {
        topic: wanted["topic"],
        consumer_group: wanted["group"],
        status,
        start: wanted["since"] ? Date.now() - Number(wanted["since"]) : null,
        min_duration: wanted["slower"],
        limit: SHOWN,
      },
    });
  const status = wanted["status"] ?? "";
  const found = await Promise.all(status ? [ask(status)] : [ask(""), ask("failed"), ask("expired")]);
  const traces = new Map(found.flatMap((each) => each.traces).map((each) => [each.trace_id, each]));
  return { traces: worstFirst([...traces.values()]), complete: found.every((each) => each.complete) };
}

export function TracesPage() {
  const { query } = usePlace();
  const wanted = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  const found = useResource(
    (signal) => searched(wanted, signal),
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
      <Chips wanted={wanted} />
      {stats.data && stats.data.damaged_lines > 0 && (
        <Note tone="warn">
          <p>{whole(stats.data.damaged_lines)} lines of trace files could not be read and were skipped; the log names the files.</p>
        </Note>
      )}
      <Loaded from={found}>
        {({ traces, complete }) => (
          <>
            {!complete && (
              <Note>
                <p>The search reached its limit. Narrow the filters.</p>
              </Note>
            )}
            <Card flush>
              <Table
                label="Traces"
                rows={traces}
                columns={columnsOf(traces)}
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

const CHIPS: { label: string; fields: { status: string; slower: string } }[] = [
  { label: "All, failed first", fields: { status: "", slower: "" } },
  { label: "Failed", fields: { status: "failed", slower: "" } },
  { label: "Expired", fields: { status: "expired", slower: "" } },
  { label: "Retrying", fields: { status: "retrying", slower: "" } },
  { label: "In progress", fields: { status: "in_progress", slower: "" } },
  { label: "Slower than 1 s", fields: { status: "", slower: "1000" } },
  { label: "Slower than 10 s", fields: { status: "", slower: "10000" } },
];

function Chips({ wanted }: { wanted: Record<string, string> }) {
  return (
    <div class="chips" role="group" aria-label="Quick filters">
      {CHIPS.map(({ label, fields }) => (
        <button
          key={label}
          type="button"
          class="chip-button"
          aria-pressed={wanted["status"] === fields.status && wanted["slower"] === fields.slower}
          onClick={() => setQueryFields(fields)}
        >
          {label}
        </button>
      ))}
    </div>
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

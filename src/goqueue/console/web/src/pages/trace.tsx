// One message's journey: every event after the other, as bars on a line of time.
import { useEffect, useState } from "preact/hooks";
import { useWidth } from "../kit/chart";
import { Card, CopyButton, Facts, Loaded, PageHead, Plain, Stat, Time } from "../kit/parts";
import { api, path } from "../lib/api";
import { duration, milliseconds, whole } from "../lib/format";
import { oneLine } from "../lib/content";
import { useResource } from "../lib/resource";
import { Link, type Params } from "../lib/router";
import { TraceBadge, type TraceSummary } from "./traces";

type Span = {
  span_id: string;
  parent_id: string | null;
  event: string;
  timestamp: number;
  timestamp_ns: number;
  duration_ms: number;
  topic: string | null;
  partition: number | null;
  offset: number | null;
  priority: string | null;
  consumer_group: string | null;
  consumer: string | null;
  receipt: string | null;
  deliver_at: number | null;
  delay_ms: number | null;
  error: string | null;
  node: string;
  attributes: Record<string, string>;
};

type Trace = Omit<TraceSummary, "spans"> & { spans: Span[] };

const NEW_MS = 3000;
const OLD_MS = 30_000;
const OVER = ["completed", "failed", "cancelled", "expired"];

/** How often to ask again: an old trace is looked for in files, and one that is over does not change. */
function pace(trace: Trace | undefined): number {
  if (!trace) return NEW_MS;
  if (OVER.includes(trace.status)) return 0;
  return Date.now() - trace.end > 60_000 ? OLD_MS : NEW_MS;
}

/** `/traces/:id`, or by the place of a message: `/traces/message/:topic/:partition/:offset`. */
export function TracePage({ params }: { params: Params }) {
  const { id, topic, partition, offset } = params;
  const at =
    id !== undefined
      ? path("traces", id)
      : path("topics", topic ?? "", "partitions", partition ?? "", "messages", offset ?? "", "trace");
  const [everyMs, setEvery] = useState(NEW_MS);
  const trace = useResource((signal) => api.get<Trace>(at, { signal }), [at], { everyMs });
  useEffect(() => setEvery(trace.problem ? 0 : pace(trace.data)), [trace.data, trace.problem]);
  return (
    <>
      <PageHead
        title={id ?? `${topic} ${partition}/${offset}`}
        above={<Link to="/traces">Traces</Link>}
        lead={trace.data && <TraceBadge status={trace.data.status} />}
        actions={trace.data && <CopyButton text={trace.data.trace_id} label="Copy trace id" />}
      />
      <Loaded from={trace}>{(found) => <Journey trace={found} />}</Loaded>
    </>
  );
}

function Journey({ trace }: { trace: Trace }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const span = trace.spans.find((each) => each.span_id === chosen) ?? trace.spans[0];
  return (
    <>
      <div class="stats">
        <Stat label="Duration" value={milliseconds(trace.duration_ms)} />
        <Stat label="Events" value={whole(trace.spans.length)} />
        <Stat
          label="Message"
          value={trace.topic === null ? "–" : oneLine(`${trace.topic} ${trace.partition ?? "–"}/${trace.offset ?? "–"}`, 60)}
          {...(trace.topic !== null && trace.offset !== null
            ? { to: `${path("topics", trace.topic)}?tab=messages&partition=${trace.partition}&offset=${trace.offset}` }
            : {})}
        />
        <Stat label="Started" value={<Time ms={trace.start} />} />
      </div>
      <Card title="Events">
        <Waterfall spans={trace.spans} chosen={span?.span_id ?? null} onChoose={setChosen} />
      </Card>
      {span && <SpanCard span={span} />}
    </>
  );
}

const ROW = 28;
/** What names and times take beside the bars; with names cut short where there is little room. */
const ASIDE = 248;
const ASIDE_NARROW = 216;
const NARROW = 500;

function Waterfall({
  spans,
  chosen,
  onChoose,
}: {
  spans: Span[];
  chosen: string | null;
  onChoose: (id: string) => void;
}) {
  const [element, width] = useWidth<HTMLDivElement>();
  const ends = spans.map((span) => span.timestamp_ns / 1e6);
  const begins = spans.map((span, at) => (ends[at] as number) - span.duration_ms);
  const from = Math.min(...begins);
  const whole = Math.max(Math.max(...ends) - from, 0.001);
  const room = Math.max(40, width - (width < NARROW ? ASIDE_NARROW : ASIDE));
  const x = (moment: number) => ((moment - from) / whole) * (room - 8);
  return (
    <div ref={element}>
      <ol class="waterfall" aria-label="Events in order">
        {spans.map((span, at) => {
          const start = begins[at] as number;
          const end = ends[at] as number;
          const isChosen = span.span_id === chosen;
          return (
            <li key={span.span_id}>
              <button
                type="button"
                class={isChosen ? "span chosen" : "span"}
                aria-pressed={isChosen}
                onClick={() => onChoose(span.span_id)}
              >
                <span class="span-name">{span.event}</span>
                <svg width={room} height={ROW - 8} aria-hidden="true">
                  <line class="span-line" x1="0" x2={room} y1={(ROW - 8) / 2} y2={(ROW - 8) / 2} />
                  <rect
                    class={span.error ? "span-bar bad" : `span-bar ${span.event.split(".")[0]}`}
                    x={x(start)}
                    y="3"
                    width={Math.max(4, x(end) - x(start))}
                    height={ROW - 14}
                    rx="2"
                  />
                </svg>
                <span class="num muted">+{milliseconds(end - from)}</span>
              </button>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function SpanCard({ span }: { span: Span }) {
  const said: [string, string | null][] = [
    ["Group", span.consumer_group],
    ["Consumer", span.consumer],
    ["Priority", span.priority],
    ["Delay", span.delay_ms === null ? null : duration(span.delay_ms)],
    ["Receipt", span.receipt],
    ["Error", span.error],
    ...Object.entries(span.attributes).map(([name, value]): [string, string] => [name, value]),
    ["Node", span.node],
    ["Span", span.span_id],
    ["Parent", span.parent_id],
  ];
  return (
    <Card title={span.event}>
      <Facts
        items={[
          ["When", <Time ms={span.timestamp} />],
          ["Duration", milliseconds(span.duration_ms)],
          ...(span.topic !== null
            ? [["Message", <Plain text={`${span.topic} ${span.partition ?? "–"}/${span.offset ?? "–"}`} />] as [string, preact.JSX.Element]]
            : []),
          ...(span.deliver_at !== null ? [["Due", <Time ms={span.deliver_at} />] as [string, preact.JSX.Element]] : []),
          ...said
            .filter((each): each is [string, string] => Boolean(each[1]))
            .map(([name, value]): [string, preact.JSX.Element] => [oneLine(name, 60), <Plain text={value} most={1000} />]),
        ]}
      />
    </Card>
  );
}

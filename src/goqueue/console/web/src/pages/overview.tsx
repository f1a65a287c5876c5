// The first page: health, what needs attention, and rates.
import { Gauge } from "../kit/chart";
import { HistoryCard, HistoryChart } from "../kit/history";
import { Icon } from "../kit/icons";
import { type Range, RangePicker, useRange } from "../kit/range";
import { Badge, Bones, Card, Empty, Facts, PageHead, Stat, Status, type Tone } from "../kit/parts";
import { api } from "../lib/api";
import {
  bytes,
  bytesPerSecond,
  count,
  duration,
  milliseconds,
  percent,
  perSecond,
  whole,
} from "../lib/format";
import { connection, overview } from "../lib/live";
import { BASE, Link } from "../lib/router";
import { useResource } from "../lib/resource";
import { session } from "../lib/session";
import { useStore } from "../lib/store";
import type { Attention, NodeHistory, Overview, Percentiles, Severity } from "../lib/types";

export function OverviewPage() {
  const data = useStore(overview);
  const who = useStore(session);
  const range = useRange();
  const history = useResource(
    (signal) => api.get<NodeHistory>("/history", { signal, query: { range: range.value } }),
    [range.value],
    { everyMs: range.everyMs, skip: !data },
  );
  if (!data) {
    return (
      <>
        <PageHead title="Overview" />
        {who?.allowed.see_cluster === false ? (
          <Empty title="You may not see the cluster overview">
            It needs the right to describe the cluster. Ask an administrator for it, or go to{" "}
            <Link to="/topics">the topics</Link> that you may see.
          </Empty>
        ) : (
          <Bones lines={8} />
        )}
      </>
    );
  }
  return (
    <>
      <PageHead title="Overview" actions={<Health data={data} />} />
      <NeedsAttention items={data.attention} />
      <Rates data={data} />
      <Charts range={range} history={history.data} />
      <div class="grid-3">
        <Latency data={data} range={range} history={history.data} />
        <Contents data={data} />
        <Machine data={data} />
      </div>
    </>
  );
}

function Health({ data }: { data: Overview }) {
  if (useStore(connection) === "away") return <Status tone="neutral">Unknown</Status>;
  const failing = Object.entries(data.health.checks).filter(([, said]) => said !== "ok");
  const tone: Tone = data.health.status === "ready" ? "good" : "bad";
  return (
    <span class="health">
      <Status tone={tone}>{data.health.status === "ready" ? "Healthy" : data.health.status}</Status>
      {failing.map(([name, said]) => (
        <Badge key={name} tone="bad">
          {name}: {said}
        </Badge>
      ))}
      <span class="muted num">up {duration(data.uptime_ms)}</span>
    </span>
  );
}

const TONES: Record<Severity, Tone> = { critical: "bad", warning: "warn", info: "neutral" };

function NeedsAttention({ items }: { items: Attention[] }) {
  if (!items.length) {
    return (
      <section class="calm" aria-label="Needs attention">
        <Icon name="ok" />
        <span>Nothing needs attention.</span>
      </section>
    );
  }
  return (
    <section class="card flush" aria-label="Needs attention">
      <header class="card-head">
        <h2>Needs attention</h2>
        <Badge tone={TONES[items[0]?.severity ?? "info"]}>{items.length}</Badge>
      </header>
      <ul class="attention">
        {items.map((item, at) => (
          <AttentionRow key={at} {...item} />
        ))}
      </ul>
    </section>
  );
}

function AttentionRow({ severity, title, detail, link }: Attention) {
  const inner = (
    <>
      <span class={`mark ${TONES[severity]}`}>
        <Icon name={severity} />
        <span class="unseen">{severity}: </span>
      </span>
      <span class="attention-text">
        <strong>{title}</strong>
        <span class="muted">{detail}</span>
      </span>
      {link && <Icon name="right" />}
    </>
  );
  return (
    <li>
      {link.startsWith(`${BASE}/`) ? (
        <Link to={link.slice(BASE.length)}>{inner}</Link>
      ) : (
        <div>{inner}</div>
      )}
    </li>
  );
}

function Rates({ data }: { data: Overview }) {
  const { rates, totals } = data;
  return (
    <div class="stats">
      <Stat label="Published" value={perSecond(rates.published_per_s)} extra={`${bytesPerSecond(rates.bytes_in_per_s)} in`} />
      <Stat label="Consumed" value={perSecond(rates.consumed_per_s)} extra={`${bytesPerSecond(rates.bytes_out_per_s)} out`} />
      <Stat label="Acknowledged" value={perSecond(rates.acked_per_s)} extra={`${whole(totals.in_flight)} in flight`} />
      <Stat
        label="Failed"
        value={perSecond(rates.failed_per_s)}
        tone={rates.failed_per_s > 0 ? "bad" : "neutral"}
        extra={`${whole(totals.retrying)} waiting for redelivery`}
        to="/queues"
      />
      <Stat
        label="Publish p99"
        value={milliseconds(data.latency_ms.publish.p99)}
        extra={`p50 ${milliseconds(data.latency_ms.publish.p50)}`}
      />
      <Stat
        label="Dead letters"
        value={count(totals.dead_letters)}
        tone={totals.dead_letters > 0 ? "warn" : "neutral"}
        extra={`${count(totals.delayed)} delayed`}
        to="/dead-letters"
      />
    </div>
  );
}

function Charts({ range, history }: { range: Range; history: NodeHistory | undefined }) {
  return (
    <section aria-label="Charts" class="stack">
      <div class="range-head">
        <RangePicker range={range} />
      </div>
      <div class="grid-2">
        <HistoryCard
          title="Messages per second"
          history={history}
          range={range}
          label="Messages per second"
          format={count}
          series={[
            { name: "Published", of: "published_per_s" },
            { name: "Consumed", of: "consumed_per_s" },
            { name: "Failed", of: "failed_per_s", tone: "bad" },
          ]}
        />
        <HistoryCard
          title="Lag, all groups"
          history={history}
          range={range}
          label="Lag of all groups"
          format={count}
          series={[{ name: "Lag", of: "lag", tone: "three" }]}
        />
      </div>
    </section>
  );
}

function Latency({ data, range, history }: { data: Overview; range: Range; history: NodeHistory | undefined }) {
  const { latency_ms: latency } = data;
  return (
    <Card title="Latency, last minute">
      <table class="inset">
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">Operation</span>
            </th>
            <th scope="col" class="num">
              p50
            </th>
            <th scope="col" class="num">
              p95
            </th>
            <th scope="col" class="num">
              p99
            </th>
          </tr>
        </thead>
        <tbody>
          <LatencyRow name="Publish" found={latency.publish} />
          <LatencyRow name="Fetch" found={latency.fetch} />
          <LatencyRow name="Acknowledge" found={latency.ack} />
        </tbody>
      </table>
      <HistoryChart
        history={history}
        range={range}
        label="99th percentile of publishing"
        format={milliseconds}
        height={104}
        series={[{ name: "Publish p99", of: "publish_p99_ms", tone: "two" }]}
      />
    </Card>
  );
}

function LatencyRow({ name, found }: { name: string; found: Percentiles }) {
  return (
    <tr>
      <th scope="row">{name}</th>
      <td class="num">{milliseconds(found.p50)}</td>
      <td class="num">{milliseconds(found.p95)}</td>
      <td class="num">{milliseconds(found.p99)}</td>
    </tr>
  );
}

function Contents({ data: { totals } }: { data: Overview }) {
  return (
    <Card title="Totals">
      <Facts
        items={[
          ["Messages", whole(totals.messages)],
          ["Size", bytes(totals.bytes)],
          ["Topics", <Link to="/topics">{whole(totals.topics)}</Link>],
          ["Partitions", whole(totals.partitions)],
          ["Groups", <Link to="/groups">{whole(totals.groups)}</Link>],
          ["Consumers", whole(totals.consumers)],
          ["Connections", whole(totals.connections)],
          ["Delayed messages", <Link to="/delayed">{whole(totals.delayed)}</Link>],
          ["Open transactions", <Link to="/transactions">{whole(totals.open_transactions)}</Link>],
          ["Schema subjects", <Link to="/schemas">{whole(totals.subjects)}</Link>],
        ]}
      />
    </Card>
  );
}

function Machine({ data: { disk, process, version, node_id: node } }: { data: Overview }) {
  return (
    <Card title="Node">
      <div class="gauges">
        {disk && <Share name="Disk" used={disk.used_bytes} of={disk.total_bytes} format={bytes} />}
        {process?.open_files && process.max_open_files && (
          <Share name="Open files" used={process.open_files} of={process.max_open_files} format={whole} />
        )}
      </div>
      <Facts
        items={[
          ["Free disk space", bytes(disk?.free_bytes)],
          ["Memory", bytes(process?.rss_bytes)],
          ["Event loop lag", milliseconds(process?.loop_lag_ms)],
          ["Garbage collection", `${milliseconds(process?.gc_pause_ms)} in total`],
          ["Node", String(node)],
          ["Version", version],
        ]}
      />
    </Card>
  );
}

function Share(props: { name: string; used: number; of: number; format: (value: number) => string }) {
  const { name, used, of, format } = props;
  const share = of ? used / of : 0;
  return (
    <div>
      <span>{name}</span>
      <span class="num muted">
        {format(used)} of {format(of)}
      </span>
      <Gauge share={share} label={`${name}: ${percent(share)} used`} />
    </div>
  );
}

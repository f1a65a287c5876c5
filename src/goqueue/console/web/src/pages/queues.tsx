// Work queues: messages in flight, retries, dead letters, and how lanes share deliveries.
import { Badge, Card, Empty, Facts, Loaded, PageHead, Stat, Ago, useInSight } from "../kit/parts";
import { useRange } from "../kit/range";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { api, path } from "../lib/api";
import { percent, settingDuration, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { Link, setQueryFields, useQueryField } from "../lib/router";
import type { GroupHistory } from "../lib/types";
import { GroupCharts } from "./group";
import { QueueSettings } from "./queue-settings";

type Reliability = {
  delivered: number;
  acknowledgement: { acks: number; nacks: number; releases: number; rejects: number; extensions: number };
  visibility: { tracked: number; in_flight: number; waiting: number; expired: number };
  dead_letters: { routed: number; reasons: Record<string, number>; pending: number };
};

type ReliabilityStats = {
  total: Reliability;
  groups: Record<string, Reliability>;
  expired: Record<string, number>;
  redriven: Record<string, number>;
};

type Lane = {
  weight: number;
  ready: number;
  in_flight: number;
  served: number;
  boosts: number;
  last_served: number | null;
};

type Lanes = { mode: string; starvation_timeout: number; lanes: Record<string, Lane> };

type Row = Reliability & { group: string };

const COLUMNS: Column<Row>[] = [
  {
    id: "group",
    title: "Queue group",
    wide: true,
    sort: (row) => row.group,
    cell: (row) => (
      <button type="button" class="link" onClick={() => setQueryFields({ group: row.group })}>
        {row.group}
      </button>
    ),
  },
  { id: "flight", title: "In flight", number: true, sort: (row) => row.visibility.in_flight, cell: (row) => whole(row.visibility.in_flight) },
  { id: "retries", title: "Retries", number: true, sort: (row) => row.visibility.waiting, cell: (row) => whole(row.visibility.waiting) },
  { id: "acks", title: "Acked", number: true, minor: true, sort: (row) => row.acknowledgement.acks, cell: (row) => whole(row.acknowledgement.acks) },
  { id: "nacks", title: "Nacked", number: true, minor: true, sort: (row) => row.acknowledgement.nacks, cell: (row) => whole(row.acknowledgement.nacks) },
  { id: "timeouts", title: "Timed out", number: true, minor: true, sort: (row) => row.visibility.expired, cell: (row) => whole(row.visibility.expired) },
  {
    id: "dead",
    title: "Dead-lettered",
    number: true,
    sort: (row) => row.dead_letters.routed,
    cell: (row) => (row.dead_letters.routed ? <Badge tone="bad">{whole(row.dead_letters.routed)}</Badge> : "0"),
  },
];

export function QueuesPage() {
  const stats = useResource(
    (signal) => api.get<ReliabilityStats>("/reliability/stats", { signal }),
    [],
    { everyMs: 3000, on: ["group"] },
  );
  const all = stats.data && Object.entries(stats.data.groups).map(([group, found]) => ({ ...found, group }));
  const rows = useFiltered(all, (row) => row.group);
  const [chosen, setChosen] = useQueryField("group");
  return (
    <>
      <PageHead
        title="Queues"
        lead="Groups whose members acknowledge each message. Counts are since the broker started; in flight and retries are current."
      />
      <Loaded from={stats}>
        {({ total, expired, redriven }) => (
          <>
            <div class="stats">
              <Stat label="In flight" value={whole(total.visibility.in_flight)} />
              <Stat label="Retries waiting" value={whole(total.visibility.waiting)} />
              <Stat label="Acknowledged" value={whole(total.acknowledgement.acks)} />
              <Stat label="Timed out" value={whole(total.visibility.expired)} tone={total.visibility.expired ? "warn" : "neutral"} />
              <Stat label="Dead-lettered" value={whole(total.dead_letters.routed)} tone={total.dead_letters.routed ? "bad" : "neutral"} to="/dead-letters" />
              <Stat label="Redriven" value={whole(sum(redriven))} />
              <Stat label="TTL expired" value={whole(sum(expired))} />
            </div>
            <div class="toolbar">
              <Filter label="Filter queue groups" />
            </div>
            <Card flush>
              <Table
                label="Queue groups"
                rows={rows}
                columns={COLUMNS}
                rowKey={(row) => row.group}
                onRow={(row) => setChosen(row.group === chosen ? "" : row.group)}
                isCurrent={(row) => row.group === chosen}
                first={{ column: "flight", descending: true }}
                empty={
                  all?.length ? (
                    <Empty title="No matching queue groups" />
                  ) : (
                    <Empty title="No queue groups">
                      A group becomes a queue group when its first member joins as one: over HTTP, with GoQueue's client, or as a
                      Kafka share consumer.
                    </Empty>
                  )
                }
              />
            </Card>
            {chosen && stats.data?.groups[chosen] && <QueueDetail group={chosen} found={stats.data.groups[chosen]} />}
          </>
        )}
      </Loaded>
    </>
  );
}

function QueueDetail({ group, found }: { group: string; found: Reliability }) {
  const range = useRange();
  const history = useResource(
    (signal) => api.get<GroupHistory>(path("groups", group, "history"), { signal, query: { range: range.value } }),
    [group, range.value],
    { everyMs: range.everyMs },
  );
  const lanes = useResource(
    (signal) => api.get<{ priorities: string[]; groups: Record<string, Lanes> }>("/priority/stats", { signal, query: { group } }),
    [group],
    { everyMs: 3000 },
  );
  const reasons = Object.entries(found.dead_letters.reasons);
  const top = useInSight<HTMLDivElement>(group, lanes.data !== undefined);
  return (
    <>
      <div ref={top}>
        <Loaded from={lanes}>
          {(answer) => {
            const mine = answer.groups[group];
            return mine ? <LanesCard group={group} order={answer.priorities} found={mine} /> : <Empty title="No lanes yet" />;
          }}
        </Loaded>
      </div>
      <GroupCharts history={history.data} range={range} isQueue />
      <Card title="Deliveries" actions={<Link to={path("groups", group)}>The group</Link>}>
        <Facts
          items={[
            ["Delivered", whole(found.delivered)],
            ["Acknowledged", whole(found.acknowledgement.acks)],
            ["Nacked", whole(found.acknowledgement.nacks)],
            ["Released", whole(found.acknowledgement.releases)],
            ["Rejected", whole(found.acknowledgement.rejects)],
            ["Extended", whole(found.acknowledgement.extensions)],
            ["Timed out", whole(found.visibility.expired)],
            ...reasons.map(([reason, many]): [string, string] => [`Dead-lettered: ${reason.toLowerCase().replaceAll("_", " ")}`, whole(many)]),
          ]}
        />
      </Card>
      <QueueSettings group={group} />
    </>
  );
}

type LaneRow = Lane & { name: string; place: number; share: number; due: number };

const LANES: Column<LaneRow>[] = [
  { id: "lane", title: "Lane", wide: true, sort: (row) => row.place, cell: (row) => row.name },
  { id: "ready", title: "Ready", number: true, sort: (row) => row.ready, cell: (row) => whole(row.ready) },
  { id: "flight", title: "In flight", number: true, sort: (row) => row.in_flight, cell: (row) => whole(row.in_flight) },
  { id: "served", title: "Served", number: true, sort: (row) => row.served, cell: (row) => whole(row.served) },
  { id: "share", title: "Share (weight)", number: true, minor: true, sort: (row) => row.share, cell: (row) => `${percent(row.share)} (${percent(row.due)})` },
  { id: "boosts", title: "Boosted", number: true, minor: true, sort: (row) => row.boosts, cell: (row) => whole(row.boosts) },
  { id: "last", title: "Last served", minor: true, cell: (row) => (row.last_served ? <Ago ms={row.last_served} /> : "–") },
];

function LanesCard({ group, order, found }: { group: string; order: string[]; found: Lanes }) {
  const weights = sumOf(Object.values(found.lanes).map((lane) => lane.weight));
  const served = sumOf(Object.values(found.lanes).map((lane) => lane.served));
  const rows = order.flatMap((name, place) => {
    const lane = found.lanes[name];
    return lane
      ? [{ ...lane, name, place, share: served ? lane.served / served : 0, due: weights ? lane.weight / weights : 0 }]
      : [];
  });
  return (
    <Card
      title={`Lanes of ${group}`}
      flush
      actions={<span class="muted">boosted to the first lane after {settingDuration(found.starvation_timeout)}</span>}
    >
      <Table label="Lanes" rows={rows} columns={LANES} rowKey={(row) => row.name} first={{ column: "lane" }} />
    </Card>
  );
}

function sum(counts: Record<string, number>): number {
  return sumOf(Object.values(counts));
}

function sumOf(values: number[]): number {
  return values.reduce((total, each) => total + each, 0);
}

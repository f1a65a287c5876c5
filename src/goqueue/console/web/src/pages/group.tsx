// One group: its members and their partitions, its lag over time, and its committed offsets.
import { useState } from "preact/hooks";
import { ask } from "../kit/dialog";
import { HistoryCard } from "../kit/history";
import { Badge, Button, Card, Empty, Loaded, PageHead, Plain, Stat, Status } from "../kit/parts";
import { type Range, RangePicker, useRange } from "../kit/range";
import { type Column, Table } from "../kit/table";
import { api, path } from "../lib/api";
import { count, duration, many, perSecond, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { go, Link, type Params } from "../lib/router";
import type { GroupHistory } from "../lib/types";
import { type GroupLine, kindOf, toneOf } from "./groups";
import { QueueSettings } from "./queue-settings";
import { ResetOffsets } from "./reset-offsets";

type ByTopic = Record<string, Record<string, number>>;

type Member = {
  member_id: string;
  client_id: string;
  client_host: string;
  partitions: Record<string, number[]>;
  unacked: number | null;
};

type PartitionCounts = {
  ready: number;
  in_flight: number;
  waiting: number;
  dead: number;
  committed: number;
  log_end: number;
};

type QueueInfo = {
  ready: number;
  in_flight: number;
  waiting: number;
  dead: number;
  partitions: Record<string, Record<string, PartitionCounts>>;
};

export type GroupInfo = GroupLine & {
  assignor: string;
  members: Member[];
  offsets: ByTopic;
  lag: ByTopic;
  total_lag: number;
  /** The part of the lag in partitions without a committed offset, counted from the log start. */
  uncommitted_lag: number;
  queue: QueueInfo | null;
};

type PartitionRow = {
  topic: string;
  partition: number;
  /** Null where nothing is committed: the lag is then counted from the log start. */
  committed: number | null;
  lag: number;
  owner: string | null;
  counts: PartitionCounts | null;
};

export function GroupPage({ params }: { params: Params }) {
  const name = params["group"] ?? "";
  const group = useResource(
    (signal) => api.get<GroupInfo>(path("groups", name), { signal }),
    [name],
    { everyMs: 3000, on: ["group"] },
  );
  const range = useRange();
  const history = useResource(
    (signal) => api.get<GroupHistory>(path("groups", name, "history"), { signal, query: { range: range.value } }),
    [name, range.value],
    { everyMs: range.everyMs },
  );
  const [isResetting, setResetting] = useState(false);
  return (
    <>
      <PageHead
        title={name}
        above={<Link to="/groups">Groups</Link>}
        lead={group.data && <Status tone={toneOf(group.data.state)}>{group.data.state}</Status>}
        actions={
          <>
            <Button icon="reload" onClick={() => setResetting(true)} disabled={!group.data || !rowsOf(group.data).length}>
              Reset offsets
            </Button>
            <Button kind="danger" icon="trash" onClick={() => askDelete(name, group.data?.member_count ?? 0)} disabled={!group.data}>
              Delete
            </Button>
          </>
        }
      />
      <Loaded from={group}>
        {(found) => (
          <>
            <div class="stats">
              <Stat label="Lag" {...lag(found)} />
              <Stat label="Oldest unconsumed" value={duration(history.data?.oldest_age_ms)} />
              <Stat label="Time to catch up" {...drain(history.data, found)} />
              <Stat label="Members" value={whole(found.member_count)} />
              {found.queue && <Stat label="In flight" value={whole(found.queue.in_flight)} />}
              {found.queue && <Stat label="Retries waiting" value={whole(found.queue.waiting)} />}
            </div>
            <GroupCharts history={history.data} range={range} isQueue={found.queue !== null} />
            <Members group={found} />
            <Partitions group={found} />
            {found.queue && <QueueSettings group={name} />}
          </>
        )}
      </Loaded>
      {isResetting && group.data && (
        <ResetOffsets
          group={group.data}
          onClose={() => setResetting(false)}
          onDone={group.reload}
        />
      )}
    </>
  );
}

function lag(group: GroupInfo): { value: string; extra: string } {
  if (group.queue) {
    // Acknowledged messages after the oldest unacknowledged one count as lag, too.
    const left = group.queue.ready + group.queue.in_flight + group.queue.waiting;
    return { value: whole(group.total_lag), extra: `since the oldest unacknowledged message, ${whole(left)} of them unacknowledged` };
  }
  const extra = group.uncommitted_lag
    ? `messages, ${whole(group.uncommitted_lag)} of them in partitions without a committed offset`
    : "messages";
  return { value: whole(group.total_lag), extra };
}

function drain(history: GroupHistory | undefined, group: GroupInfo): { value: string; extra?: string } {
  if (!history) return { value: "–" };
  if (!group.total_lag) return { value: "0 s" };
  if (history.time_to_drain_ms === null) return { value: "never", extra: "at this rate" };
  return { value: duration(history.time_to_drain_ms) };
}

export function GroupCharts({ history, range, isQueue }: { history: GroupHistory | undefined; range: Range; isQueue: boolean }) {
  const common = { history, range };
  return (
    <section aria-label="Charts" class="stack">
      <div class="range-head">
        <RangePicker range={range} />
      </div>
      <div class="grid-2">
        <HistoryCard title="Lag" {...common} label="Lag of the group, in messages" format={count} series={[{ name: "Lag", of: "lag" }]} />
        <HistoryCard
          title="In and out"
          {...common}
          label="Messages published to its topics, and consumed, per second"
          format={perSecond}
          series={[
            { name: "Published", of: "published_per_s" },
            { name: "Consumed", of: "committed_per_s" },
          ]}
        />
        {isQueue && (
          <>
            <HistoryCard
              title="In flight"
              {...common}
              label="Messages in flight"
              format={count}
              series={[{ name: "In flight", of: "in_flight", tone: "two" }]}
            />
            <HistoryCard
              title="Failures"
              {...common}
              label="Failed deliveries, and messages dead-lettered, per second"
              format={perSecond}
              series={[
                { name: "Failed deliveries", of: "failed_per_s", tone: "three" },
                { name: "Dead-lettered", of: "dead_lettered_per_s", tone: "bad" },
              ]}
            />
          </>
        )}
      </div>
    </section>
  );
}

const MEMBERS: Column<Member>[] = [
  {
    id: "member",
    title: "Member",
    wide: true,
    sort: (row) => row.member_id,
    cell: (row) => <Plain mono text={row.member_id} most={80} />,
  },
  { id: "client", title: "Client", minor: true, sort: (row) => row.client_id, cell: (row) => <Plain text={row.client_id} most={60} /> },
  { id: "host", title: "Host", minor: true, sort: (row) => row.client_host, cell: (row) => row.client_host },
  {
    id: "partitions",
    title: "Partitions",
    cell: (row) => <Plain text={assigned(row)} most={120} />,
  },
  {
    id: "unacked",
    title: "Unacked",
    number: true,
    sort: (row) => row.unacked,
    cell: (row) => whole(row.unacked),
  },
];

function assigned(member: Member): string {
  const parts = Object.entries(member.partitions).map(([topic, numbers]) => `${topic} ${numbers.join(", ")}`);
  return parts.join("; ") || "–";
}

function Members({ group }: { group: GroupInfo }) {
  return (
    <Card title="Members" flush actions={<Badge>{kindOf(group)}</Badge>}>
      <Table
        label="Members"
        rows={group.members}
        columns={group.queue ? MEMBERS : MEMBERS.slice(0, -1)}
        rowKey={(row) => row.member_id}
        empty={<Empty title="No members">Committed offsets are retained for the next member.</Empty>}
      />
    </Card>
  );
}

const PLACES: Column<PartitionRow>[] = [
  {
    id: "topic",
    title: "Topic",
    wide: true,
    sort: (row) => row.topic,
    cell: (row) => <Link to={path("topics", row.topic)}>{row.topic}</Link>,
  },
  { id: "partition", title: "Partition", number: true, sort: (row) => row.partition, cell: (row) => row.partition },
  { id: "committed", title: "Committed offset", number: true, minor: true, sort: (row) => row.committed, cell: (row) => whole(row.committed) },
  { id: "lag", title: "Lag", number: true, sort: (row) => row.lag, cell: (row) => whole(row.lag) },
  {
    id: "owner",
    title: "Owner",
    minor: true,
    sort: (row) => row.owner,
    cell: (row) => (row.owner ? <Plain mono text={row.owner} most={40} /> : "–"),
  },
];

const COUNTED: Column<PartitionRow>[] = [
  { id: "ready", title: "Ready", number: true, minor: true, sort: (row) => row.counts?.ready ?? 0, cell: (row) => whole(row.counts?.ready) },
  { id: "flight", title: "In flight", number: true, sort: (row) => row.counts?.in_flight ?? 0, cell: (row) => whole(row.counts?.in_flight) },
  { id: "retry", title: "Retries", number: true, sort: (row) => row.counts?.waiting ?? 0, cell: (row) => whole(row.counts?.waiting) },
];

function Partitions({ group }: { group: GroupInfo }) {
  const columns = group.queue ? [...PLACES.slice(0, 4), ...COUNTED] : PLACES;
  return (
    <Card title="Partitions" flush>
      <Table
        label="Partitions"
        rows={rowsOf(group)}
        columns={columns}
        rowKey={(row) => `${row.topic}/${row.partition}`}
        first={{ column: "lag", descending: true }}
        empty={<Empty title="No partitions assigned, no offsets committed" />}
      />
    </Card>
  );
}

function rowsOf(group: GroupInfo): PartitionRow[] {
  const owners = new Map<string, string>();
  for (const member of group.members) {
    for (const [topic, numbers] of Object.entries(member.partitions)) {
      for (const number of numbers) owners.set(`${topic}/${number}`, member.client_id || member.member_id);
    }
  }
  const rowOf = (topic: string, number: string, committed: number | null): PartitionRow => ({
    topic,
    partition: Number(number),
    committed,
    lag: group.lag[topic]?.[number] ?? 0,
    owner: owners.get(`${topic}/${number}`) ?? null,
    counts: group.queue?.partitions[topic]?.[number] ?? null,
  });
  const rows = Object.entries(group.offsets).flatMap(([topic, offsets]) =>
    Object.entries(offsets).map(([number, committed]) => rowOf(topic, number, committed)),
  );
  for (const place of owners.keys()) {
    const [topic = "", number = ""] = place.split("/");
    if (group.offsets[topic]?.[number] === undefined) rows.push(rowOf(topic, number, null));
  }
  return rows;
}

function askDelete(name: string, members: number): void {
  ask({
    title: "Delete group",
    danger: true,
    typed: name,
    verb: "Delete group",
    body: (
      <p>
        The group <strong>{name}</strong> and its committed offsets are deleted; messages are kept. A consumer that
        rejoins starts at its auto.offset.reset.
        {members > 0 && ` It has ${many(members, "member")}: stop them first, the broker refuses to delete a group with members.`}
      </p>
    ),
    run: async () => {
      await api.delete(path("groups", name));
      return <p>The group {name} was deleted.</p>;
    },
    then: () => go("/groups"),
  });
}

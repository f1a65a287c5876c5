// The cluster: its nodes, what each leads and holds, and the partitions that lack a replica or a leader.
import { useRef } from "preact/hooks";
import { Badge, Card, Empty, Loaded, Note, PageHead, Plain, Stat, Status, type Tone } from "../kit/parts";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { api } from "../lib/api";
import { bytes, duration, many, NONE, percent, whole } from "../lib/format";
import { overview } from "../lib/live";
import { useResource } from "../lib/resource";
import { Link, useQueryField } from "../lib/router";
import { useStore } from "../lib/store";
import type { Overview } from "../lib/types";

type Node = {
  node_id: number;
  name: string;
  state: string;
  controller: boolean;
  leads: number;
  replicas: number;
  in_sync: number;
  listeners: Record<string, string>;
  rack: string | null;
  version: string;
};

type Partition = {
  topic: string;
  partition: number;
  leader: number | null;
  epoch: number;
  replicas: number[];
  isr: number[];
  elr: number[];
  offline: number[];
  min_isr: number;
};

type Health = {
  status: "healthy" | "degraded" | "unhealthy";
  problems: string[];
  nodes: number;
  active_nodes: number;
  offline_partitions: number;
  under_replicated_partitions: number;
};

/** What a node tells of itself; one that does not answer tells nothing. */
type Told = NonNullable<Overview["nodes"]>[number];
type Row = Node & { told: Told | undefined };

const STATES: Record<string, Tone> = { active: "good", starting: "accent", stopping: "warn", fenced: "bad", away: "bad" };
const EVERY_MS = 2000;
/** Partitions of one answer. */
const MOST = 1000;

const NODES: Column<Row>[] = [
  { id: "node", title: "Node", wide: true, sort: (row) => row.node_id, cell: (row) => <NodeName node={row} /> },
  { id: "state", title: "State", sort: (row) => row.state, cell: (row) => <Status tone={STATES[row.state] ?? "neutral"}>{row.state}</Status> },
  { id: "leads", title: "Leads", number: true, sort: (row) => row.leads, cell: (row) => whole(row.leads) },
  { id: "in_sync", title: "In sync", number: true, sort: (row) => row.in_sync - row.replicas, cell: (row) => `${whole(row.in_sync)} of ${whole(row.replicas)}` },
  { id: "disk", title: "Disk used", number: true, minor: true, sort: (row) => row.told?.disk?.used_bytes ?? 0, cell: (row) => (row.told?.disk ? percent(row.told.disk.used_bytes / row.told.disk.total_bytes) : NONE) },
  { id: "memory", title: "Memory", number: true, minor: true, sort: (row) => row.told?.process?.rss_bytes ?? 0, cell: (row) => bytes(row.told?.process?.rss_bytes) },
  { id: "uptime", title: "Uptime", number: true, minor: true, sort: (row) => row.told?.uptime_ms ?? 0, cell: (row) => duration(row.told?.uptime_ms) },
  { id: "address", title: "Address", minor: true, cell: (row) => <Plain mono text={Object.values(row.listeners)[0] ?? NONE} /> },
  { id: "rack", title: "Rack", minor: true, sort: (row) => row.rack ?? "", cell: (row) => row.rack ?? NONE },
  { id: "version", title: "Version", minor: true, sort: (row) => row.version, cell: (row) => row.version || NONE },
];

const PARTITIONS: Column<Partition>[] = [
  { id: "partition", title: "Partition", wide: true, sort: (row) => `${row.topic}-${row.partition}`, cell: (row) => <PartitionName row={row} /> },
  { id: "leader", title: "Leader", sort: (row) => row.leader ?? -1, cell: (row) => (row.leader === null ? <Badge tone="bad">none</Badge> : `node ${row.leader}`) },
  { id: "isr", title: "In-sync replicas", sort: (row) => row.isr.length - row.replicas.length, cell: (row) => <InSync row={row} /> },
  { id: "min_isr", title: "Minimum", number: true, minor: true, sort: (row) => row.min_isr, cell: (row) => row.min_isr },
  { id: "epoch", title: "Leader epoch", number: true, minor: true, sort: (row) => row.epoch, cell: (row) => row.epoch },
];

export function ClusterPage() {
  const nodes = useResource((signal) => api.get<{ cluster_id: string; nodes: Node[] }>("/cluster/nodes", { signal }), [], { everyMs: EVERY_MS });
  const health = useResource((signal) => api.get<Health>("/cluster/health", { signal }), [], { everyMs: EVERY_MS });
  const said = useStore(overview);
  const told = (node: Node): Told | undefined => said?.nodes?.find((each) => each.node_id === node.node_id) ?? (said?.node_id === node.node_id ? said : undefined);
  return (
    <>
      <PageHead title="Cluster" lead="Nodes, replicas and partition leaders; every node shows the same." />
      {nodes.data && <Unreachable nodes={nodes.data.nodes} />}
      {health.data && <HealthLine health={health.data} />}
      <Loaded from={nodes}>
        {(found) => (
          <Card title="Nodes" flush>
            <Table label="Nodes" rows={found.nodes.map((node) => ({ ...node, told: told(node) }))} columns={NODES} rowKey={(row) => String(row.node_id)} first={{ column: "node" }} empty={<Empty title="No nodes" />} />
          </Card>
        )}
      </Loaded>
      <Partitions />
    </>
  );
}

/** Nodes that do not answer, by name, and what is missing because of it. */
function Unreachable({ nodes }: { nodes: Node[] }) {
  const missing = nodes.filter((each) => each.state === "away" || each.state === "fenced");
  if (missing.length === 0) return null;
  return (
    <Note tone="bad">
      {missing.map((each) => (
        <p key={each.node_id}>
          <strong>{each.name || `node ${each.node_id}`}</strong> is {each.state}: {many(each.replicas - each.in_sync, "replica")} of{" "}
          {whole(each.replicas)} on it {each.replicas - each.in_sync === 1 ? "is" : "are"} not in sync.
        </p>
      ))}
    </Note>
  );
}

function HealthLine({ health }: { health: Health }) {
  return (
    <>
      {health.problems.length > 0 && (
        <Note tone={health.status === "unhealthy" ? "bad" : "warn"}>
          {health.problems.map((each) => (
            <p key={each}>{each}</p>
          ))}
        </Note>
      )}
      <div class="stats">
        <Stat label="Status" value={health.status} />
        <Stat label="Active nodes" value={`${health.active_nodes} of ${health.nodes}`} />
        <Stat label="Under-replicated partitions" value={whole(health.under_replicated_partitions)} />
        <Stat label="Partitions without a leader" value={whole(health.offline_partitions)} />
      </div>
    </>
  );
}

/** Partitions, those that lack something first. Where there are more than one answer holds, the node filters them. */
function Partitions() {
  const [filter] = useQueryField("filter");
  const isCut = useRef(false);
  const asked = isCut.current ? filter : "";
  const found = useResource(
    async (signal) => {
      const query = { limit: MOST, order: "state", filter: asked };
      const answer = await api.get<{ total: number; partitions: Partition[] }>("/cluster/partitions", { query, signal });
      if (!asked) isCut.current = answer.total > answer.partitions.length;
      return answer;
    },
    [asked],
    { everyMs: EVERY_MS },
  );
  const rows = useFiltered(found.data?.partitions, (row) => `${row.topic}-${row.partition} node ${row.leader ?? "none"}`);
  return (
    <>
      <div class="toolbar">
        <Filter label="Filter partitions" />
      </div>
      <Loaded from={found}>
        {({ total, partitions }) => (
          <Card title={many(total, "partition")} flush>
            {total > partitions.length && (
              <Note tone="neutral">
                The first {whole(partitions.length)} of {whole(total)}, those with replicas out of sync before others. Filter
                to see more.
              </Note>
            )}
            <Table
              label="Partitions"
              rows={rows}
              columns={PARTITIONS}
              rowKey={(row) => `${row.topic}-${row.partition}`}
              first={{ column: "isr" }}
              empty={<Empty title={partitions.length || asked ? "No matching partitions" : "No partitions"} />}
            />
          </Card>
        )}
      </Loaded>
    </>
  );
}

function NodeName({ node }: { node: Node }) {
  return (
    <>
      {node.name || `node ${node.node_id}`} {node.controller && <Badge tone="accent">controller</Badge>}
    </>
  );
}

function PartitionName({ row }: { row: Partition }) {
  return (
    <Link to={`/topics/${encodeURIComponent(row.topic)}`}>
      <Plain mono text={`${row.topic}-${row.partition}`} />
    </Link>
  );
}

function InSync({ row }: { row: Partition }) {
  const missing = row.replicas.filter((each) => !row.isr.includes(each));
  if (missing.length === 0) return <>{row.isr.join(", ")}</>;
  const tone: Tone = row.isr.length < row.min_isr ? "bad" : "warn";
  return (
    <>
      {row.isr.join(", ") || NONE} <Badge tone={tone}>without {missing.join(", ")}</Badge>
    </>
  );
}

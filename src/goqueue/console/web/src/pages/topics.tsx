// Every topic, with what it holds.
import { useState } from "preact/hooks";
import { Button, Badge, Card, Empty, Loaded, PageHead } from "../kit/parts";
import { CheckField } from "../kit/form";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { api, path, Problem } from "../lib/api";
import { bytes, NONE, perSecond, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { Link, useQueryField } from "../lib/router";
import { session } from "../lib/session";
import { useStore } from "../lib/store";
import type { TopicInfo } from "../lib/types";
import { NewTopic } from "./new-topic";

type TopicStats = {
  partition_count: number;
  size_bytes: number;
  offset_span: number;
  internal: boolean;
  published_per_s: number;
  failed_partitions: number;
};

type Row = TopicStats & { name: string };

const COLUMNS: Column<Row>[] = [
  {
    id: "name",
    title: "Topic",
    sort: (row) => row.name,
    wide: true,
    cell: (row) => (
      <>
        <Link to={path("topics", row.name)}>{row.name}</Link>{" "}
        {row.internal && <Badge>internal</Badge>}
        {row.failed_partitions > 0 && <Badge tone="bad">{row.failed_partitions} failed</Badge>}
      </>
    ),
  },
  {
    id: "partitions",
    title: "Partitions",
    number: true,
    minor: true,
    sort: (row) => row.partition_count,
    cell: (row) => whole(row.partition_count),
  },
  {
    id: "rate",
    title: "Published",
    number: true,
    minor: true,
    sort: (row) => row.published_per_s,
    cell: (row) => (row.published_per_s > 0 ? perSecond(row.published_per_s) : NONE),
  },
  {
    id: "messages",
    title: "Messages",
    number: true,
    sort: (row) => row.offset_span,
    cell: (row) => whole(row.offset_span),
  },
  {
    id: "size",
    title: "Size",
    number: true,
    sort: (row) => row.size_bytes,
    cell: (row) => bytes(row.size_bytes),
  },
];

/** Who may not see the statistics of the cluster sees the topics that the rights cover, without rates. */
async function readTopics(signal: AbortSignal): Promise<Row[]> {
  try {
    const { topics } = await api.get<{ topics: Record<string, TopicStats> }>("/stats", { signal });
    return Object.entries(topics).map(([name, found]) => ({ ...found, name }));
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 403) throw error;
  }
  const { details } = await api.get<{ details: TopicInfo[] }>("/topics", { signal, query: { details: true } });
  return details.map((each) => ({
    name: each.name,
    partition_count: each.num_partitions,
    size_bytes: each.size_bytes,
    offset_span: each.total_messages,
    internal: each.internal,
    published_per_s: 0,
    failed_partitions: each.partitions.filter((partition) => partition.failure).length,
  }));
}

export function TopicsPage() {
  const stats = useResource(readTopics, [], { everyMs: 5000, on: ["topic"] });
  const [internal, setInternal] = useQueryField("internal");
  const [isMaking, setMaking] = useState(false);
  const who = useStore(session);
  const chosen = stats.data?.filter((row) => internal === "yes" || !row.internal);
  const rows = useFiltered(chosen, (row) => row.name);
  return (
    <>
      <PageHead
        title="Topics"
        actions={
          who?.allowed.create_topics && (
            <Button kind="primary" icon="plus" onClick={() => setMaking(true)}>
              New topic
            </Button>
          )
        }
      />
      <div class="toolbar">
        <Filter label="Filter topics" />
        <CheckField
          label="Internal topics"
          value={internal === "yes"}
          onChange={(yes) => setInternal(yes ? "yes" : "")}
        />
        {chosen && <span class="muted num end">{whole(rows.length)} of {whole(chosen.length)}</span>}
      </div>
      <Loaded from={stats}>
        {() => (
          <Card flush>
            <Table
              label="Topics"
              rows={rows}
              columns={COLUMNS}
              rowKey={(row) => row.name}
              rowTo={(row) => path("topics", row.name)}
              first={{ column: "name" }}
              empty={
                <Empty title={chosen?.length ? "No matching topics" : "No topics"}>
                  {!chosen?.length && "Create one here, or let a Kafka client create it by publishing."}
                </Empty>
              }
            />
          </Card>
        )}
      </Loaded>
      {isMaking && <NewTopic onClose={() => setMaking(false)} />}
    </>
  );
}

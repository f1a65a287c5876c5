// One topic: what it holds, how it is set up, its messages.
import { Badge, Card, Loaded, PageHead, Stat } from "../kit/parts";
import { Table, type Column } from "../kit/table";
import { api, path } from "../lib/api";
import { bytes, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { Link, type Params } from "../lib/router";
import type { PartitionInfo, TopicInfo } from "../lib/types";

const PARTITIONS: Column<PartitionInfo>[] = [
  { id: "partition", title: "Partition", number: true, sort: (row) => row.partition, cell: (row) => row.partition },
  { id: "from", title: "First offset", number: true, sort: (row) => row.earliest_offset, cell: (row) => whole(row.earliest_offset) },
  { id: "to", title: "Next offset", number: true, sort: (row) => row.latest_offset, cell: (row) => whole(row.latest_offset) },
  { id: "messages", title: "Messages", number: true, sort: (row) => row.high_watermark - row.earliest_offset, cell: (row) => whole(row.high_watermark - row.earliest_offset) },
  { id: "size", title: "Size", number: true, sort: (row) => row.size_bytes, cell: (row) => bytes(row.size_bytes) },
  { id: "state", title: "State", wide: true, cell: (row) => (row.failure ? <Badge tone="bad">{row.failure}</Badge> : <Badge tone="good">ok</Badge>) },
];

export function TopicPage({ params }: { params: Params }) {
  const name = params["topic"] ?? "";
  const topic = useResource((signal) => api.get<TopicInfo>(path("topics", name), { signal }), [name], { everyMs: 5000, on: ["topic"] });
  return (
    <>
      <PageHead title={name} above={<Link to="/topics">Topics</Link>} />
      <Loaded from={topic}>
        {(found) => (
          <>
            <div class="stats">
              <Stat label="Messages" value={whole(found.total_messages)} />
              <Stat label="Size" value={bytes(found.size_bytes)} />
              <Stat label="Partitions" value={whole(found.num_partitions)} />
            </div>
            <Card title="Partitions" flush>
              <Table label="Partitions" rows={found.partitions} columns={PARTITIONS} rowKey={(row) => String(row.partition)} first={{ column: "partition" }} />
            </Card>
          </>
        )}
      </Loaded>
    </>
  );
}

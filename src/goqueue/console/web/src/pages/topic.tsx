// One topic: its messages, its partitions, how it is set up.
import { useEffect, useState } from "preact/hooks";
import { Bars } from "../kit/chart";
import { Badge, Button, Card, Loaded, PageHead, Stat, Status, type Tab, Tabs } from "../kit/parts";
import { type Column, Table } from "../kit/table";
import { toast } from "../kit/toasts";
import { api, path, withQuery } from "../lib/api";
import { bytes, many, NONE, settingDuration, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { Link, type Params, useQueryField } from "../lib/router";
import type { Message, PartitionInfo, TopicInfo } from "../lib/types";
import type { GroupLine } from "./groups";
import { wholeOf } from "./message";
import { Messages } from "./messages";
import { PublishDialog } from "./publish";
import { TopicCharts } from "./topic-charts";
import { TopicSettings, useSettings } from "./topic-settings";

export function TopicPage({ params }: { params: Params }) {
  const name = params["topic"] ?? "";
  const topic = useResource(
    (signal) => api.get<TopicInfo>(path("topics", name), { signal }),
    [name],
    { everyMs: 5000, on: ["topic"] },
  );
  const [publishing, setPublishing] = useState<{ from: Message | null } | null>(null);
  const [turn, setTurn] = useState(0);
  const canPublish = topic.data !== undefined && !topic.data.internal;
  const publishAgain = async (message: Message) => {
    try {
      setPublishing({ from: message.truncated ? await wholeOf(message) : message });
    } catch (error) {
      toast.problem(error);
    }
  };
  const [wanted, setWanted] = useQueryField("publish");
  useEffect(() => {
    if (wanted && canPublish) {
      setWanted("");
      setPublishing({ from: null });
    }
  }, [wanted, canPublish]);
  const published = (hasPublished: boolean) => {
    setPublishing(null);
    if (hasPublished) {
      topic.reload();
      setTurn(turn + 1);
    }
  };
  return (
    <>
      <PageHead
        title={name}
        above={<Link to="/topics">Topics</Link>}
        actions={
          canPublish && (
            <Button kind="primary" icon="send" onClick={() => setPublishing({ from: null })}>
              Publish
            </Button>
          )
        }
      />
      <Loaded from={topic}>
        {(found) => (
          <>
            <Summary topic={found} />
            <Parts
              topic={found}
              turn={turn}
              onChanged={topic.reload}
              onPublishAgain={(message) => void publishAgain(message)}
            />
            {publishing && <PublishDialog topic={found} from={publishing.from} onClose={published} />}
          </>
        )}
      </Loaded>
    </>
  );
}

function Summary({ topic }: { topic: TopicInfo }) {
  const failed = topic.partitions.filter((each) => each.failure).length;
  const settings = useSettings(topic).data?.settings;
  const groups = useResource((signal) => api.get<{ groups: GroupLine[] }>("/groups", { signal }), [], {
    everyMs: 15_000,
    on: ["group"],
  });
  const readers = groups.data?.groups.filter((each) => each.topics?.includes(topic.name)).length;
  const inForce = (name: string) => settings?.find((each) => each.name === name)?.value;
  return (
    <div class="stats">
      <Stat label="Messages" value={whole(topic.total_messages)} />
      <Stat label="Size" value={bytes(topic.size_bytes)} />
      <Stat label="Partitions" value={whole(topic.num_partitions)} />
      {!topic.internal && (
        <Stat
          label="Consumer groups"
          value={readers === undefined ? NONE : many(readers, "group")}
          to={withQuery("/groups", { filter: topic.name })}
        />
      )}
      <Stat label="Retention" {...retention(inForce("retention.ms"), inForce("cleanup.policy"))} />
      <Stat
        label="State"
        value={failed ? `${failed} failed` : "Healthy"}
        tone={failed ? "bad" : "neutral"}
        extra={topic.internal ? "internal topic" : undefined}
      />
    </div>
  );
}

/** The retention of the topic, and whether it is compacted. */
function retention(ms: string | undefined, policy: string | undefined): { value: string; extra?: string } {
  if (ms === undefined || policy === undefined) return { value: NONE };
  const newest = policy.includes("compact") ? { extra: "the newest of each key" } : {};
  const isDeleted = policy.includes("delete") && Number(ms) >= 0;
  return { value: isDeleted ? settingDuration(Number(ms)) : "unlimited", ...newest };
}

const TABS: Tab[] = [
  { id: "messages", label: "Messages" },
  { id: "charts", label: "Charts" },
  { id: "partitions", label: "Partitions" },
  { id: "settings", label: "Settings" },
];

function Parts({
  topic,
  turn,
  onChanged,
  onPublishAgain,
}: {
  topic: TopicInfo;
  turn: number;
  onChanged: () => void;
  onPublishAgain: (message: Message) => void;
}) {
  const [named, setTab] = useQueryField("tab", "messages");
  const tab = TABS.some((each) => each.id === named) ? named : "messages";
  return (
    <>
      <Tabs
        label="Sections of the topic"
        current={tab}
        onChoose={setTab}
        tabs={TABS}
      />
      {tab === "messages" && <Messages key={turn} topic={topic} onPublishAgain={onPublishAgain} />}
      {tab === "charts" && <TopicCharts topic={topic.name} />}
      {tab === "partitions" && <Partitions topic={topic} />}
      {tab === "settings" && <TopicSettings topic={topic} onChanged={onChanged} />}
    </>
  );
}

type PartitionRow = PartitionInfo & { topic: string };

const PARTITIONS: Column<PartitionRow>[] = [
  {
    id: "partition",
    title: "Partition",
    number: true,
    sort: (row) => row.partition,
    cell: (row) => <Link to={`${path("topics", row.topic)}?partition=${row.partition}`}>{row.partition}</Link>,
  },
  {
    id: "messages",
    title: "Messages",
    number: true,
    sort: (row) => row.high_watermark - row.earliest_offset,
    cell: (row) => whole(row.high_watermark - row.earliest_offset),
  },
  {
    id: "from",
    title: "First offset",
    number: true,
    minor: true,
    sort: (row) => row.earliest_offset,
    cell: (row) => whole(row.earliest_offset),
  },
  {
    id: "to",
    title: "Next offset",
    number: true,
    minor: true,
    sort: (row) => row.latest_offset,
    cell: (row) => whole(row.latest_offset),
  },
  {
    id: "size",
    title: "Size",
    number: true,
    sort: (row) => row.size_bytes,
    cell: (row) => bytes(row.size_bytes),
  },
  {
    id: "leader",
    title: "Leader",
    number: true,
    minor: true,
    sort: (row) => row.leader,
    cell: (row) => `${row.leader}, epoch ${row.version}`,
  },
  {
    id: "state",
    title: "State",
    wide: true,
    cell: (row) =>
      row.failure ? <Badge tone="bad">{row.failure}</Badge> : <Status tone="good">ok</Status>,
  },
];

function Partitions({ topic }: { topic: TopicInfo }) {
  const largest = [...topic.partitions].sort((one, other) => other.size_bytes - one.size_bytes);
  return (
    <>
      <Card flush>
        <Table
          label="Partitions"
          rows={topic.partitions.map((each) => ({ ...each, topic: topic.name }))}
          columns={PARTITIONS}
          rowKey={(row) => String(row.partition)}
          rowTo={(row) => `${path("topics", topic.name)}?partition=${row.partition}`}
          first={{ column: "partition" }}
        />
      </Card>
      {topic.num_partitions > 1 && (
        <Card title="Largest partitions">
          <Bars
            format={bytes}
            items={largest.slice(0, 8).map((each) => ({
              label: `Partition ${each.partition}`,
              value: each.size_bytes,
            }))}
          />
        </Card>
      )}
    </>
  );
}

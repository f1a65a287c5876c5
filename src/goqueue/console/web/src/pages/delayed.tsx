// Messages that are due later: when they come, and the way to stop one.
import { TimeBars } from "../kit/chart";
import { ask } from "../kit/dialog";
import { Ago, Badge, Button, Card, Empty, Loaded, PageHead, Plain, Stat, Time } from "../kit/parts";
import { type Column, Table } from "../kit/table";
import { SelectField } from "../kit/form";
import { api, path } from "../lib/api";
import { oneLine } from "../lib/content";
import { whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { useQueryField } from "../lib/router";
import type { Encoding } from "../lib/types";

type Stats = {
  scheduled: number;
  delivered: number;
  cancelled: number;
  expired: number;
  pending: number;
  topics: Record<string, number>;
};

type Timeline = { at: number; step_ms: number; counts: number[]; later: number; approximate?: boolean };

type Delayed = {
  id: number;
  topic: string;
  partition: number;
  state: string;
  deliverAt: number;
  publishedAt: number;
  priority: string;
  key: string | null;
  value: string | null;
  encoding: Encoding;
  key_encoding: Encoding;
};

const SHOWN = 200;

export function DelayedPage() {
  const [topic, setTopic] = useQueryField("topic");
  const stats = useResource((signal) => api.get<Stats>("/delay/stats", { signal }), [], { everyMs: 2000 });
  const timeline = useResource(
    (signal) => api.get<Timeline>("/delay/timeline", { signal, query: { topic, buckets: 60 } }),
    [topic],
    { everyMs: 5000 },
  );
  const topics = Object.entries(stats.data?.topics ?? {}).sort();
  const chosen = topic || topics[0]?.[0] || "";
  return (
    <>
      <PageHead title="Delayed" lead="Stored messages that are delivered later. They survive a restart." />
      <Loaded from={stats}>
        {(found) => (
          <>
            <div class="stats">
              <Stat label="Pending" value={whole(found.pending)} />
              <Stat label="Scheduled" value={whole(found.scheduled)} extra="since the broker started" />
              <Stat label="Delivered" value={whole(found.delivered)} />
              <Stat label="Cancelled" value={whole(found.cancelled)} />
            </div>
            {timeline.data && found.pending > 0 && <Coming found={timeline.data} topic={topic} />}
            {topics.length > 0 ? (
              <>
                <div class="toolbar">
                  <SelectField
                    label="Topic"
                    value={chosen}
                    onChange={setTopic}
                    choices={topics.map(([name, many]) => ({ value: name, label: `${oneLine(name, 80)} (${whole(many)})` }))}
                  />
                </div>
                <Pending topic={chosen} onChange={stats.reload} />
              </>
            ) : (
              <Empty title="No delayed messages">
                Publish with a delay, as in <code>goqueue produce orders -m hello -d 10m</code>, or from a topic's page.
              </Empty>
            )}
          </>
        )}
      </Loaded>
    </>
  );
}

function Coming({ found, topic }: { found: Timeline; topic: string }) {
  const columns = found.counts.map((value, at) => ({
    from: found.at + at * found.step_ms,
    to: found.at + (at + 1) * found.step_ms,
    value,
  }));
  return (
    <Card
      title={topic ? `Due times of ${oneLine(topic, 100)}` : "Due times, all topics"}
      actions={
        <span class="muted">
          {[found.later > 0 && `${whole(found.later)} later than this`, found.approximate && "approximate"].filter(Boolean).join(", ")}
        </span>
      }
    >
      <TimeBars label="Delayed messages by due time" columns={columns} format={whole} />
    </Card>
  );
}

function Pending({ topic, onChange }: { topic: string; onChange: () => void }) {
  const found = useResource(
    (signal) => api.get<{ total: number; messages: Delayed[] }>(path("topics", topic, "delayed"), { signal, query: { limit: SHOWN } }),
    [topic],
    { everyMs: 3000 },
  );
  const reload = () => {
    found.reload();
    onChange();
  };
  const columns: Column<Delayed>[] = [
    { id: "due", title: "Due", sort: (row) => row.deliverAt, cell: (row) => <Ago ms={row.deliverAt} /> },
    { id: "at", title: "At", minor: true, cell: (row) => <Time ms={row.deliverAt} /> },
    { id: "id", title: "Id", number: true, minor: true, sort: (row) => row.id, cell: (row) => row.id },
    { id: "partition", title: "Partition", number: true, minor: true, sort: (row) => row.partition, cell: (row) => row.partition },
    { id: "priority", title: "Priority", minor: true, cell: (row) => <Badge>{row.priority}</Badge> },
    { id: "key", title: "Key", cell: (row) => (row.key === null ? "–" : <Plain mono text={row.key} most={40} />) },
    { id: "value", title: "Value", wide: true, minor: true, cell: (row) => (row.value === null ? "–" : <Plain mono text={row.value} most={120} />) },
    {
      id: "cancel",
      title: "",
      cell: (row) => (
        <Button kind="danger" onClick={() => askCancel(row, reload)} aria-label={`Cancel message ${row.id}`}>
          Cancel
        </Button>
      ),
    },
  ];
  return (
    <Loaded from={found}>
      {({ total, messages }) => (
        <Card flush title={total > messages.length ? `The first ${whole(messages.length)} of ${whole(total)}, as published` : "Pending"}>
          <Table
            label="Delayed messages"
            rows={messages}
            columns={columns}
            rowKey={(row) => String(row.id)}
            first={{ column: "due" }}
            empty={<Empty title="No delayed messages in this topic" />}
          />
        </Card>
      )}
    </Loaded>
  );
}

function askCancel(message: Delayed, onDone: () => void): void {
  ask({
    title: "Cancel a delayed message",
    danger: true,
    verb: "Cancel message",
    body: (
      <p>
        Message <strong>{message.id}</strong> of <strong>{message.topic}</strong>, due <Time ms={message.deliverAt} />, will
        never be delivered. This cannot be taken back.
      </p>
    ),
    run: async () => {
      await api.delete(path("topics", message.topic, "delayed", message.partition, message.id));
      return <p>Message {message.id} is cancelled.</p>;
    },
    then: onDone,
  });
}

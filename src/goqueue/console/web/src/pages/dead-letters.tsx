// Dead-letter queues: topics with dead letters, and redrives of them.
import { Ago, Badge, Button, Card, Empty, Loaded, PageHead, Plain, type Tone } from "../kit/parts";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { toast } from "../kit/toasts";
import { api, path } from "../lib/api";
import { perSecond, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { Link } from "../lib/router";
import type { Redrive } from "./redrive";

type Box = { topic: string; dead_letter_topic: string; total: number; newest_at: number | null };

const BOXES: Column<Box>[] = [
  {
    id: "topic",
    title: "Topic",
    wide: true,
    sort: (row) => row.topic,
    cell: (row) => <Link to={path("dead-letters", row.topic)}>{row.topic}</Link>,
  },
  { id: "total", title: "Dead letters", number: true, sort: (row) => row.total, cell: (row) => whole(row.total) },
  { id: "newest", title: "Newest", sort: (row) => row.newest_at, cell: (row) => (row.newest_at ? <Ago ms={row.newest_at} /> : "–") },
  { id: "box", title: "Dead-letter topic", minor: true, cell: (row) => <Link to={path("topics", row.dead_letter_topic)}>{row.dead_letter_topic}</Link> },
];

export function DeadLettersPage() {
  const boxes = useResource((signal) => api.get<{ topics: Box[] }>("/dlq", { signal }), [], { everyMs: 5000, on: ["topic"] });
  const redrives = useResource((signal) => api.get<{ redrives: Redrive[] }>("/redrives", { signal }), [], { everyMs: 3000 });
  const rows = useFiltered(boxes.data?.topics, (row) => row.topic);
  const sent = (redrives.data?.redrives ?? []).filter((each) => !each.dry_run);
  return (
    <>
      <PageHead title="Dead letters" lead="Dead-lettered messages, stored until they are redriven or purged." />
      <div class="toolbar">
        <Filter label="Filter topics" />
      </div>
      <Loaded from={boxes}>
        {(found) => (
          <Card flush>
            <Table
              label="Topics with dead letters"
              rows={rows}
              columns={BOXES}
              rowKey={(row) => row.topic}
              rowTo={(row) => path("dead-letters", row.topic)}
              first={{ column: "total", descending: true }}
              empty={
                found.topics.length ? (
                  <Empty title="No matching topics" />
                ) : (
                  <Empty title="No dead letters">A message that is rejected, or reaches max_deliveries, is moved here.</Empty>
                )
              }
            />
          </Card>
        )}
      </Loaded>
      {sent.length > 0 && <Redrives found={sent} onChange={redrives.reload} />}
    </>
  );
}

const STATES: Record<string, Tone> = { running: "accent", done: "good", failed: "bad" };

function Redrives({ found, onChange }: { found: Redrive[]; onChange: () => void }) {
  const columns: Column<Redrive>[] = [
    { id: "id", title: "Redrive", number: true, minor: true, sort: (row) => row.id, cell: (row) => row.id },
    { id: "topic", title: "From and to", wide: true, sort: (row) => row.topic, cell: (row) => <Plain text={`${row.topic} → ${row.to}`} /> },
    { id: "state", title: "State", cell: (row) => <Badge tone={STATES[row.state] ?? "neutral"}>{row.state}</Badge> },
    { id: "done", title: "Redriven", number: true, cell: (row) => `${whole(row.done)} of ${whole(row.total)}` },
    { id: "failed", title: "Refused", number: true, minor: true, cell: (row) => whole(row.failed) },
    { id: "rate", title: "Rate limit", number: true, minor: true, cell: (row) => (row.rate ? perSecond(row.rate) : "–") },
    { id: "started", title: "Started", minor: true, sort: (row) => row.started_at, cell: (row) => <Ago ms={row.started_at} /> },
    {
      id: "stop",
      title: "",
      cell: (row) =>
        row.ended_at === null ? (
          <Button
            aria-label={`Stop redrive ${row.id}`}
            onClick={() => {
              void api.delete(path("redrives", row.id)).catch(toast.problem).finally(onChange);
            }}
          >
            Stop
          </Button>
        ) : null,
    },
  ];
  return (
    <Card title="Redrives" flush>
      <Table label="Redrives" rows={[...found].reverse()} columns={columns} rowKey={(row) => String(row.id)} pageSize={10} />
    </Card>
  );
}

// Dead-letter queues: topics with dead letters, their reasons, and redriving them.
import { useState } from "preact/hooks";
import { ask } from "../kit/dialog";
import { SelectField } from "../kit/form";
import { Ago, Badge, Button, Card, Empty, Facts, Lines, Loaded, Note, PageHead, Plain, Time, type Tone, useInSight } from "../kit/parts";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { ValueViewer } from "../kit/value";
import { toast } from "../kit/toasts";
import { api, path } from "../lib/api";
import { bytes, many, perSecond, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { Link, type Params, setQueryFields, useQueryField } from "../lib/router";
import type { Encoding, Header } from "../lib/types";
import { askOne, REASONS, type Redrive, RedriveDialog } from "./redrive";

type Box = { topic: string; dead_letter_topic: string; total: number; newest_at: number | null };

type Letter = {
  partition: number;
  offset: number;
  key: string | null;
  key_encoding: Encoding;
  preview: string | null;
  preview_encoding: Encoding;
  size_bytes: number;
  source_topic: string | null;
  source_partition: number | null;
  source_offset: number | null;
  source_timestamp: number | null;
  group: string | null;
  member: string | null;
  reason: string | null;
  error: string | null;
  deliveries: number | null;
  first_delivery: number | null;
  last_delivery: number | null;
  died_at: number;
  redriven_count: number;
  priority: string;
};

type LetterDetail = Letter & { value: string | null; encoding: Encoding; headers: Header[]; is_redriven: boolean };

type Letters = { topic: string; dead_letter_topic: string | null; total: number; letters: Letter[] };

const SHOWN = 200;

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
                  <Empty title="No topic has that in its name" />
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

// --- One topic's ----------------------------------------------------------------------------------

function placeOf(letter: Letter): string {
  return `${letter.partition}/${letter.offset}`;
}

const LETTERS: Column<Letter>[] = [
  {
    id: "place",
    title: "Offset",
    number: true,
    sort: (row) => row.offset,
    cell: (row) => (
      <button type="button" class="link num" aria-label={`Open letter ${placeOf(row)}`} onClick={() => setQueryFields({ letter: placeOf(row) })}>
        {placeOf(row)}
      </button>
    ),
  },
  { id: "died", title: "Dead-lettered", minor: true, sort: (row) => row.died_at, cell: (row) => <Ago ms={row.died_at} /> },
  { id: "reason", title: "Reason", sort: (row) => row.reason, cell: (row) => <Badge tone="bad">{row.reason ?? "unknown"}</Badge> },
  { id: "group", title: "Group", minor: true, sort: (row) => row.group, cell: (row) => (row.group ? <Link to={path("groups", row.group)}>{row.group}</Link> : "–") },
  { id: "key", title: "Key", minor: true, cell: (row) => (row.key === null ? "–" : <Plain mono text={row.key} most={40} />) },
  { id: "error", title: "Last error", wide: true, sort: (row) => row.error, cell: (row) => <Plain text={row.error ?? "–"} most={120} /> },
  { id: "tries", title: "Tries", number: true, minor: true, sort: (row) => row.deliveries, cell: (row) => whole(row.deliveries) },
];

export function DeadLetterTopicPage({ params }: { params: Params }) {
  const topic = params["topic"] ?? "";
  const [reason, setReason] = useQueryField("reason");
  const [open, setOpen] = useQueryField("letter");
  const [isRedriving, setRedriving] = useState(false);
  const letters = useResource(
    (signal) => api.get<Letters>(path("topics", topic, "dlq"), { signal, query: { limit: SHOWN, reason } }),
    [topic, reason],
    { everyMs: 5000 },
  );
  return (
    <>
      <PageHead
        title={topic}
        above={<Link to="/dead-letters">Dead letters</Link>}
        lead={letters.data && `${letters.data.total === 1 ? "1 message" : `${whole(letters.data.total)} messages`} in the dead-letter queue of this topic.`}
        actions={
          <>
            <Button kind="primary" icon="send" onClick={() => setRedriving(true)} disabled={!letters.data?.total}>
              Redrive
            </Button>
            <Button kind="danger" icon="trash" onClick={() => askPurge(topic, letters.data?.total ?? 0, letters.reload)} disabled={!letters.data?.total}>
              Purge
            </Button>
          </>
        }
      />
      <div class="toolbar">
        <SelectField
          label="Reason"
          value={reason}
          onChange={setReason}
          choices={[{ value: "", label: "Any reason" }, ...REASONS.map((each) => ({ value: each, label: each }))]}
        />
        {letters.data && letters.data.letters.length >= SHOWN && letters.data.total > SHOWN && (
          <span class="muted end">the first {whole(SHOWN)} are shown</span>
        )}
      </div>
      <Loaded from={letters}>
        {(found) => (
          <Card flush>
            <Table
              label="Dead letters"
              rows={found.letters}
              columns={LETTERS}
              rowKey={placeOf}
              onRow={(row) => setOpen(placeOf(row))}
              isCurrent={(row) => placeOf(row) === open}
              empty={<Empty title={reason ? `No dead letters with reason ${reason}` : "No dead letters here"} />}
            />
          </Card>
        )}
      </Loaded>
      {open && <LetterCard topic={topic} place={open} onDone={letters.reload} />}
      {isRedriving && (
        <RedriveDialog topic={topic} reason={reason} onClose={() => setRedriving(false)} onDone={letters.reload} />
      )}
    </>
  );
}

function LetterCard({ topic, place, onDone }: { topic: string; place: string; onDone: () => void }) {
  const [partition = "0", offset = "0"] = place.split("/");
  const letter = useResource(
    (signal) => api.get<LetterDetail>(path("topics", topic, "dlq", partition, offset), { signal }),
    [topic, place],
  );
  const element = useInSight<HTMLDivElement>(place, letter.data !== undefined);
  return (
    <div ref={element}>
      <Card
        title={`Letter ${place}`}
        actions={
          <>
            <Button icon="send" onClick={() => askOne(topic, partition, offset, onDone)} disabled={!letter.data || letter.data.is_redriven}>
              Redrive
            </Button>
            <Button onClick={() => setQueryFields({ letter: "" })}>Close</Button>
          </>
        }
      >
        <Loaded from={letter}>
          {(found) => (
            <div class="stack">
              <Facts
                items={[
                  ["Reason", found.reason ?? "–"],
                  ["Last error", <Lines text={found.error ?? "–"} most={8000} />],
                  [
                    "Original message",
                    found.source_topic ? (
                      <Link to={`${path("topics", found.source_topic)}?tab=messages&partition=${found.source_partition}&offset=${found.source_offset}`}>
                        {found.source_topic} {found.source_partition}/{found.source_offset}
                      </Link>
                    ) : (
                      "–"
                    ),
                  ],
                  ["Trace", found.source_topic ? <Link to={path("traces", "message", found.source_topic, String(found.source_partition), String(found.source_offset))}>Trace of the original message</Link> : "–"],
                  ["Group", found.group ? <Link to={path("groups", found.group)}>{found.group}</Link> : "–"],
                  ["Last member", found.member ?? "–"],
                  ["Tries", whole(found.deliveries)],
                  ["First and last delivery", found.first_delivery && found.last_delivery ? <><Time ms={found.first_delivery} /> – <Time ms={found.last_delivery} /></> : "–"],
                  ["Dead-lettered", <Time ms={found.died_at} />],
                  ["Earlier redrives", many(found.redriven_count, "time")],
                  ["Priority", found.priority],
                  ["Size", bytes(found.size_bytes)],
                ]}
              />
              {found.is_redriven && <Note><p>It was redriven; it is no longer listed.</p></Note>}
              {found.key !== null && <ValueViewer label="Key" value={found.key} encoding={found.key_encoding} />}
              {found.value !== null && <ValueViewer label="Value" value={found.value} encoding={found.encoding} />}
              {found.headers.map((header, at) => (
                <ValueViewer key={at} label={`Header ${header.name}`} value={header.value ?? ""} encoding={header.encoding ?? "text"} />
              ))}
            </div>
          )}
        </Loaded>
      </Card>
    </div>
  );
}

function askPurge(topic: string, total: number, onDone: () => void): void {
  ask({
    title: "Purge dead letters",
    danger: true,
    typed: topic,
    verb: `Remove ${many(total, "letter")}`,
    body: (
      <p>
        Of <strong>{topic}</strong>, <strong>{many(total, "dead letter")}</strong> will be deleted permanently, whatever reason
        is chosen above. The messages that they came from stay in the topic for as long as its retention keeps them.
      </p>
    ),
    run: async () => {
      const found = await api.delete<{ purged: number }>(path("topics", topic, "dlq"), { query: { confirm: true } });
      return <p>Removed: {many(found.purged, "letter")}.</p>;
    },
    then: onDone,
  });
}

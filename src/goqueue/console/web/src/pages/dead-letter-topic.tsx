// The dead letters of one topic: a page of them at a time, or grouped by error; selected, redriven, edited, deleted.
import { useEffect, useState } from "preact/hooks";
import { ask } from "../kit/dialog";
import { Segmented, SelectField } from "../kit/form";
import { Ago, Badge, Button, Card, Empty, IconButton, Loaded, PageHead, Plain } from "../kit/parts";
import { type Column, Table } from "../kit/table";
import { api, path } from "../lib/api";
import { many, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { Link, type Params, setQueryFields, usePlace, useQueryField } from "../lib/router";
import { LetterCard } from "./letter-detail";
import { EditDialog } from "./letter-edit";
import { ErrorTable } from "./letter-errors";
import { type Choice, errorsOf, type Letter, type LetterDetail, type LetterFilter, type Letters, lettersPath, offsetsOf, placeOf } from "./letters";
import { REASONS, RedriveDialog } from "./redrive";

const PAGE = 100;

export function DeadLetterTopicPage({ params }: { params: Params }) {
  const topic = params["topic"] ?? "";
  const { query } = usePlace();
  const [view, setView] = useQueryField("view", "letters");
  const [reason] = useQueryField("reason");
  const error = query.get("error") ?? (query.has("no_error") ? "" : undefined);
  const filter: LetterFilter = { ...(reason ? { reason } : {}), ...(error === undefined ? {} : { error }) };
  const [redriven, setRedriven] = useState<Choice | null>(null);
  const [edited, setEdited] = useState<LetterDetail | null>(null);
  const [turn, setTurn] = useState(0);
  const box = useResource((signal) => api.get<Letters>(path("topics", topic, "dlq"), { signal, query: { limit: 1 } }), [topic, turn], { everyMs: 5000 });
  const total = box.data?.total ?? 0;
  const again = () => setTurn((count) => count + 1);
  const onDelete = (choice: Choice) => askDelete(topic, choice, again);
  return (
    <>
      <PageHead
        title={topic}
        above={<Link to="/dead-letters">Dead letters</Link>}
        lead={box.data && `${many(total, "message")} in the dead-letter queue of this topic.`}
        actions={
          <>
            <Button kind="primary" icon="send" onClick={() => setRedriven({ filter, count: null })} disabled={!total}>
              Redrive
            </Button>
            <Button kind="danger" icon="trash" onClick={() => askPurge(topic, total, again)} disabled={!total}>
              Purge
            </Button>
          </>
        }
      />
      <div class="toolbar">
        <Segmented
          label="Show"
          value={view}
          onChange={setView}
          choices={[
            { value: "letters", label: "Letters" },
            { value: "errors", label: "By error" },
          ]}
        />
        <SelectField
          label="Reason"
          value={reason}
          onChange={(chosen) => setQueryFields({ reason: chosen, cursor: "" })}
          choices={[{ value: "", label: "Any reason" }, ...REASONS.map((each) => ({ value: each, label: each }))]}
        />
        {error !== undefined && view === "letters" && (
          <span class="chip">
            <span class="muted">Last error</span> <Plain text={error || "none"} most={80} />
            <IconButton label="Show all errors" icon="close" onClick={() => setQueryFields({ error: "", no_error: "", cursor: "" })} />
          </span>
        )}
      </div>
      {view === "errors" ? (
        <ErrorTable topic={topic} filter={reason ? { reason } : {}} turn={turn} onRedrive={setRedriven} onDelete={onDelete} />
      ) : (
        <LetterList topic={topic} filter={filter} total={total} turn={turn} onRedrive={setRedriven} onDelete={onDelete} onEdit={setEdited} />
      )}
      {redriven && <RedriveDialog topic={topic} choice={redriven} onClose={() => setRedriven(null)} onDone={again} />}
      {edited && <EditDialog topic={topic} letter={edited} onClose={() => setEdited(null)} onDone={again} />}
    </>
  );
}

function LetterList({
  topic,
  filter,
  total,
  turn,
  onRedrive,
  onDelete,
  onEdit,
}: {
  topic: string;
  filter: LetterFilter;
  total: number;
  turn: number;
  onRedrive: (choice: Choice) => void;
  onDelete: (choice: Choice) => void;
  onEdit: (letter: LetterDetail) => void;
}) {
  const [open, setOpen] = useQueryField("letter");
  const [cursor, setCursor] = useQueryField("cursor");
  const [before, setBefore] = useState<string[]>([]);
  const [chosen, setChosen] = useState<ReadonlyMap<string, Letter>>(new Map());
  const name = JSON.stringify(filter);
  const isFiltered = name !== "{}";
  const letters = useResource(
    (signal) => api.get<Letters>(lettersPath(topic, filter, { limit: PAGE, cursor }), { signal }),
    [topic, name, cursor, turn],
    { everyMs: 5000 },
  );
  const matching = useResource((signal) => errorsOf(topic, filter, signal), [topic, name, turn], { skip: !isFiltered });
  const count = isFiltered ? (matching.data?.letters ?? null) : total;
  useEffect(() => {
    setChosen(new Map());
    setBefore([]);
  }, [topic, name, turn]);
  const toggle = (rows: readonly Letter[], isOn: boolean) => {
    const next = new Map(chosen);
    for (const each of rows) {
      if (isOn) next.set(placeOf(each), each);
      else next.delete(placeOf(each));
    }
    setChosen(next);
  };
  const next = letters.data?.next;
  const one = (place: string): Choice => {
    const [partition = "0", offset = "0"] = place.split("/");
    return { filter: { offsets: { [partition]: [Number(offset)] } }, count: 1 };
  };
  return (
    <div class={open ? "beside open" : "beside"}>
      <Loaded from={letters}>
        {(found) => (
          <Card flush>
            <Selection
              chosen={chosen}
              count={count}
              isFiltered={isFiltered}
              filter={filter}
              onRedrive={onRedrive}
              onDelete={onDelete}
              onClear={() => setChosen(new Map())}
            />
            <Table
              label="Dead letters"
              rows={found.letters}
              columns={columnsOf(found.letters, chosen, toggle)}
              rowKey={placeOf}
              onRow={(row) => setOpen(placeOf(row))}
              isCurrent={(row) => placeOf(row) === open}
              pageSize={PAGE}
              empty={<Empty title={isFiltered ? "No dead letter matches" : "No dead letters here"} />}
            />
            {(cursor || next) && (
              <nav class="pager" aria-label="Pages of dead letters">
                <span class="muted num" aria-live="polite">
                  {count === null ? "" : `${before.length || !cursor ? `${whole(before.length * PAGE + 1)}–${whole(before.length * PAGE + found.letters.length)} of ` : ""}${whole(count)}`}
                </span>
                <IconButton
                  label="Previous page"
                  icon="left"
                  disabled={!cursor}
                  onClick={() => {
                    setCursor(before.at(-1) ?? "");
                    setBefore(before.slice(0, -1));
                  }}
                />
                <IconButton
                  label="Next page"
                  icon="right"
                  disabled={!next}
                  onClick={() => {
                    setBefore([...before, cursor]);
                    setCursor(next ?? "");
                  }}
                />
              </nav>
            )}
          </Card>
        )}
      </Loaded>
      {open && (
        <aside class="beside-detail" aria-label="Opened letter">
          <LetterCard key={`${open} ${turn}`} topic={topic} place={open} onRedrive={() => onRedrive(one(open))} onEdit={onEdit} onDelete={() => onDelete(one(open))} />
        </aside>
      )}
    </div>
  );
}

/** What is selected, and what can be done with it. */
function Selection({
  chosen,
  count,
  isFiltered,
  filter,
  onRedrive,
  onDelete,
  onClear,
}: {
  chosen: ReadonlyMap<string, Letter>;
  count: number | null;
  isFiltered: boolean;
  filter: LetterFilter;
  onRedrive: (choice: Choice) => void;
  onDelete: (choice: Choice) => void;
  onClear: () => void;
}) {
  const [isAll, setAll] = useState(false);
  useEffect(() => {
    if (!chosen.size) setAll(false);
  }, [chosen.size]);
  if (!chosen.size) return null;
  const choice: Choice = isAll ? { filter, count } : { filter: { offsets: offsetsOf(chosen.values()) }, count: chosen.size };
  const rest = count !== null && count > chosen.size;
  return (
    <div class="selection">
      <strong class="num" role="status">
        {isAll ? `All ${count === null ? "" : whole(count)} selected` : `${whole(chosen.size)} selected`}
      </strong>
      {rest && !isAll && (
        <button type="button" class="link" onClick={() => setAll(true)}>
          Select all {whole(count)} {isFiltered ? "that match" : "letters"}
        </button>
      )}
      <button type="button" class="link" onClick={onClear}>
        Clear
      </button>
      <div class="actions">
        <Button icon="send" onClick={() => onRedrive(choice)}>
          Redrive selected
        </Button>
        <Button kind="danger" icon="trash" onClick={() => onDelete(choice)}>
          Delete selected
        </Button>
      </div>
    </div>
  );
}

function columnsOf(
  rows: readonly Letter[],
  chosen: ReadonlyMap<string, Letter>,
  toggle: (rows: readonly Letter[], isOn: boolean) => void,
): Column<Letter>[] {
  const isEach = rows.length > 0 && rows.every((each) => chosen.has(placeOf(each)));
  return [
    {
      id: "chosen",
      title: "Selected",
      head: (
        <input type="checkbox" aria-label="Select all on this page" checked={isEach} onChange={(event) => toggle(rows, event.currentTarget.checked)} />
      ),
      cell: (row) => (
        <input
          type="checkbox"
          aria-label={`Select letter ${placeOf(row)}`}
          checked={chosen.has(placeOf(row))}
          onChange={(event) => toggle([row], event.currentTarget.checked)}
        />
      ),
    },
    ...LETTERS,
  ];
}

const LETTERS: Column<Letter>[] = [
  {
    id: "place",
    title: "Offset",
    number: true,
    cell: (row) => (
      <button type="button" class="link num" aria-label={`Open letter ${placeOf(row)}`} onClick={() => setQueryFields({ letter: placeOf(row) })}>
        {placeOf(row)}
      </button>
    ),
  },
  { id: "died", title: "Dead-lettered", minor: true, cell: (row) => <Ago ms={row.died_at} /> },
  { id: "reason", title: "Reason", minor: true, cell: (row) => <Badge tone="bad">{row.reason ?? "unknown"}</Badge> },
  { id: "error", title: "Last error", wide: true, cell: (row) => <Plain text={row.error ?? "–"} most={160} /> },
  { id: "key", title: "Key", minor: true, cell: (row) => (row.key === null ? "–" : <Plain mono text={row.key} most={24} />) },
  { id: "group", title: "Group", minor: true, cell: (row) => (row.group ? <Link to={path("groups", row.group)}>{row.group}</Link> : "–") },
  { id: "tries", title: "Deliveries", number: true, minor: true, cell: (row) => whole(row.deliveries) },
];

function askDelete(topic: string, { filter, count }: Choice, onDone: () => void): void {
  const what = count === null ? "all dead letters that match" : many(count, "dead letter");
  ask({
    title: "Delete dead letters",
    danger: true,
    verb: count === null ? "Delete them" : `Delete ${many(count, "letter")}`,
    body: (
      <p>
        Of <strong>{topic}</strong>, <strong>{what}</strong> will be deleted: they can no longer be listed or redriven. The
        original messages stay in the topic for as long as its retention keeps them.
      </p>
    ),
    run: async () => {
      const isAll = Object.keys(filter).length === 0;
      const found = await api.post<{ deleted: number }>(path("topics", topic, "dlq", "delete"), isAll ? { all: true } : { filter });
      return <p>Deleted: {many(found.deleted, "letter")}.</p>;
    },
    then: () => {
      setQueryFields({ letter: "", cursor: "" });
      onDone();
    },
  });
}

function askPurge(topic: string, total: number, onDone: () => void): void {
  ask({
    title: "Purge dead letters",
    danger: true,
    typed: topic,
    verb: `Remove ${many(total, "letter")}`,
    body: (
      <p>
        Of <strong>{topic}</strong>, <strong>{many(total, "dead letter")}</strong> will be deleted permanently, whatever is
        selected or filtered below. The original messages stay in the topic for as long as its retention keeps them.
      </p>
    ),
    run: async () => {
      const found = await api.delete<{ purged: number }>(path("topics", topic, "dlq"), { query: { confirm: true } });
      return <p>Removed: {many(found.purged, "letter")}.</p>;
    },
    then: onDone,
  });
}

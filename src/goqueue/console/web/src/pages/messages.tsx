// The messages of a topic: found by place, time, key and text, and opened one by one.
import { useEffect, useState } from "preact/hooks";
import { CheckField, Field, SelectField, TextField } from "../kit/form";
import { Icon } from "../kit/icons";
import { Badge, Button, Card, Empty, Plain, ProblemNote, Time } from "../kit/parts";
import { bytes, whole } from "../lib/format";
import { connection } from "../lib/live";
import { setQueryFields, usePlace } from "../lib/router";
import { useStore } from "../lib/store";
import { clock } from "../lib/theme";
import type { Message, TopicInfo } from "../lib/types";
import { type Found, type Search, useSearch } from "./browse";
import { cellOf, ColumnChooser, useColumns } from "./json-columns";
import { MessageDetail } from "./message";
import { CopyCurl, ExportMenu } from "./message-export";

const FOLLOW_MS = 1500;

const FIELDS = ["partition", "order", "offset", "start", "end", "key", "text", "json"] as const;

/** What the fields of the form hold, and the address; an empty order is the one that fits. */
type Draft = Record<(typeof FIELDS)[number], string>;

function draftOf(query: URLSearchParams): Draft {
  return Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""])) as Draft;
}

/** From an offset or a time one reads on, oldest first; else the newest are wanted. */
function searchOf(draft: Draft): Search {
  const isFrom = draft.offset !== "" || (draft.start !== "" && draft.end === "");
  const order = draft.order || (isFrom ? "oldest" : "newest");
  return { ...draft, order: order === "oldest" ? "oldest" : "newest" };
}

export function Messages({
  topic,
  onPublishAgain,
}: {
  topic: TopicInfo;
  onPublishAgain: (message: Message) => void;
}) {
  const { query } = usePlace();
  const named = draftOf(query);
  const search = searchOf(named);
  const [turn, setTurn] = useState(0);
  const { found, more, stop } = useSearch(topic.name, search, turn);
  const again = () => setTurn((count) => count + 1);
  const [columns, setColumns] = useColumns(topic.name);
  return (
    <>
      <SearchForm topic={topic} named={named} onSearch={again} />
      <Card
        flush
        title="Messages"
        actions={
          <>
            {search.order === "newest" && <Follow isBusy={found.busy} onTurn={again} />}
            <ColumnChooser messages={found.messages} columns={columns} onChoose={setColumns} />
            <ExportMenu topic={topic.name} search={search} />
          </>
        }
      >
        <Results found={found} columns={columns} search={search} isEmpty={topic.total_messages === 0} onPublishAgain={onPublishAgain} />
        <Progress found={found} isFiltered={search.key !== "" || search.text !== "" || search.json !== ""} onMore={more} onStop={stop} />
      </Card>
    </>
  );
}

/** Asks for the newest every other moment, once it is switched on. */
function Follow({ isBusy, onTurn }: { isBusy: boolean; onTurn: () => void }) {
  const [isOn, setOn] = useState(false);
  useEffect(() => {
    if (!isOn || isBusy) return undefined;
    const timer = window.setTimeout(() => {
      if (!document.hidden && connection.value !== "away") onTurn();
    }, FOLLOW_MS);
    return () => window.clearTimeout(timer);
  });
  return <CheckField label="Follow" value={isOn} onChange={setOn} />;
}

function SearchForm({
  topic,
  named,
  onSearch,
}: {
  topic: TopicInfo;
  named: Draft;
  onSearch: () => void;
}) {
  const [draft, setDraft] = useState(named);
  useEffect(() => setDraft(named), Object.values(named));
  const set = (fields: Partial<Draft>) => setDraft({ ...draft, ...fields });
  const submit = (event: Event) => {
    event.preventDefault();
    setQueryFields(draft);
    onSearch();
  };
  const clear = () => {
    setQueryFields(Object.fromEntries(FIELDS.map((name) => [name, ""])));
    onSearch();
  };
  // Browsers ask for times by the clock of their machine, whichever the page shows.
  const whose = useStore(clock) === "utc" ? ", local" : "";
  const isFiltered = FIELDS.some((name) => named[name]);
  const partitions = [
    { value: "", label: "All" },
    ...topic.partitions.map(({ partition }) => ({ value: String(partition), label: String(partition) })),
  ];
  return (
    <form class="search" onSubmit={submit} role="search" aria-label="Search messages">
      <div class="search-what">
        <Field label="Key">
          {(ids) => (
            <input
              {...ids}
              type="text"
              data-search
              class="mono"
              spellcheck={false}
              autocomplete="off"
              value={draft.key}
              onInput={(event) => set({ key: event.currentTarget.value })}
            />
          )}
        </Field>
        <TextField label="Text in value or headers" mono value={draft.text} onChange={(text) => set({ text })} />
        <TextField label="JSON filter" mono placeholder="$.amount > 100 && $.country == 'DE'" value={draft.json} onChange={(json) => set({ json })} />
        <div class="actions">
          <Button type="submit" kind="primary" icon="search">
            Search
          </Button>
          {isFiltered && (
            <Button kind="ghost" onClick={clear}>
              Clear
            </Button>
          )}
        </div>
      </div>
      <div class="search-where">
        <SelectField
          label="Partition"
          value={draft.partition}
          onChange={(partition) => set({ partition, ...(partition ? {} : { offset: "" }) })}
          choices={partitions}
        />
        <TextField
          label="From offset"
          inputMode="numeric"
          value={draft.offset}
          disabled={!draft.partition}
          placeholder={draft.partition ? "" : "choose a partition"}
          onChange={(offset) => set({ offset: offset.replace(/\D/g, "") })}
        />
        <TextField
          label={`From time${whose}`}
          type="datetime-local"
          step="1"
          value={draft.start}
          onChange={(start) => set({ start })}
        />
        <TextField label={`To time${whose}`} type="datetime-local" step="1" value={draft.end} onChange={(end) => set({ end })} />
        <SelectField
          label="Order"
          value={searchOf(draft).order}
          onChange={(order) => set({ order })}
          choices={[
            { value: "newest", label: "Newest first" },
            { value: "oldest", label: "Oldest first" },
          ]}
        />
      </div>
    </form>
  );
}

function Results({
  found,
  columns,
  search,
  isEmpty,
  onPublishAgain,
}: {
  found: Found;
  /** Fields of JSON values. */
  columns: readonly string[];
  search: Search;
  /** The topic has no message at all. */
  isEmpty: boolean;
  onPublishAgain: (message: Message) => void;
}) {
  const [open, setOpen] = useState<string | null>(null);
  const first = found.messages[0];
  useEffect(() => {
    // A link to one message opens it: it is the first from its offset on.
    if (search.offset && first && String(first.offset) === search.offset) setOpen(idOf(first));
  }, [search.offset, search.partition, first?.offset]);
  if (!found.messages.length) {
    if (found.busy || found.problem) return null;
    if (isEmpty) return <Empty title="The topic is empty">Publish a message here, or from any client.</Empty>;
    return (
      <Empty title="No messages">
        {found.scanned > 0
          ? `${whole(found.scanned)} messages scanned, no match.`
          : "No messages in the searched range."}
      </Empty>
    );
  }
  return (
    <div class="table-scroll" role="region" aria-label="Messages" tabIndex={0}>
      <table class="messages">
        <thead>
          <tr>
            <th scope="col">Offset</th>
            <th scope="col" class="minor">
              Time
            </th>
            <th scope="col">Key</th>
            {columns.map((column) => (
              <th key={column} scope="col" class="mono">
                {column}
              </th>
            ))}
            <th scope="col">Value</th>
            <th scope="col" class="num minor">
              Size
            </th>
          </tr>
        </thead>
        <tbody>
          {found.messages.map((message) => {
            const id = idOf(message);
            return (
              <MessageRow
                key={id}
                message={message}
                columns={columns}
                isOpen={id === open}
                onToggle={() => setOpen(id === open ? null : id)}
                onPublishAgain={onPublishAgain}
              />
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function idOf(message: Message): string {
  return `${message.partition}:${message.offset}`;
}

function MessageRow({
  message,
  columns,
  isOpen,
  onToggle,
  onPublishAgain,
}: {
  message: Message;
  columns: readonly string[];
  isOpen: boolean;
  onToggle: () => void;
  onPublishAgain: (message: Message) => void;
}) {
  const follow = (event: MouseEvent) => {
    if ((event.target as HTMLElement).closest("button, a") || window.getSelection()?.toString()) return;
    onToggle();
  };
  return (
    <>
      <tr class="leads" aria-current={isOpen ? "true" : undefined} onClick={follow}>
        <td class="num">
          <button
            type="button"
            class="fold"
            aria-expanded={isOpen}
            onClick={onToggle}
          >
            <Icon name={isOpen ? "down" : "right"} size={12} />
            <span>
              <span class="unseen">Message </span>
              <span class="muted">{message.partition}/</span>
              {message.offset}
            </span>
          </button>
        </td>
        <td class="minor">
          <Time ms={message.timestamp} />
        </td>
        <td class="key">
          <Key message={message} />
        </td>
        {columns.map((column) => (
          <td key={column} class="field-cell">
            <FieldCell message={message} column={column} />
          </td>
        ))}
        <td class="wide">
          {message.priority !== "normal" && (
            <>
              <Badge tone="accent">{message.priority}</Badge>{" "}
            </>
          )}
          <Preview message={message} />
        </td>
        <td class="num minor">{bytes(message.size_bytes)}</td>
      </tr>
      {isOpen && (
        <tr class="detail">
          <td colSpan={5 + columns.length}>
            <MessageDetail
              message={message}
              extra={
                <>
                  <Button icon="send" onClick={() => onPublishAgain(message)}>
                    Publish again…
                  </Button>
                  <CopyCurl message={message} />
                </>
              }
            />
          </td>
        </tr>
      )}
    </>
  );
}

function Key({ message }: { message: Message }) {
  if (message.key === null) return <span class="muted">–</span>;
  if (message.key === "") return <span class="muted">empty</span>;
  return (
    <>
      {message.key_encoding === "base64" && <Badge>bytes</Badge>} <Plain text={message.key} most={60} mono />
    </>
  );
}

function FieldCell({ message, column }: { message: Message; column: string }) {
  const text = cellOf(message, column);
  return text === null ? <span class="muted">–</span> : <Plain text={text} most={60} />;
}

function Preview({ message }: { message: Message }) {
  if (message.decoded) return <Plain text={message.decoded.json} mono />;
  if (message.value === null) return <Badge>tombstone</Badge>;
  if (message.encoding === "base64") {
    return (
      <>
        <Badge>bytes</Badge> <Plain text={message.value} most={80} mono />
      </>
    );
  }
  return message.value === "" ? <span class="muted">empty</span> : <Plain text={message.value} mono />;
}

function Progress({
  found,
  isFiltered,
  onMore,
  onStop,
}: {
  found: Found;
  /** More may have been looked at than was found, by what was searched for. */
  isFiltered: boolean;
  onMore: () => void;
  onStop: () => void;
}) {
  if (!found.busy && !found.problem && !found.messages.length && !found.hasMore) return null;
  return (
    <footer class="progress">
      {found.problem && !found.problem.isAway && <ProblemNote problem={found.problem} />}
      <span class="muted num" role="status">
        {found.busy && found.scanned === 0 && "Reading…"}
        {found.busy && found.scanned > 0 && `${whole(found.scanned)} messages scanned so far…`}
        {!found.busy && found.messages.length > 0 && `${whole(found.messages.length)} shown`}
        {!found.busy && found.messages.length > 0 && isFiltered && `, ${whole(found.scanned)} scanned`}
        {!found.busy && found.messages.length > 0 && !found.hasMore && ". End of the results."}
      </span>
      {found.busy && found.scanned > 0 && <Button onClick={onStop}>Stop</Button>}
      {!found.busy && found.hasMore && <Button onClick={onMore}>Show more</Button>}
    </footer>
  );
}

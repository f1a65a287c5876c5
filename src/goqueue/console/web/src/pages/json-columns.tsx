// Fields of JSON values as columns of the table: which there are, which are shown, remembered for each topic.
import { useEffect, useMemo } from "preact/hooks";
import { CheckField } from "../kit/form";
import { useQueryField } from "../lib/router";
import type { Message } from "../lib/types";

/** Fields that are offered; of values with more, the first. */
const MOST_FIELDS = 60;
const DEEPEST = 4;
/** Messages that are looked into for fields. */
const EXAMINED = 100;
const KEY = "goqueue.columns.";

type Scalar = string | number | boolean | null;

const documents = new WeakMap<Message, unknown>();

/** The value as JSON, decoded by its schema where it names one; undefined if it is none. */
function documentOf(message: Message): unknown {
  if (documents.has(message)) return documents.get(message);
  const text = message.decoded?.json ?? (message.encoding === "text" ? message.value : null);
  let found: unknown;
  try {
    found = text ? (JSON.parse(text) as unknown) : undefined;
  } catch {
    found = undefined;
  }
  documents.set(message, found);
  return found;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Names with a dot in them would not be told from paths: they are not offered. */
function collect(value: unknown, before: string, depth: number, into: Set<string>): void {
  if (!isObject(value) || depth > DEEPEST) return;
  for (const [name, inner] of Object.entries(value)) {
    if (into.size >= MOST_FIELDS) return;
    if (name.includes(".") || name.includes(",")) continue;
    const path = before ? `${before}.${name}` : name;
    if (isObject(inner)) collect(inner, path, depth + 1, into);
    else into.add(path);
  }
}

function fieldsOf(messages: readonly Message[]): string[] {
  const found = new Set<string>();
  for (const message of messages.slice(0, EXAMINED)) collect(documentOf(message), "", 1, found);
  return [...found];
}

/** What a path leads to, as a cell shows it; null if there is nothing. */
export function cellOf(message: Message, path: string): string | null {
  let value = documentOf(message);
  for (const name of path.split(".")) {
    if (!isObject(value)) return null;
    value = value[name];
  }
  if (value === undefined) return null;
  return typeof value === "string" ? value : JSON.stringify(value as Scalar | unknown[]);
}

/** The chosen columns of a topic: those of the address, else those that this browser remembers. */
export function useColumns(topic: string): [string[], (columns: string[]) => void] {
  const [named, setNamed] = useQueryField("columns");
  useEffect(() => {
    if (named) return;
    const kept = remembered(topic);
    if (kept) setNamed(kept);
  }, [topic]);
  const columns = useMemo(() => named.split(",").filter(Boolean), [named]);
  const choose = (next: string[]) => {
    const text = next.join(",");
    try {
      localStorage.setItem(KEY + topic, text);
    } catch {
      // storage is forbidden here
    }
    setNamed(text);
  };
  return [columns, choose];
}

function remembered(topic: string): string {
  try {
    return localStorage.getItem(KEY + topic) ?? "";
  } catch {
    return "";
  }
}

export function ColumnChooser({
  messages,
  columns,
  onChoose,
}: {
  messages: readonly Message[];
  columns: string[];
  onChoose: (columns: string[]) => void;
}) {
  const fields = useMemo(() => [...new Set([...columns, ...fieldsOf(messages)])], [messages, columns]);
  if (!fields.length) return null;
  const toggle = (field: string, isOn: boolean) => onChoose(isOn ? [...columns, field] : columns.filter((each) => each !== field));
  return (
    <details class="menu">
      <summary class="button plain">Columns{columns.length > 0 && ` (${columns.length})`}</summary>
      <div class="menu-body" role="group" aria-label="JSON fields as columns">
        {fields.map((field) => (
          <CheckField key={field} label={field} value={columns.includes(field)} onChange={(isOn) => toggle(field, isOn)} />
        ))}
      </div>
    </details>
  );
}

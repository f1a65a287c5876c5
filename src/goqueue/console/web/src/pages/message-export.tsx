// Messages taken elsewhere: files of what a search finds, and the same requests for a shell.
import { toast } from "../kit/toasts";
import { Button } from "../kit/parts";
import { path, withQuery } from "../lib/api";
import { copied } from "../lib/clipboard";
import type { Message } from "../lib/types";
import { type Search, searchFields } from "./browse";

const FORMATS = [
  { format: "jsonl", label: "JSON lines" },
  { format: "csv", label: "CSV" },
  { format: "parquet", label: "Parquet" },
];
/** As many as one file may have. */
const MOST = 100_000;

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function copy(text: string, what: string): void {
  void copied(text).then((isDone) => (isDone ? toast.ok(`${what} is copied.`) : toast.problem(new Error("The browser refused to copy."))));
}

export function ExportMenu({ topic, search }: { topic: string; search: Search }) {
  const at = path("topics", topic, "export");
  const curl = `curl ${quoted(window.location.origin + withQuery(path("topics", topic, "search"), searchFields(search)))}`;
  return (
    <details class="menu">
      <summary class="button plain">Export</summary>
      <div class="menu-body">
        {FORMATS.map(({ format, label }) => (
          <a key={format} href={withQuery(at, { ...searchFields(search), format, limit: MOST })} download={`${topic}.${format}`}>
            {label}
          </a>
        ))}
        <button type="button" class="link" onClick={() => copy(curl, "The search")}>
          Copy as curl
        </button>
        <p class="muted small">Up to 100,000 messages that match the search.</p>
      </div>
    </details>
  );
}

/** The request that publishes a message again. */
export function curlOf(message: Message): string {
  const { key, value, headers, encoding, key_encoding } = message;
  const body = {
    messages: [
      {
        ...(key === null ? {} : { key, ...(key_encoding === "text" ? {} : { key_encoding }) }),
        value,
        ...(encoding === "text" ? {} : { encoding }),
        ...(headers.length ? { headers } : {}),
      },
    ],
  };
  const at = window.location.origin + path("topics", message.topic, "messages");
  return `curl ${quoted(at)} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`;
}

export function CopyCurl({ message }: { message: Message }) {
  if (message.truncated) return null;
  return (
    <Button icon="copy" onClick={() => copy(curlOf(message), "The request that publishes it")}>
      Copy as curl
    </Button>
  );
}

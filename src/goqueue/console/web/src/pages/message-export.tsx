// Messages taken elsewhere: files of what a search finds, and the same requests for a shell.
import { toast } from "../kit/toasts";
import { Button } from "../kit/parts";
import { path, withQuery } from "../lib/api";
import { copied } from "../lib/clipboard";
import { session } from "../lib/session";
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
  void copied(text).then((isDone) => (isDone ? toast.ok(`${what} was copied.`) : toast.problem(new Error("The browser did not allow copying."))));
}

/** What a shell types; the key of a broker that needs one stays in the environment, out of its history. */
function curlFor(at: string, rest = ""): string {
  const login = session.value?.is_required ? ' -H "X-API-Key: $GOQUEUE_API_KEY"' : "";
  return `curl ${quoted(window.location.origin + at)}${login}${rest}`;
}

export function ExportMenu({ topic, search }: { topic: string; search: Search }) {
  const at = path("topics", topic, "export");
  const curl = curlFor(withQuery(path("topics", topic, "search"), searchFields(search)));
  return (
    <details class="menu">
      <summary class="button plain">Export</summary>
      <div class="menu-body">
        {FORMATS.map(({ format, label }) => (
          <a key={format} href={withQuery(at, { ...searchFields(search), format, limit: MOST })} download={`${topic}.${format}`}>
            {label}
          </a>
        ))}
        <button type="button" class="link" onClick={() => copy(curl, "The search request")}>
          Copy as curl
        </button>
        <p class="muted small">Up to 100,000 messages that match the search.</p>
      </div>
    </details>
  );
}

/** The request that publishes a message again. */
function curlOf(message: Message): string {
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
  const rest = ` -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`;
  return curlFor(path("topics", message.topic, "messages"), rest);
}

export function CopyCurl({ message }: { message: Message }) {
  if (message.truncated) return null;
  return (
    <Button icon="copy" onClick={() => copy(curlOf(message), "The publish request")}>
      Copy as curl
    </Button>
  );
}

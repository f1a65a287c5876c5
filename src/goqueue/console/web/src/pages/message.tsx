// One message, whole: where it is, its headers, its key, its value as it is and as its schema reads it.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Facts, Note, Plain, ProblemNote, Time } from "../kit/parts";
import { ValueViewer } from "../kit/value";
import { api, path } from "../lib/api";
import { bytes, whole } from "../lib/format";
import { Link } from "../lib/router";
import type { Header, Message } from "../lib/types";

/** Longer keys have a viewer of their own. */
const LONG_KEY = 80;

type ReadAnswer = { messages: Message[] };

/** `extra` are buttons of the page that shows it: publish again, redrive. */
export function MessageDetail({
  message,
  extra,
}: {
  message: Message;
  extra?: ComponentChildren;
}) {
  const [fetched, setFetched] = useState<Message | null>(null);
  const shown = { ...message, ...fetched };
  return (
    <div class="message">
      <div class="message-side">
        <Facts items={factsOf(message)} />
        {extra && <div class="actions">{extra}</div>}
        <Headers headers={shown.headers} />
      </div>
      <div class="stack message-main">
        {shown.key !== null && (shown.key.length > LONG_KEY || shown.key_encoding === "base64") && (
          <ValueViewer label="Key" value={shown.key} encoding={shown.key_encoding} />
        )}
        <Decoded message={message} />
        {shown.value === null ? (
          <Note>A tombstone: it has no value. Compaction removes older messages of its key.</Note>
        ) : (
          <ValueViewer
            key={fetched ? "whole" : "cut"}
            label={message.decoded ? "Value as stored" : "Value"}
            value={shown.value}
            encoding={shown.encoding}
          />
        )}
        {message.truncated && !fetched && <WholeValue message={message} onFetched={setFetched} />}
      </div>
    </div>
  );
}

function factsOf(message: Message): [string, ComponentChildren][] {
  const found: [string, ComponentChildren][] = [
    ["Partition", whole(message.partition)],
    ["Offset", whole(message.offset)],
    [message.timestamp_type === "append" ? "Appended" : "Time", <Time ms={message.timestamp} />],
    ["Key", message.key === null ? <span class="muted">none</span> : <Plain text={message.key} mono />],
    ["Priority", message.priority],
  ];
  if (message.size_bytes !== undefined) found.push(["Size", bytes(message.size_bytes)]);
  if (message.trace_id) {
    found.push([
      "Trace",
      <Link to={path("traces", message.trace_id)}>
        <span class="mono">{message.trace_id.slice(0, 16)}…</span>
      </Link>,
    ]);
  }
  return found;
}

function Headers({ headers }: { headers: readonly Header[] }) {
  if (!headers.length) return <p class="muted small">No headers.</p>;
  return (
    <table class="headers">
      <caption class="unseen">Headers</caption>
      <thead>
        <tr>
          <th scope="col">Header</th>
          <th scope="col">Value</th>
        </tr>
      </thead>
      <tbody>
        {headers.map((header, at) => (
          <tr key={at}>
            <th scope="row">
              <Plain text={header.name} most={300} mono />
            </th>
            <td>
              {header.value === null ? (
                <span class="muted">no value</span>
              ) : (
                <Plain text={header.value} most={1000} mono />
              )}{" "}
              {header.encoding === "base64" && <Badge>base64</Badge>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Decoded({ message }: { message: Message }) {
  const { decoded, decode_error: error } = message;
  if (error) return <Note tone="warn">The value could not be decoded by the schema that it names: {error}</Note>;
  if (!decoded) return null;
  return (
    <>
      <p class="small">
        <Badge tone="accent">{decoded.format}</Badge>{" "}
        {decoded.subject ? (
          <Link to={path("schemas", decoded.subject)}>
            {decoded.subject}
            {decoded.version !== null && ` version ${decoded.version}`}
          </Link>
        ) : (
          <span class="muted">schema of no subject</span>
        )}{" "}
        <span class="muted">id {decoded.schema_id}</span>
      </p>
      <ValueViewer label="Decoded value" value={decoded.json} />
    </>
  );
}

/** The message with all of its value: lists have no more than the beginning of a long one. */
export async function wholeOf(message: Message): Promise<Message> {
  const { messages } = await api.get<ReadAnswer>(
    path("topics", message.topic, "partitions", message.partition, "messages"),
    { query: { offset: message.offset, limit: 1 } },
  );
  const found = messages[0];
  if (found?.offset !== message.offset) throw new Error("The message is no longer stored.");
  return found;
}

function WholeValue({
  message,
  onFetched,
}: {
  message: Message;
  onFetched: (found: Message) => void;
}) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const fetchIt = async () => {
    setBusy(true);
    setProblem(null);
    try {
      onFetched(await wholeOf(message));
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Note>
        The value is truncated
        {message.size_bytes !== undefined && `: the message has ${bytes(message.size_bytes)}`}.{" "}
        <Button busy={busy} onClick={() => void fetchIt()}>
          Fetch the whole value
        </Button>
      </Note>
      {problem !== null && <ProblemNote problem={problem} />}
    </>
  );
}

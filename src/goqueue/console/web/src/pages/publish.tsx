// The form that publishes a message; it stays open, so that the next one is a small change away.
import { useRef, useState } from "preact/hooks";
import { Dialog } from "../kit/dialog";
import { AreaField, CheckField, Form, Segmented, SelectField, TextField } from "../kit/form";
import { Button, IconButton, Note, Time } from "../kit/parts";
import { api, moment, path, Problem } from "../lib/api";
import { isJson } from "../lib/content";
import { inputTime, whole } from "../lib/format";
import { go } from "../lib/router";
import { type Encoding, type Message, PRIORITIES, type TopicInfo } from "../lib/types";

type Result = {
  status: number;
  partition?: number;
  offset?: number;
  delayed?: boolean;
  deliverAt?: number;
  code?: string;
  error?: string;
  field?: string;
};

type Draft = {
  value: string;
  encoding: Encoding;
  isTombstone: boolean;
  key: string;
  keyEncoding: Encoding;
  partition: string;
  priority: string;
  when: "now" | "delay" | "at";
  delay: string;
  at: string;
  headers: { name: string; value: string; encoding: Encoding }[];
};

const ENCODINGS = [
  { value: "text", label: "Text" },
  { value: "base64", label: "Base64" },
];

function draftOf(message: Message | null): Draft {
  return {
    value: message?.value ?? "",
    encoding: message?.encoding ?? "text",
    isTombstone: message !== null && message.value === null,
    key: message?.key ?? "",
    keyEncoding: message?.key_encoding ?? "text",
    partition: "",
    priority: message?.priority ?? "normal",
    when: "now",
    delay: "5m",
    at: inputTime(Date.now() + 3_600_000),
    headers: (message?.headers ?? [])
      .filter((header) => header.value !== null && !header.name.startsWith("goqueue-"))
      .map((header) => ({ name: header.name, value: header.value ?? "", encoding: header.encoding ?? "text" })),
  };
}

/** The message as the API takes it. Empty keys and defaults are left out. */
function bodyOf(draft: Draft) {
  return {
    value: draft.isTombstone ? null : draft.value,
    ...(draft.isTombstone ? {} : { encoding: draft.encoding }),
    ...(draft.key ? { key: draft.key, key_encoding: draft.keyEncoding } : {}),
    ...(draft.partition ? { partition: Number(draft.partition) } : {}),
    ...(draft.priority === "normal" ? {} : { priority: draft.priority }),
    ...(draft.when === "delay" ? { delay: draft.delay } : {}),
    ...(draft.when === "at" ? { deliver_at: moment(draft.at, "deliver_at") } : {}),
    headers: draft.headers.filter((header) => header.name || header.value),
  };
}

export function PublishDialog({
  topic,
  from,
  onClose,
}: {
  topic: TopicInfo;
  /** A message to start from. */
  from: Message | null;
  onClose: (hasPublished: boolean) => void;
}) {
  const [draft, setDraft] = useState(() => draftOf(from));
  const [result, setResult] = useState<Result | null>(null);
  const count = useRef(0);
  const set = (fields: Partial<Draft>) => {
    setResult(null);
    setDraft((was) => ({ ...was, ...fields }));
  };
  const publish = async () => {
    setResult(null);
    const { results } = await api.post<{ results: Result[] }>(path("topics", topic.name, "messages"), {
      messages: [bodyOf(draft)],
    });
    const found = results[0];
    if (!found || found.status !== 200) {
      throw new Problem(found?.error ?? "No result.", found?.status ?? 0, found?.code ?? "", found?.field ?? null);
    }
    count.current += 1;
    setResult(found);
  };
  const close = () => onClose(count.current > 0);
  return (
    <Dialog title={`Publish to ${topic.name}`} onClose={close} wide>
      <Form verb="Publish" onSubmit={publish} onCancel={close} aside={aside(draft)}>
        <ValueFields draft={draft} set={set} />
        <div class="form-grid">
          <TextField
            label="Key"
            name="key"
            mono
            value={draft.key}
            onChange={(key) => set({ key })}
            hint={draft.keyEncoding === "base64" && "In base64, because it is not UTF-8."}
          />
          <SelectField
            label="Partition"
            name="partition"
            value={draft.partition}
            onChange={(partition) => set({ partition })}
            choices={[
              { value: "", label: draft.key ? "By key hash" : "Round-robin" },
              ...topic.partitions.map(({ partition }) => ({ value: String(partition), label: String(partition) })),
            ]}
          />
          <SelectField
            label="Priority"
            name="priority"
            value={draft.priority}
            onChange={(priority) => set({ priority })}
            choices={PRIORITIES.map((value) => ({ value, label: value }))}
          />
        </div>
        <Delivery draft={draft} set={set} />
        <HeaderFields draft={draft} set={set} />
        <div role="status" aria-live="polite">
          {result && <Published topic={topic.name} result={result} onClose={close} />}
        </div>
      </Form>
    </Dialog>
  );
}

type Part = { draft: Draft; set: (fields: Partial<Draft>) => void };

function aside(draft: Draft): string {
  if (draft.isTombstone || draft.encoding === "base64" || !draft.value) return "";
  return isJson(draft.value) ? "The value is JSON." : "The value is plain text.";
}

function ValueFields({ draft, set }: Part) {
  return (
    <>
      {!draft.isTombstone && (
        <AreaField label="Value" name="value" rows={8} value={draft.value} onChange={(value) => set({ value })} />
      )}
      <div class="toolbar">
        {!draft.isTombstone && (
          <Segmented
            label="Encoding of the value"
            value={draft.encoding}
            onChange={(encoding) => set({ encoding: encoding as Encoding })}
            choices={ENCODINGS}
          />
        )}
        <CheckField
          label="No value (a tombstone)"
          value={draft.isTombstone}
          onChange={(isTombstone) => set({ isTombstone })}
        />
      </div>
    </>
  );
}

function Delivery({ draft, set }: Part) {
  return (
    <div class="toolbar">
      <Segmented
        label="Delivered"
        value={draft.when}
        onChange={(when) => set({ when: when as Draft["when"] })}
        choices={[
          { value: "now", label: "Deliver now" },
          { value: "delay", label: "After a delay" },
          { value: "at", label: "At a time" },
        ]}
      />
      {draft.when === "delay" && (
        <div class="short">
          <TextField
            label="Delay"
            name="delay"
            value={draft.delay}
            onChange={(delay) => set({ delay })}
            hint="30s, 5m, 1h30m"
          />
        </div>
      )}
      {draft.when === "at" && (
        <div class="short">
          <TextField
            label="Deliver at, local time"
            name="deliver_at"
            type="datetime-local"
            step="1"
            value={draft.at}
            onChange={(at) => set({ at })}
          />
        </div>
      )}
    </div>
  );
}

function HeaderFields({ draft, set }: Part) {
  const change = (at: number, fields: Partial<Draft["headers"][number]>) =>
    set({ headers: draft.headers.map((header, index) => (index === at ? { ...header, ...fields } : header)) });
  return (
    <fieldset class="header-fields">
      <legend class="field-label">Headers</legend>
      {draft.headers.map((header, at) => (
        <div key={at} class="header-row">
          <input
            type="text"
            class="mono"
            aria-label={`Name of header ${at + 1}`}
            placeholder="name"
            value={header.name}
            onInput={(event) => change(at, { name: event.currentTarget.value })}
          />
          <input
            type="text"
            class="mono"
            aria-label={`Value of header ${at + 1}`}
            placeholder={header.encoding === "base64" ? "value in base64" : "value"}
            value={header.value}
            onInput={(event) => change(at, { value: event.currentTarget.value })}
          />
          <IconButton
            label={`Remove header ${at + 1}`}
            icon="close"
            onClick={() => set({ headers: draft.headers.filter((_, index) => index !== at) })}
          />
        </div>
      ))}
      <Button
        kind="ghost"
        icon="plus"
        onClick={() => set({ headers: [...draft.headers, { name: "", value: "", encoding: "text" }] })}
      >
        Add header
      </Button>
    </fieldset>
  );
}

function Published({ topic, result, onClose }: { topic: string; result: Result; onClose: () => void }) {
  if (result.delayed) {
    return (
      <Note tone="good">
        It waits, with the id {whole(result.offset)}, and is delivered{" "}
        {result.deliverAt !== undefined && <Time ms={result.deliverAt} millis={false} />}.
      </Note>
    );
  }
  const show = () => {
    onClose();
    go(`${path("topics", topic)}?partition=${result.partition}&offset=${result.offset}`);
  };
  return (
    <Note tone="good">
      Stored in partition {result.partition} at offset {whole(result.offset)}.{" "}
      <Button kind="ghost" onClick={show}>
        Show message
      </Button>
    </Note>
  );
}

// A dead letter corrected before it is redriven: its key, its value and its headers.
import { useState } from "preact/hooks";
import { Dialog } from "../kit/dialog";
import { AreaField, CheckField, Form, TextField } from "../kit/form";
import { Button, IconButton, Note } from "../kit/parts";
import { api, path, Problem } from "../lib/api";
import { isJson } from "../lib/content";
import type { Encoding, Header } from "../lib/types";
import { type LetterDetail, placeOf } from "./letters";
import { ended, outcome, type Redrive } from "./redrive";

type Draft = { hasKey: boolean; key: string; isTombstone: boolean; value: string; headers: Header[] };

function draftOf(letter: LetterDetail): Draft {
  return {
    hasKey: letter.key !== null,
    key: letter.key ?? "",
    isTombstone: letter.value === null,
    value: letter.value ?? "",
    headers: letter.headers,
  };
}

/** What is different from the letter; the rest of it is not sent, and stays as it is. */
function editOf(letter: LetterDetail, draft: Draft) {
  const key = draft.hasKey ? draft.key : null;
  const value = draft.isTombstone ? null : draft.value;
  const headers = draft.headers.filter((each) => each.name !== "");
  return {
    ...(key !== letter.key ? { key, key_encoding: letter.key_encoding } : {}),
    ...(value !== letter.value ? { value, encoding: letter.encoding } : {}),
    ...(JSON.stringify(headers) !== JSON.stringify(letter.headers) ? { headers } : {}),
  };
}

export function EditDialog({ topic, letter, onClose, onDone }: { topic: string; letter: LetterDetail; onClose: () => void; onDone: () => void }) {
  const [draft, setDraft] = useState(() => draftOf(letter));
  const [to, setTo] = useState("");
  const [result, setResult] = useState<Redrive | null>(null);
  const set = (fields: Partial<Draft>) => setDraft({ ...draft, ...fields });
  const send = async () => {
    const edit = editOf(letter, draft);
    const filter = { offsets: { [letter.partition]: [letter.offset] } };
    const body = { filter, ...(Object.keys(edit).length ? { edit } : {}), ...(to ? { to } : {}) };
    const redrive = await ended(await api.post<Redrive>(path("topics", topic, "dlq", "redrive"), body));
    if (redrive.failed || redrive.state === "failed") {
      throw new Problem(redrive.error ?? "The target topic refused the letter.", 400, "redrive_refused");
    }
    setResult(redrive);
    onDone();
  };
  if (result) {
    return (
      <Dialog title={`Letter ${placeOf(letter)}`} onClose={onClose}>
        <Note tone="good">
          <div role="status">{outcome(result)}</div>
        </Note>
        <footer class="dialog-foot">
          <Button kind="primary" onClick={onClose}>
            Close
          </Button>
        </footer>
      </Dialog>
    );
  }
  const wasJson = letter.encoding === "text" && letter.value !== null && isJson(letter.value);
  return (
    <Dialog title={`Edit and redrive letter ${placeOf(letter)}`} onClose={onClose} wide>
      <Form verb="Redrive" onCancel={onClose} onSubmit={send}>
        <CheckField label="Has a key" value={draft.hasKey} onChange={(hasKey) => set({ hasKey })} />
        {draft.hasKey && (
          <TextField
            label="Key"
            name="key"
            mono
            hint={`${written(letter.key_encoding)}A different key may map to another partition.`}
            value={draft.key}
            onChange={(key) => set({ key })}
          />
        )}
        <CheckField label="Tombstone: no value" value={draft.isTombstone} onChange={(isTombstone) => set({ isTombstone })} />
        {!draft.isTombstone && (
          <AreaField
            label="Value"
            name="value"
            rows={12}
            value={draft.value}
            onChange={(value) => set({ value })}
            hint={
              wasJson && !isJson(draft.value) ? (
                <strong>It is no longer valid JSON.</strong>
              ) : (
                `${written(letter.encoding)}The dead letter itself is not changed.`
              )
            }
          />
        )}
        <HeaderFields headers={draft.headers} onChange={(headers) => set({ headers })} />
        <TextField label="Target topic" name="to" hint="The original topic if empty." value={to} onChange={setTo} />
      </Form>
    </Dialog>
  );
}

function written(encoding: Encoding): string {
  return encoding === "base64" ? "In base64: it is not UTF-8. " : "";
}

function HeaderFields({ headers, onChange }: { headers: Header[]; onChange: (headers: Header[]) => void }) {
  const change = (at: number, fields: Partial<Header>) =>
    onChange(headers.map((each, number) => (number === at ? { ...each, ...fields } : each)));
  return (
    <fieldset class="header-fields">
      <legend class="field-label">Headers</legend>
      {headers.map((header, at) => (
        <div key={at}>
          <input
            type="text"
            class="mono"
            aria-label={`Name of header ${at + 1}`}
            value={header.name}
            onInput={(event) => change(at, { name: event.currentTarget.value })}
          />
          <input
            type="text"
            class="mono"
            aria-label={`Value of header ${at + 1}${header.encoding === "base64" ? ", base64" : ""}`}
            value={header.value ?? ""}
            onInput={(event) => change(at, { value: event.currentTarget.value })}
          />
          <IconButton label={`Remove header ${at + 1}`} icon="close" onClick={() => onChange(headers.filter((_, number) => number !== at))} />
        </div>
      ))}
      <Button icon="plus" onClick={() => onChange([...headers, { name: "", value: "" }])}>
        Add header
      </Button>
    </fieldset>
  );
}

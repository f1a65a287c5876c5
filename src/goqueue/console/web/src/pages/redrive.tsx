// Redriving dead letters: which, how many, how fast, and the result.
import { useState } from "preact/hooks";
import { Dialog } from "../kit/dialog";
import { Form, SelectField, TextField } from "../kit/form";
import { Button, Note, ProblemNote } from "../kit/parts";
import { api, path, wholeNumber } from "../lib/api";
import { many, whole } from "../lib/format";
import type { Choice, LetterFilter } from "./letters";

export type Redrive = {
  id: number;
  topic: string;
  to: string;
  dry_run: boolean;
  state: string;
  total: number;
  done: number;
  failed: number;
  rate: number;
  error: string | null;
  started_at: number;
  ended_at: number | null;
};

export const REASONS = ["MAX_RETRIES_EXCEEDED", "REJECTED", "TTL_EXPIRED", "POISON_MESSAGE", "BACKPRESSURE"];

/** Waits for a redrive to end, and reports its progress. */
export async function ended(redrive: Redrive, onStep?: (found: Redrive) => void): Promise<Redrive> {
  let found = redrive;
  while (found.ended_at === null) {
    onStep?.(found);
    await new Promise((resolve) => window.setTimeout(resolve, 300));
    found = await api.get<Redrive>(path("redrives", found.id));
  }
  return found;
}

export function outcome(redrive: Redrive) {
  return (
    <p>
      {whole(redrive.done)} of {whole(redrive.total)} redriven to {redrive.to}
      {redrive.failed > 0 && `; ${whole(redrive.failed)} were refused and stay in the dead-letter queue`}
      {redrive.error && `: ${redrive.error}`}.
    </p>
  );
}

export function RedriveDialog({ topic, choice, onClose, onDone }: { topic: string; choice: Choice; onClose: () => void; onDone: () => void }) {
  const isOpen = choice.count === null;
  const [chosen, setChosen] = useState(choice.filter.reason ?? "");
  const [group, setGroup] = useState("");
  const [key, setKey] = useState("");
  const [to, setTo] = useState("");
  const [rate, setRate] = useState("");
  const [counted, setCounted] = useState<Redrive | null>(null);
  const [result, setResult] = useState<Redrive | null>(null);
  const [busy, setBusy] = useState(false);
  const [step, setStep] = useState<Redrive | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const { reason: _, ...rest } = choice.filter;
  const filter: LetterFilter = isOpen
    ? { ...rest, ...(chosen ? { reason: chosen } : {}), ...(group ? { group } : {}), ...(key ? { key } : {}) }
    : choice.filter;
  const send = (dryRun: boolean) =>
    api.post<Redrive>(path("topics", topic, "dlq", "redrive"), {
      filter,
      ...(to ? { to } : {}),
      ...(rate.trim() ? { rate: wholeNumber(rate, "rate") } : {}),
      dry_run: dryRun,
    });
  const act = async () => {
    setBusy(true);
    setProblem(null);
    try {
      setResult(await ended(await send(false), setStep));
      onDone();
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title="Redrive dead letters" onClose={onClose}>
      {result ? (
        <>
          <Note tone={result.failed || result.error ? "warn" : "good"}>
            <div role="status">{outcome(result)}</div>
          </Note>
          <footer class="dialog-foot">
            <Button kind="primary" onClick={onClose}>
              Close
            </Button>
          </footer>
        </>
      ) : counted ? (
        <>
          <p>
            Of {topic}, <strong>{many(counted.total, "letter")}</strong> would be redriven to{" "}
            <strong>{counted.to}</strong>
            {rate && `, at most ${rate} a second`}. They keep their keys, values and headers; their delivery counts start again.
          </p>
          {busy && step && (
            <p class="muted num" role="status">
              {whole(step.done)} of {whole(step.total)} redriven so far. The redrive continues when this is closed, and can be cancelled on
              the page of all dead letters.
            </p>
          )}
          {problem !== null && <ProblemNote problem={problem} />}
          <footer class="dialog-foot">
            <Button onClick={() => setCounted(null)} disabled={busy}>
              Back
            </Button>
            <Button kind="primary" busy={busy} disabled={!counted.total} onClick={act}>
              {busy ? "Redriving…" : `Redrive ${whole(counted.total)}`}
            </Button>
          </footer>
        </>
      ) : (
        <Form verb="Preview" onCancel={onClose} onSubmit={async () => setCounted(await send(true))}>
          {isOpen && <><SelectField
            label="Reason"
            name="reason"
            value={chosen}
            onChange={setChosen}
            choices={[{ value: "", label: "Any reason" }, ...REASONS.map((each) => ({ value: each, label: each }))]}
          />
          <TextField label="Group" name="group" hint="The consumer group; any if empty." value={group} onChange={setGroup} />
          <TextField label="Key" name="key" hint="The whole key; any if empty." mono value={key} onChange={setKey} /></>}
          {choice.count !== null && (
            <p>
              <strong>{many(choice.count, "letter")}</strong> selected. Each is published as a new message with its key, value and headers.
            </p>
          )}
          <TextField label="Target topic" name="to" hint="The original topic if empty." value={to} onChange={setTo} />
          <TextField label="Messages per second" name="rate" hint="Unlimited if empty." inputMode="numeric" value={rate} onChange={setRate} />
        </Form>
      )}
    </Dialog>
  );
}

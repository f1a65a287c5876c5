// Redriving dead letters: which, how many, how fast, and the result.
import { useState } from "preact/hooks";
import { ask, Dialog } from "../kit/dialog";
import { Form, SelectField, TextField } from "../kit/form";
import { Button, Note, ProblemNote } from "../kit/parts";
import { api, path, wholeNumber } from "../lib/api";
import { many, whole } from "../lib/format";
import { setQueryFields } from "../lib/router";

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
async function ended(redrive: Redrive, onStep?: (found: Redrive) => void): Promise<Redrive> {
  let found = redrive;
  while (found.ended_at === null) {
    onStep?.(found);
    await new Promise((resolve) => window.setTimeout(resolve, 300));
    found = await api.get<Redrive>(path("redrives", found.id));
  }
  return found;
}

function outcome(redrive: Redrive) {
  return (
    <p>
      {whole(redrive.done)} of {whole(redrive.total)} redriven to {redrive.to}
      {redrive.failed > 0 && `; ${whole(redrive.failed)} were refused and stay in the dead-letter queue`}
      {redrive.error && `: ${redrive.error}`}.
    </p>
  );
}

export function askOne(topic: string, partition: string, offset: string, onDone: () => void): void {
  ask({
    title: "Redrive a dead letter",
    verb: "Redrive",
    body: <p>The message is published to its original topic, with its key, value and headers. Its delivery count starts again.</p>,
    run: async () => {
      const filter = { offsets: { [partition]: [Number(offset)] } };
      return outcome(await ended(await api.post<Redrive>(path("topics", topic, "dlq", "redrive"), { filter })));
    },
    then: () => {
      setQueryFields({ letter: "" });
      onDone();
    },
  });
}

export function RedriveDialog({ topic, reason, onClose, onDone }: { topic: string; reason: string; onClose: () => void; onDone: () => void }) {
  const [chosen, setChosen] = useState(reason);
  const [group, setGroup] = useState("");
  const [key, setKey] = useState("");
  const [to, setTo] = useState("");
  const [rate, setRate] = useState("");
  const [counted, setCounted] = useState<Redrive | null>(null);
  const [result, setResult] = useState<Redrive | null>(null);
  const [busy, setBusy] = useState(false);
  const [step, setStep] = useState<Redrive | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const send = (dryRun: boolean) =>
    api.post<Redrive>(path("topics", topic, "dlq", "redrive"), {
      filter: {
        ...(chosen ? { reason: chosen } : {}),
        ...(group ? { group } : {}),
        ...(key ? { key } : {}),
      },
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
          <SelectField
            label="Reason"
            name="reason"
            value={chosen}
            onChange={setChosen}
            choices={[{ value: "", label: "Any reason" }, ...REASONS.map((each) => ({ value: each, label: each }))]}
          />
          <TextField label="Group" name="group" hint="The consumer group; any if empty." value={group} onChange={setGroup} />
          <TextField label="Key" name="key" hint="The whole key; any if empty." mono value={key} onChange={setKey} />
          <TextField label="Target topic" name="to" hint="The original topic if empty." value={to} onChange={setTo} />
          <TextField label="Messages per second" name="rate" hint="Unlimited if empty." inputMode="numeric" value={rate} onChange={setRate} />
        </Form>
      )}
    </Dialog>
  );
}

// Where a group reads on: chosen, shown before anything happens, then done.
import { useState } from "preact/hooks";
import { Dialog } from "../kit/dialog";
import { Form, SelectField, TextField } from "../kit/form";
import { Button, Note, ProblemNote } from "../kit/parts";
import { type Column, Table } from "../kit/table";
import { api, moment as momentOf, path, wholeNumber } from "../lib/api";
import { inputTime, many, whole } from "../lib/format";
import type { GroupInfo } from "./group";

type Change = {
  topic: string;
  partition: number;
  before: number | null;
  after: number;
  log_start?: number;
  log_end?: number;
};

type Answer = { group: string; dry_run: boolean; changes: Change[] };

const STRATEGIES = [
  { value: "earliest", label: "Earliest: the oldest message" },
  { value: "latest", label: "Latest: new messages only" },
  { value: "timestamp", label: "A time" },
  { value: "offset", label: "An offset" },
];

const COLUMNS: Column<Change>[] = [
  { id: "partition", title: "Partition", number: true, sort: (row) => row.partition, cell: (row) => row.partition },
  { id: "before", title: "Committed offset", number: true, minor: true, cell: (row) => whole(row.before) },
  { id: "after", title: "New offset", number: true, minor: true, cell: (row) => whole(row.after) },
  { id: "effect", title: "Effect", wide: true, cell: (row) => effect(row) },
];

function effect({ before, after }: Change): string {
  if (before === null) return "no committed offset before";
  if (after > before) return `${many(after - before, "message is", "messages are")} skipped`;
  if (after < before) return `${many(before - after, "message is", "messages are")} read again`;
  return "nothing changes";
}

export function ResetOffsets({
  group,
  onClose,
  onDone,
}: {
  group: GroupInfo;
  onClose: () => void;
  onDone: () => void;
}) {
  const places = placesOf(group);
  const topics = [...places.keys()].sort();
  const [topic, setTopic] = useState(topics[0] ?? "");
  const [partition, setPartition] = useState("-1");
  const [strategy, setStrategy] = useState("earliest");
  const [moment, setMoment] = useState(inputTime(Date.now() - 3_600_000));
  const [offset, setOffset] = useState("0");
  const [preview, setPreview] = useState<Answer | null>(null);
  const [result, setResult] = useState<Answer | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const send = (dryRun: boolean) =>
    api.post<Answer>(path("groups", group.group, "offsets", "reset"), {
      topic,
      strategy,
      partition: Number(partition),
      ...(strategy === "timestamp" ? { timestamp: momentOf(moment, "timestamp") } : {}),
      ...(strategy === "offset" ? { offset: wholeNumber(offset, "offset") } : {}),
      dry_run: dryRun,
    });
  const reset = async () => {
    setBusy(true);
    setProblem(null);
    try {
      setResult(await send(false));
      onDone();
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  if (result) {
    return (
      <Dialog title="Reset offsets" onClose={onClose} wide>
        <Note tone="good">
          <p role="status">
            Committed offsets of {group.group} on {topic} were reset: {many(result.changes.length, "partition was", "partitions were")} changed.
          </p>
        </Note>
        <Changes answer={result} />
        <footer class="dialog-foot">
          <Button kind="primary" onClick={onClose}>
            Close
          </Button>
        </footer>
      </Dialog>
    );
  }
  if (preview) {
    return (
      <Dialog title="Reset offsets" onClose={onClose} wide>
        <p>
          This is what a reset of <strong>{group.group}</strong> on <strong>{topic}</strong> would do. Nothing has
          happened yet. {summary(preview.changes)}
        </p>
        <Changes answer={preview} />
        {group.member_count > 0 && (
          <Note tone="warn">
            <p>The group has {many(group.member_count, "member")}. Stop them first: the broker refuses to reset offsets of a group with members.</p>
          </Note>
        )}
        {problem !== null && <ProblemNote problem={problem} />}
        <footer class="dialog-foot">
          <Button onClick={() => setPreview(null)} disabled={busy}>
            Back
          </Button>
          <Button kind="danger" busy={busy} onClick={reset}>
            Reset offsets
          </Button>
        </footer>
      </Dialog>
    );
  }
  return (
    <Dialog title="Reset offsets" onClose={onClose}>
      <Form verb="Preview" onCancel={onClose} onSubmit={async () => setPreview(await send(true))}>
        <SelectField
          label="Topic"
          name="topic"
          value={topic}
          onChange={(next) => {
            setTopic(next);
            setPartition("-1");
          }}
          choices={topics.map((each) => ({ value: each, label: each }))}
        />
        <SelectField
          label="Partition"
          name="partition"
          value={partition}
          onChange={setPartition}
          choices={[
            { value: "-1", label: "All partitions" },
            ...[...(places.get(topic) ?? [])].map((each) => ({ value: String(each), label: String(each) })),
          ]}
        />
        <SelectField label="Reset to" name="strategy" value={strategy} onChange={setStrategy} choices={STRATEGIES} />
        {strategy === "timestamp" && (
          <TextField label="Time, local" name="timestamp" type="datetime-local" step="1" value={moment} onChange={setMoment} />
        )}
        {strategy === "offset" && (
          <TextField label="Offset" name="offset" inputMode="numeric" value={offset} onChange={setOffset} />
        )}
      </Form>
    </Dialog>
  );
}

/** Topics and partitions that the group has committed something of, or whose members have them. */
function placesOf(group: GroupInfo): Map<string, Set<number>> {
  const found = new Map<string, Set<number>>();
  const add = (topic: string, numbers: readonly number[]) =>
    found.set(topic, new Set([...(found.get(topic) ?? []), ...numbers].sort((one, other) => one - other)));
  for (const [topic, offsets] of Object.entries(group.offsets)) add(topic, Object.keys(offsets).map(Number));
  for (const member of group.members) {
    for (const [topic, numbers] of Object.entries(member.partitions)) add(topic, numbers);
  }
  return found;
}

function Changes({ answer }: { answer: Answer }) {
  return (
    <Table
      label="Changes"
      rows={answer.changes}
      columns={COLUMNS}
      rowKey={(row) => String(row.partition)}
      first={{ column: "partition" }}
      pageSize={12}
    />
  );
}

function summary(changes: Change[]): string {
  let skipped = 0;
  let again = 0;
  for (const { before, after } of changes) {
    if (before === null) continue;
    skipped += Math.max(0, after - before);
    again += Math.max(0, before - after);
  }
  const said = [
    skipped > 0 && `${many(skipped, "message")} would be skipped`,
    again > 0 && `${many(again, "message")} would be read again`,
  ].filter(Boolean);
  return said.length ? `In total, ${said.join(" and ")}.` : "No message would be skipped or read again.";
}

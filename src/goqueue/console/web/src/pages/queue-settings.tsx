// Delivery settings of a queue group, and the form that changes them.
import { useState } from "preact/hooks";
import { Dialog } from "../kit/dialog";
import { CheckField, Form, TextField } from "../kit/form";
import { Button, Card, Facts, Loaded, Note } from "../kit/parts";
import { toast } from "../kit/toasts";
import { api, path, Problem, wholeNumber } from "../lib/api";
import { settingDuration, whole } from "../lib/format";
import { useResource } from "../lib/resource";

type Settings = {
  visibility_timeout: number;
  max_deliveries: number;
  backoff: number;
  max_backoff: number;
  max_unacked: number;
  max_waiting: number;
  weights: Record<string, number>;
  starvation_timeout: number;
  dead_letters: boolean;
};

type Answer = { group: string; settings: Settings };

const FIELDS = [
  { name: "visibility_timeout", isDuration: true, hint: "An unacknowledged message is redelivered after this time." },
  { name: "max_deliveries", isDuration: false, hint: "After this many failed deliveries a message is dead-lettered." },
  { name: "backoff", isDuration: true, hint: "Back-off before the first redelivery; doubles each time." },
  { name: "max_backoff", isDuration: true, hint: "Upper bound of the back-off." },
  { name: "max_unacked", isDuration: false, hint: "Unacknowledged messages that a member may hold." },
  { name: "max_waiting", isDuration: false, hint: "Messages of a partition that may wait for a retry; one more is dead-lettered at once." },
  { name: "starvation_timeout", isDuration: true, hint: "A lane that waits this long is served out of turn; 0 disables it." },
] as const;

const UNITS: readonly [string, number][] = [["h", 3_600_000], ["m", 60_000], ["s", 1000], ["ms", 1]];

export function QueueSettings({ group }: { group: string }) {
  const found = useResource(
    (signal) => api.get<Answer>(path("groups", group, "settings"), { signal }),
    [group],
    { everyMs: 5000, on: ["group"] },
  );
  const [isEditing, setEditing] = useState(false);
  return (
    <Loaded from={found}>
      {({ settings }) => (
        <Card
          title="Delivery settings"
          actions={<Button onClick={() => setEditing(true)}>Change settings…</Button>}
        >
          <Facts items={factsOf(settings)} />
          {isEditing && (
            <EditSettings group={group} settings={settings} onClose={() => setEditing(false)} onChanged={found.reload} />
          )}
        </Card>
      )}
    </Loaded>
  );
}

function labelOf(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function factsOf(settings: Settings): [string, string][] {
  const weights = Object.entries(settings.weights).map(([lane, weight]) => `${lane} ${weight}`);
  return [
    ...FIELDS.map(({ name, isDuration }): [string, string] => [
      labelOf(name),
      isDuration ? settingDuration(settings[name]) : whole(settings[name]),
    ]),
    ["Weights", weights.join(", ")],
    ["Dead letters", settings.dead_letters ? "stored" : "dropped"],
  ];
}

/** The settings as they can be typed. */
function draftOf(settings: Settings): Record<string, string> {
  const texts = FIELDS.map(({ name, isDuration }) => [name, isDuration ? asTyped(settings[name]) : String(settings[name])]);
  return {
    ...Object.fromEntries(texts),
    weights: Object.values(settings.weights).join(", "),
    dead_letters: settings.dead_letters ? "stored" : "dropped",
  };
}

/** A duration as the API takes it: 90000 is 90s, 60000 is 1m. */
function asTyped(ms: number): string {
  const [unit, size] = UNITS.find(([, size]) => ms > 0 && ms % size === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

/** What one setting is to be, for the API. */
function valueOf(name: string, text: string): unknown {
  if (name === "dead_letters") return text === "stored";
  if (name === "weights") return text.split(/[\s,:]+/).filter(Boolean).map((each) => wholeNumber(each, name));
  return FIELDS.some((each) => each.name === name && each.isDuration) ? text : wholeNumber(text, name);
}

function EditSettings({
  group,
  settings,
  onClose,
  onChanged,
}: {
  group: string;
  settings: Settings;
  onClose: () => void;
  onChanged: () => void;
}) {
  const [before] = useState(() => draftOf(settings));
  const [draft, setDraft] = useState(before);
  const set = (name: string) => (value: string) => setDraft((now) => ({ ...now, [name]: value }));
  const changed = Object.keys(before).filter((name) => draft[name]?.trim() !== before[name]);
  const change = async () => {
    if (changed.length === 0) throw new Problem("No setting has been changed.", 400, "unchanged");
    const body = changed.map((name) => [name, valueOf(name, draft[name]?.trim() ?? "")]);
    const { settings: now } = await api.put<Answer>(path("groups", group, "settings"), Object.fromEntries(body));
    const facts = new Map(factsOf(now));
    toast.ok(`${group}: ${changed.map((name) => `${labelOf(name)} ${facts.get(labelOf(name))}`).join("; ")}.`);
    onChanged();
    onClose();
  };
  return (
    <Dialog title={`Settings of ${group}`} onClose={onClose} wide>
      <Form verb="Change settings" onSubmit={change} onCancel={onClose}>
        <div class="form-grid">
          {FIELDS.map(({ name, hint }) => (
            <TextField key={name} label={labelOf(name)} name={name} mono value={draft[name] ?? ""} onChange={set(name)} hint={hint} />
          ))}
          <TextField
            label="Weights"
            name="weights"
            mono
            value={draft["weights"] ?? ""}
            onChange={set("weights")}
            hint={`Share of deliveries of each lane: ${Object.keys(settings.weights).join(", ")}.`}
          />
        </div>
        <CheckField
          label="Store dead letters"
          value={draft["dead_letters"] === "stored"}
          onChange={(value) => set("dead_letters")(value ? "stored" : "dropped")}
        />
        <Changes names={changed} before={before} draft={draft} />
      </Form>
    </Dialog>
  );
}

type Draft = Record<string, string>;

function Changes({ names, before, draft }: { names: string[]; before: Draft; draft: Draft }) {
  if (names.length === 0) return null;
  const loses = names.includes("dead_letters") && draft["dead_letters"] !== "stored";
  return (
    <Note tone={loses ? "warn" : "neutral"}>
      <ul>
        {names.map((name) => (
          <li key={name}>
            {labelOf(name)}: {before[name]} → <b>{draft[name]}</b>
          </li>
        ))}
      </ul>
      <p>
        For all members, from now on; messages in flight keep their visibility timeouts.
        {loses && " Messages dead-lettered from then on are dropped."}
      </p>
    </Note>
  );
}

// How a topic is set up, and what can be done to it as a whole.
import { useMemo, useState } from "preact/hooks";
import { ask, Dialog } from "../kit/dialog";
import { CheckField, Form, TextField } from "../kit/form";
import { Badge, Button, Card, Empty, Loaded, Note } from "../kit/parts";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { toast } from "../kit/toasts";
import { api, path, wholeNumber } from "../lib/api";
import { bytes, many, settingDuration, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { go, useQueryField } from "../lib/router";
import type { TopicInfo } from "../lib/types";
import { groupedSettings } from "./setting-groups";

export type Setting = {
  name: string;
  value: string;
  default: string;
  source: string;
  description: string;
  /** `no effect`: Kafka's tools set it, and it changes nothing here. */
  effect: string;
  note: string;
};

type Settings = { topic: string; settings: Setting[] };

type Props = { topic: TopicInfo; onChanged: () => void };

/** All settings with the values that are in force; asked for anew when the topic's own change. */
export function useSettings(topic: TopicInfo) {
  return useResource(
    (signal) => api.get<Settings>(path("topics", topic.name, "settings"), { signal }),
    [topic.name, JSON.stringify(topic.settings)],
  );
}

export function TopicSettings({ topic, onChanged }: Props) {
  const settings = useSettings(topic);
  const [editing, setEditing] = useState<Setting | null>(null);
  const columns = useMemo(() => columnsOf(topic.internal ? null : setEditing), [topic.internal]);
  const rows = useFiltered(
    settings.data?.settings,
    (row) => `${row.name} ${row.description}`,
    "setting",
  );
  const [all, setAll] = useQueryField("all_settings");
  const hidden = (settings.data?.settings ?? []).filter((row) => row.effect !== "obeyed").length;
  const shown = all ? rows : rows.filter((row) => row.effect === "obeyed" || row.source === "topic");
  return (
    <>
      <div class="toolbar">
        <Filter label="Filter settings" name="setting" />
        {hidden > 0 && (
          <CheckField label={`Show ${whole(hidden)} without effect`} value={all !== ""} onChange={(isOn) => setAll(isOn ? "1" : "")} />
        )}
      </div>
      <Loaded from={settings}>
        {() =>
          shown.length ? (
            <>
              {groupedSettings(shown).map(({ title, settings: some }) => (
                <Card key={title} title={title} flush>
                  <Table
                    label={`Settings: ${title}`}
                    rows={some}
                    columns={columns}
                    rowKey={(row) => row.name}
                    {...(topic.internal ? {} : { onRow: setEditing })}
                    pageSize={100}
                  />
                </Card>
              ))}
            </>
          ) : (
            <Card>
              <Empty title="No matching settings" />
            </Card>
          )
        }
      </Loaded>
      {!topic.internal && <Whole topic={topic} onChanged={onChanged} />}
      {editing && (
        <EditSetting
          topic={topic.name}
          setting={editing}
          onClose={() => setEditing(null)}
          onChanged={onChanged}
        />
      )}
    </>
  );
}

function columnsOf(onEdit: ((setting: Setting) => void) | null): Column<Setting>[] {
  const name: Column<Setting> = {
    id: "name",
    title: "Setting",
    wide: true,
    sort: (row) => row.name,
    cell: (row) => (
      <div class="setting">
        {onEdit ? (
          <button type="button" class="link mono" onClick={() => onEdit(row)}>
            {row.name}
          </button>
        ) : (
          <span class="mono">{row.name}</span>
        )}
        <span class="muted small">
          {row.description}
          {row.effect !== "obeyed" && ` No effect: ${row.note}.`}
        </span>
      </div>
    ),
  };
  const value: Column<Setting> = {
    id: "value",
    title: "Value",
    cell: (row) => <SettingValue name={row.name} value={row.value} />,
  };
  const source: Column<Setting> = {
    id: "source",
    title: "Set by",
    minor: true,
    sort: (row) => row.source,
    cell: (row) => <Badge tone={row.source === "topic" ? "accent" : "neutral"}>{row.source}</Badge>,
  };
  return [name, value, source];
}

/** The value as it is set, and in words where it is a time or a size. */
function SettingValue({ name, value }: { name: string; value: string }) {
  const inWords = wordsOf(name, value);
  return (
    <span class="num setting-value">
      <span class="mono">{value === "" ? "–" : value}</span>
      {inWords && <span class="muted"> ({inWords})</span>}
    </span>
  );
}

function wordsOf(name: string, value: string): string {
  const number = Number(value);
  if (value === "" || !Number.isFinite(number) || Math.abs(number) < 1000) {
    return value === "-1" && /\.(ms|bytes)$/.test(name) ? "unlimited" : "";
  }
  if (number >= 9e18) return "unlimited";
  if (name.endsWith(".ms")) return settingDuration(number);
  return name.endsWith(".bytes") ? bytes(number) : "";
}

function EditSetting({
  topic,
  setting,
  onClose,
  onChanged,
}: {
  topic: string;
  setting: Setting;
  onClose: () => void;
  onChanged: () => void;
}) {
  const [value, setValue] = useState(setting.value);
  const change = async (to: string | null) => {
    const settings = { [setting.name]: to };
    await api.patch<TopicInfo>(path("topics", topic), { settings });
    toast.ok(to === null ? `${setting.name} was reset to its default.` : `${setting.name} is ${to} now.`);
    onChanged();
    onClose();
  };
  return (
    <Dialog title={setting.name} onClose={onClose}>
      <p class="muted dialog-text">{setting.description}</p>
      <Form
        verb="Change setting"
        onSubmit={() => change(value)}
        onCancel={onClose}
        aside={
          setting.source === "topic" && (
            <Button kind="ghost" onClick={() => void change(null).catch(toast.problem)}>
              Reset to the default
            </Button>
          )
        }
      >
        <TextField
          label="Value"
          name="settings"
          mono
          value={value}
          onChange={setValue}
          hint={`${wordsOf(setting.name, value) || "It takes effect at once."} Default: ${setting.default || "none"}`}
        />
      </Form>
    </Dialog>
  );
}

/** What can be done to the topic as a whole; nothing here can be undone. */
function Whole({ topic, onChanged }: Props) {
  const [isGrowing, setGrowing] = useState(false);
  const compacts = topic.settings["cleanup.policy"]?.includes("compact") ?? false;
  return (
    <Card title="Actions">
      <ul class="deeds">
        <li>
          <div>
            <strong>Add partitions</strong>
            <p class="muted">It has {topic.num_partitions}. The number of partitions cannot be reduced.</p>
          </div>
          <Button onClick={() => setGrowing(true)}>Add partitions…</Button>
        </li>
        {compacts && (
          <li>
            <div>
              <strong>Compact now</strong>
              <p class="muted">Removes all but the newest message of each key.</p>
            </div>
            <Button onClick={() => compact(topic, onChanged)}>Compact…</Button>
          </li>
        )}
        <li>
          <div>
            <strong>Purge messages</strong>
            <p class="muted">
              Deletes {many(topic.total_messages, "message")}; the topic and its settings are kept.
            </p>
          </div>
          <Button kind="danger" icon="eraser" onClick={() => purge(topic, onChanged)}>
            Purge…
          </Button>
        </li>
        <li>
          <div>
            <strong>Delete topic</strong>
            <p class="muted">Deletes the topic with its messages and committed offsets.</p>
          </div>
          <Button kind="danger" icon="trash" onClick={() => remove(topic)}>
            Delete…
          </Button>
        </li>
      </ul>
      {isGrowing && <Grow topic={topic} onClose={() => setGrowing(false)} onChanged={onChanged} />}
    </Card>
  );
}

type Purged = { topic: string; removed: number };

function purge(topic: TopicInfo, onChanged: () => void): void {
  ask({
    title: `Purge ${topic.name}`,
    danger: true,
    verb: "Purge messages",
    typed: topic.name,
    body: (
      <>
        <p>
          This removes <b>{many(topic.total_messages, "message")}</b> ({bytes(topic.size_bytes)}), all there are
          in {many(topic.num_partitions, "partition")}. This cannot be undone.
        </p>
        <p>Offsets continue from where they are. Groups with lag skip to the end.</p>
      </>
    ),
    run: async () => {
      const done = await api.delete<Purged>(path("topics", topic.name, "messages"), {
        query: { confirm: true },
      });
      return `${many(done.removed, "message was", "messages were")} removed from ${topic.name}.`;
    },
    then: onChanged,
  });
}

function remove(topic: TopicInfo): void {
  ask({
    title: `Delete ${topic.name}`,
    danger: true,
    verb: "Delete topic",
    typed: topic.name,
    body: (
      <>
        <p>
          This deletes the topic with <b>{many(topic.total_messages, "message")}</b> ({bytes(topic.size_bytes)})
          in {many(topic.num_partitions, "partition")}, and the committed offsets of groups. This cannot be
          undone.
        </p>
        <p>A client that keeps publishing to it may create it again, empty.</p>
      </>
    ),
    run: async () => {
      await api.delete(path("topics", topic.name));
      return `Topic ${topic.name} was deleted.`;
    },
    then: () => go("/topics"),
  });
}

type Compacted = {
  partitions: { bytes_before: number; bytes_after: number | null; records_before: number | null; records_after: number | null }[];
};

function compact(topic: TopicInfo, onChanged: () => void): void {
  ask({
    title: `Compact ${topic.name}`,
    verb: "Compact",
    body: <p>Only the newest message of each key is kept; older ones are removed from sealed segments.</p>,
    run: async () => {
      const done = await api.post<Compacted>(`/admin${path("topics", topic.name, "compact")}`, {});
      const gone = done.partitions.reduce((sum, each) => sum + (each.records_before ?? 0) - (each.records_after ?? 0), 0);
      return gone ? `${many(gone, "message was", "messages were")} removed.` : "There was nothing to compact.";
    },
    then: onChanged,
  });
}

function Grow({ topic, onClose, onChanged }: Props & { onClose: () => void }) {
  const [count, setCount] = useState(String(topic.num_partitions + 1));
  const grow = async () => {
    const made = await api.post<TopicInfo>(path("topics", topic.name, "partitions"), {
      count: wholeNumber(count, "num_partitions"),
    });
    toast.ok(`${topic.name} has ${many(made.num_partitions, "partition")} now.`);
    onChanged();
    onClose();
  };
  return (
    <Dialog title={`Add partitions to ${topic.name}`} onClose={onClose}>
      <Form verb="Add partitions" onSubmit={grow} onCancel={onClose}>
        <Note tone="warn">
          Keys may map to other partitions from now on. Stored messages are not moved: the order of a key across the
          change is not kept.
        </Note>
        <TextField
          label="Total partitions"
          name="num_partitions"
          inputMode="numeric"
          autofocus
          value={count}
          onChange={setCount}
          hint={`It has ${topic.num_partitions} now.`}
        />
      </Form>
    </Dialog>
  );
}

// The settings that a node runs with, and where each value comes from.
import { CheckField } from "../kit/form";
import { Badge, Card, Empty, Loaded, PageHead, Plain } from "../kit/parts";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { api } from "../lib/api";
import { whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { useQueryField } from "../lib/router";

type Setting = {
  setting: string;
  value: string;
  source: string;
  default: string;
  description: string;
  is_secret: boolean;
  kafka_name: string | null;
  is_dynamic: boolean;
  changed: { value: string; level: "node" | "cluster" } | null;
};

const COLUMNS: Column<Setting>[] = [
  { id: "setting", title: "Setting", wide: true, sort: (row) => row.setting, cell: (row) => <Named row={row} /> },
  { id: "value", title: "Value", sort: (row) => row.changed?.value ?? row.value, cell: (row) => <Value row={row} /> },
  { id: "source", title: "Source", sort: (row) => sourceOf(row), cell: (row) => <Badge tone={isDefault(row) ? "neutral" : "accent"}>{sourceOf(row)}</Badge> },
  { id: "dynamic", title: "Changes", minor: true, sort: (row) => (row.is_dynamic ? 0 : 1), cell: (row) => (row.is_dynamic ? <span>at run time</span> : <span class="muted">at a restart</span>) },
];

function sourceOf(row: Setting): string {
  return row.changed ? `set for the ${row.changed.level}` : row.source;
}

function isDefault(row: Setting): boolean {
  return row.source === "default" && !row.changed;
}

function Named({ row }: { row: Setting }) {
  return (
    <>
      <code>{row.setting}</code>
      <div class="muted small">{row.description}</div>
      {row.kafka_name && <div class="muted small">Kafka: <code>{row.kafka_name}</code></div>}
    </>
  );
}

function Value({ row }: { row: Setting }) {
  if (row.is_secret) return <Badge>{row.value ? "hidden" : "not set"}</Badge>;
  const value = row.changed?.value ?? row.value;
  return (
    <>
      {value ? <Plain mono text={value} most={120} /> : <span class="muted">not set</span>}
      {!isDefault(row) && row.default !== value && row.default && <div class="muted small">default {row.default}</div>}
    </>
  );
}

export function ConfigurationPage() {
  const found = useResource((signal) => api.get<{ node_id: number; settings: Setting[] }>("/admin/config", { signal }), []);
  const [only, setOnly] = useQueryField("changed");
  const all = found.data?.settings;
  const chosen = all?.filter((row) => only !== "yes" || !isDefault(row));
  const rows = useFiltered(chosen, (row) => `${row.setting} ${row.kafka_name ?? ""} ${row.description}`);
  return (
    <>
      <PageHead
        title="Configuration"
        lead={found.data && `Settings of node ${found.data.node_id}, from flags, the environment, the configuration file or defaults. Secrets are hidden.`}
      />
      <div class="toolbar">
        <Filter label="Filter settings" />
        <CheckField label="Only changed" value={only === "yes"} onChange={(yes) => setOnly(yes ? "yes" : "")} />
        {all && <span class="muted num end">{whole(rows.length)} of {whole(all.length)}</span>}
      </div>
      <Loaded from={found}>
        {() => (
          <Card flush>
            <Table label="Settings" rows={rows} columns={COLUMNS} rowKey={(row) => row.setting} first={{ column: "setting" }} empty={<Empty title="No matching setting" />} />
          </Card>
        )}
      </Loaded>
    </>
  );
}

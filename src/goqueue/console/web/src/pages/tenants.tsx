// Tenants: their quotas, what they use of them, and which were exceeded.
import { useState } from "preact/hooks";
import { ask, Dialog } from "../kit/dialog";
import { Gauge } from "../kit/chart";
import { Form, TextField } from "../kit/form";
import { Ago, Badge, Button, Card, Empty, Facts, Loaded, Note, PageHead, Plain, Stat, Status, type Tone } from "../kit/parts";
import { type Column, Table } from "../kit/table";
import { toast } from "../kit/toasts";
import { api, path, wholeNumber } from "../lib/api";
import { bytes, count, duration, NONE, percent, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { go, Link, type Params } from "../lib/router";
import { session } from "../lib/session";
import { useStore } from "../lib/store";

type Tenant = {
  id: string;
  name: string;
  description: string;
  status: "active" | "suspended" | "disabled" | "deleting";
  reason: string;
  quotas: Record<string, number>;
  created_at: number;
  suspended_at: number | null;
};

type Usage = {
  published_messages: number;
  published_bytes: number;
  consumed_messages: number;
  consumed_bytes: number;
  storage_bytes: number;
  topics: number;
  partitions: number;
  groups: number;
  connections: number;
  violations: Record<string, number>;
};

type QuotaUse = { used: number; limit: number; percent: number | null };
type Row = Tenant & { usage: Usage | null };

const TONES: Record<Tenant["status"], Tone> = { active: "good", suspended: "warn", disabled: "bad", deleting: "bad" };

async function readTenants(signal: AbortSignal): Promise<Row[]> {
  const { tenants } = await api.get<{ tenants: Tenant[] }>("/admin/tenants", { signal });
  const usages = await Promise.allSettled(tenants.map((each) => api.get<Usage>(path("admin", "tenants", each.id, "usage"), { signal })));
  return tenants.map((each, at) => {
    const usage = usages[at];
    return { ...each, usage: usage?.status === "fulfilled" ? usage.value : null };
  });
}

function violations(usage: Usage | null | undefined): number {
  return Object.values(usage?.violations ?? {}).reduce((sum, each) => sum + each, 0);
}

const COLUMNS: Column<Row>[] = [
  { id: "id", title: "Tenant", wide: true, sort: (row) => row.id, cell: (row) => <><Link to={path("tenants", row.id)}>{row.id}</Link> <span class="muted"><Plain text={row.name} most={60} /></span></> },
  { id: "status", title: "Status", sort: (row) => row.status, cell: (row) => <Status tone={TONES[row.status]}>{row.status}</Status> },
  { id: "topics", title: "Topics", number: true, minor: true, sort: (row) => row.usage?.topics ?? 0, cell: (row) => whole(row.usage?.topics) },
  { id: "storage", title: "Storage", number: true, sort: (row) => row.usage?.storage_bytes ?? 0, cell: (row) => bytes(row.usage?.storage_bytes) },
  { id: "published", title: "Published", number: true, minor: true, sort: (row) => row.usage?.published_messages ?? 0, cell: (row) => count(row.usage?.published_messages) },
  { id: "connections", title: "Connections", number: true, minor: true, sort: (row) => row.usage?.connections ?? 0, cell: (row) => whole(row.usage?.connections) },
  { id: "violations", title: "Violations", number: true, sort: (row) => violations(row.usage), cell: (row) => (violations(row.usage) ? <Badge tone="warn">{whole(violations(row.usage))}</Badge> : "0") },
];

export function TenantsPage() {
  const found = useResource(readTenants, [], { everyMs: 10_000 });
  const isOff = found.problem?.code === "tenancy_disabled";
  const who = useStore(session);
  const [isMaking, setMaking] = useState(false);
  return (
    <>
      <PageHead
        title="Tenants"
        lead="Isolated namespaces, each with its own topics, users and quotas."
        actions={!isOff && who?.allowed.change_access && <Button kind="primary" icon="plus" onClick={() => setMaking(true)}>New tenant</Button>}
      />
      {isOff && (
        <Empty title="Tenants are off">
          <Plain text={found.problem?.message ?? ""} most={300} />
        </Empty>
      )}
      {!isOff && <Loaded from={found}>
        {(rows) => (
          <Card flush>
            <Table label="Tenants" rows={rows} columns={COLUMNS} rowKey={(row) => row.id} rowTo={(row) => path("tenants", row.id)} first={{ column: "id" }} empty={<Empty title="No tenants">Without tenants all topics are in one namespace, without quotas.</Empty>} />
          </Card>
        )}
      </Loaded>}
      {isMaking && <NewTenant onClose={() => setMaking(false)} onDone={found.reload} />}
    </>
  );
}

function NewTenant({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [id, setId] = useState("");
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const make = async () => {
    await api.post("/admin/tenants", { id, name: name || id, description });
    toast.ok(`Tenant ${id} was created with the default quotas.`);
    onDone();
    onClose();
  };
  return (
    <Dialog title="New tenant" onClose={onClose}>
      <Form verb="Create tenant" onSubmit={make} onCancel={onClose}>
        <TextField label="Id" name="id" hint="Lower-case letters, digits and dashes. Its topics are stored as id.topic." value={id} onChange={setId} />
        <TextField label="Name" name="name" value={name} onChange={setName} />
        <TextField label="Description" name="description" value={description} onChange={setDescription} />
      </Form>
    </Dialog>
  );
}

/** A quota in its unit: its name says which. */
function quotaValue(name: string, value: number): string {
  if (value === 0) return "unlimited";
  if (name.includes("bytes")) return name.endsWith("_per_s") ? `${bytes(value)}/s` : bytes(value);
  if (name.endsWith("_ms")) return duration(value);
  return name.endsWith("_per_s") ? `${whole(value)}/s` : whole(value);
}

type QuotaRow = { name: string; limit: number; use: QuotaUse | undefined; violations: number };

const QUOTAS: Column<QuotaRow>[] = [
  { id: "name", title: "Quota", wide: true, sort: (row) => row.name, cell: (row) => <code>{row.name}</code> },
  { id: "limit", title: "Limit", number: true, cell: (row) => quotaValue(row.name, row.limit) },
  { id: "used", title: "Used", number: true, sort: (row) => row.use?.percent ?? -1, cell: (row) => (row.use ? (row.use.used ? quotaValue(row.name, row.use.used) : "0") : NONE) },
  { id: "share", title: "Share", minor: true, cell: (row) => (row.use?.percent === null || row.use === undefined ? NONE : <Gauge share={row.use.percent / 100} label={`${percent(row.use.percent / 100)} of ${row.name} used`} />) },
  { id: "violations", title: "Violations", number: true, sort: (row) => row.violations, cell: (row) => (row.violations ? <Badge tone="warn">{whole(row.violations)}</Badge> : "0") },
];

export function TenantPage({ params }: { params: Params }) {
  const id = params["tenant"] ?? "";
  const at = (...more: string[]) => path("admin", "tenants", id, ...more);
  const tenant = useResource((signal) => api.get<Tenant>(at(), { signal }), [id], { everyMs: 5000 });
  const usage = useResource((signal) => api.get<Usage>(at("usage"), { signal }), [id], { everyMs: 5000 });
  const stats = useResource((signal) => api.get<{ quotas: Record<string, QuotaUse> }>(at("stats"), { signal }), [id], { everyMs: 5000 });
  const who = useStore(session);
  const mayChange = who?.allowed.change_access ?? false;
  const [isChanging, setChanging] = useState(false);
  const rows = (found: Tenant): QuotaRow[] =>
    Object.entries(found.quotas).map(([name, limit]) => ({ name, limit, use: stats.data?.quotas[name], violations: usage.data?.violations[name] ?? 0 }));
  return (
    <>
      <PageHead
        title={id}
        above={<Link to="/tenants">Tenants</Link>}
        lead={tenant.data && <Status tone={TONES[tenant.data.status]}>{tenant.data.status}</Status>}
        actions={mayChange && tenant.data && tenant.data.status !== "deleting" && <Actions tenant={tenant.data} at={at} onDone={tenant.reload} />}
      />
      <Loaded from={tenant}>
        {(found) => (
          <>
            {found.reason && <Note tone="warn">{found.status === "suspended" ? "Suspended" : "Reason"}: <Plain text={found.reason} most={500} /></Note>}
            {usage.data && <UsageStats usage={usage.data} />}
            <Card title="Quotas" flush actions={mayChange && <Button onClick={() => setChanging(true)}>Change quotas</Button>}>
              <Table label="Quotas" rows={rows(found)} columns={QUOTAS} rowKey={(row) => row.name} first={{ column: "used", descending: true }} />
            </Card>
            <Card title="Tenant">
              <Facts
                items={[
                  ["Name", <Plain text={found.name} />],
                  ["Description", <Plain text={found.description || NONE} />],
                  ["Topics", <Link to={`/topics?filter=${encodeURIComponent(`${id}.`)}`}>{whole(usage.data?.topics)}</Link>],
                  ["Created", <Ago ms={found.created_at} />],
                ]}
              />
            </Card>
            {isChanging && <ChangeQuotas tenant={found} at={at()} onClose={() => setChanging(false)} onDone={tenant.reload} />}
          </>
        )}
      </Loaded>
    </>
  );
}

function UsageStats({ usage }: { usage: Usage }) {
  return (
    <div class="stats">
      <Stat label="Published" value={count(usage.published_messages)} extra={bytes(usage.published_bytes)} />
      <Stat label="Consumed" value={count(usage.consumed_messages)} extra={bytes(usage.consumed_bytes)} />
      <Stat label="Storage" value={bytes(usage.storage_bytes)} extra={`${whole(usage.partitions)} partitions`} />
      <Stat label="Groups" value={whole(usage.groups)} />
      <Stat label="Connections" value={whole(usage.connections)} />
      <Stat label="Violations" value={whole(violations(usage))} tone={violations(usage) ? "warn" : "neutral"} />
    </div>
  );
}

type At = (...more: string[]) => string;

function Actions({ tenant, at, onDone }: { tenant: Tenant; at: At; onDone: () => void }) {
  const [isSuspending, setSuspending] = useState(false);
  const activate = async () => {
    try {
      await api.post(at("activate"), {});
      toast.ok(`Tenant ${tenant.id} was activated.`);
      onDone();
    } catch (error) {
      toast.problem(error);
    }
  };
  return (
    <>
      {tenant.status === "active" ? <Button onClick={() => setSuspending(true)}>Suspend</Button> : <Button onClick={() => void activate()}>Activate</Button>}
      <Button kind="danger" icon="trash" onClick={() => askDelete(tenant, at(), onDone)}>Delete</Button>
      {isSuspending && <Suspend tenant={tenant} at={at("suspend")} onClose={() => setSuspending(false)} onDone={onDone} />}
    </>
  );
}

function Suspend({ tenant, at, onClose, onDone }: { tenant: Tenant; at: string; onClose: () => void; onDone: () => void }) {
  const [reason, setReason] = useState("");
  const suspend = async () => {
    await api.post(at, { reason });
    toast.ok(`Tenant ${tenant.id} was suspended.`);
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Suspend ${tenant.id}`} onClose={onClose}>
      <Form verb="Suspend tenant" onSubmit={suspend} onCancel={onClose}>
        <p>Its clients can neither publish, consume nor change anything until it is activated. Its data is kept.</p>
        <TextField label="Reason" name="reason" hint="Returned to its clients in errors." value={reason} onChange={setReason} />
      </Form>
    </Dialog>
  );
}

function ChangeQuotas({ tenant, at, onClose, onDone }: { tenant: Tenant; at: string; onClose: () => void; onDone: () => void }) {
  const [values, setValues] = useState(() => Object.fromEntries(Object.entries(tenant.quotas).map(([name, value]) => [name, String(value)])));
  const change = async () => {
    const changed = Object.entries(values).filter(([name, text]) => text !== String(tenant.quotas[name]));
    await api.patch(at, { quotas: Object.fromEntries(changed.map(([name, text]) => [name, wholeNumber(text, name)])) });
    toast.ok("The quotas were changed; they apply from now on.");
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Quotas of ${tenant.id}`} onClose={onClose}>
      <Form verb="Change quotas" onSubmit={change} onCancel={onClose}>
        <p class="muted">0 is unlimited.</p>
        {Object.entries(values).map(([name, text]) => (
          <TextField key={name} label={name} name={name} value={text} onChange={(next) => setValues((were) => ({ ...were, [name]: next }))} />
        ))}
      </Form>
    </Dialog>
  );
}

function askDelete(tenant: Tenant, at: string, onDone: () => void): void {
  let isGone = false;
  ask({
    title: `Delete tenant ${tenant.id}`,
    danger: true,
    typed: tenant.id,
    verb: "Delete tenant",
    body: <p>The tenant and everything in it are deleted: topics with their messages, groups, schemas, users and keys. Its clients are refused at once. This cannot be undone.</p>,
    run: async () => {
      const said = await api.delete<{ status: string }>(`${at}?force=true`);
      isGone = said.status === "deleted";
      return <p>The tenant {isGone ? "was deleted." : "is being deleted: its groups are deleted once their members have left."}</p>;
    },
    then: () => (isGone ? go("/tenants") : onDone()),
  });
}

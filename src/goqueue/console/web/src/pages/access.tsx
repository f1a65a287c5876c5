// Who may do what: users, API keys, roles and rules.
import { useState } from "preact/hooks";
import { ask, Dialog } from "../kit/dialog";
import { Form, SelectField, TextField } from "../kit/form";
import { Badge, Button, Card, CopyButton, Empty, IconButton, Loaded, Note, PageHead, type Tab, Tabs, Time } from "../kit/parts";
import { type Column, Table } from "../kit/table";
import { toast } from "../kit/toasts";
import { api, path } from "../lib/api";
import { NONE } from "../lib/format";
import { useResource } from "../lib/resource";
import { useQueryField } from "../lib/router";
import { session } from "../lib/session";
import { useStore } from "../lib/store";

type User = { name: string; mechanisms: string[]; roles: string[] };
type Key = {
  id: string;
  name: string;
  prefix: string;
  roles: string[];
  created_at: number;
  expires_at: number | null;
  revoked: boolean;
};
type Role = { name: string; permissions: string[]; description: string; built_in: boolean };
type Rule = {
  id: string;
  principal: string;
  resource_type: string;
  resource_name: string;
  pattern_type: string;
  operation: string;
  effect: string;
  host: string;
};

const TABS: Tab[] = [
  { id: "users", label: "Users" },
  { id: "keys", label: "API keys" },
  { id: "roles", label: "Roles" },
  { id: "rules", label: "Rules" },
];

export function AccessPage() {
  const [named, setTab] = useQueryField("tab", "users");
  const who = useStore(session);
  const mayChange = who?.allowed.change_access ?? false;
  const tab = TABS.some((each) => each.id === named) ? named : "users";
  return (
    <>
      <PageHead title="Access" lead="Who may log in, and what they may do." />
      {who?.is_required === false && (
        <Note tone="warn">
          Authentication is off: every client may do everything. Set auth.enabled to true to require a login.
        </Note>
      )}
      <Tabs label="Kinds of access" current={tab} onChoose={setTab} tabs={TABS} />
      {tab === "users" && <Users mayChange={mayChange} />}
      {tab === "keys" && <Keys mayChange={mayChange} />}
      {tab === "roles" && <Roles mayChange={mayChange} />}
      {tab === "rules" && <Rules mayChange={mayChange} />}
    </>
  );
}

/** Words with commas or blanks between them. */
function words(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

type Kind = { mayChange: boolean };

/** A button that deletes one row after a question. */
function Remove({ what, verb, at, consequence, onDone }: { what: string; verb: string; at: string; consequence: string; onDone: () => void }) {
  const run = async () => {
    await api.delete(at);
    return `${what} was ${verb === "Revoke" ? "revoked" : "deleted"}.`;
  };
  const question = () =>
    ask({ title: `${verb} ${what}`, body: <p>{consequence} This cannot be undone.</p>, verb, danger: true, run, then: onDone });
  return <IconButton label={`${verb} ${what}`} icon="trash" onClick={question} />;
}

// --- Users ---------------------------------------------------------------------------------------

function Users({ mayChange }: Kind) {
  const found = useResource((signal) => api.get<{ users: User[] }>("/admin/users", { signal }), []);
  const [isMaking, setMaking] = useState(false);
  const columns: Column<User>[] = [
    { id: "name", title: "User", wide: true, sort: (row) => row.name, cell: (row) => row.name },
    { id: "roles", title: "Roles", cell: (row) => row.roles.join(", ") || NONE },
    { id: "login", title: "Login methods", minor: true, cell: (row) => row.mechanisms.join(", ") || "token or certificate" },
  ];
  if (mayChange) {
    const at = (row: User) => path("admin", "users", row.name);
    columns.push({
      id: "remove",
      title: "",
      cell: (row) => <Remove what={`user ${row.name}`} verb="Delete" at={at(row)} consequence="Its logins are refused from now on." onDone={found.reload} />,
    });
  }
  return (
    <Card title="Users" flush actions={mayChange && <Button icon="plus" onClick={() => setMaking(true)}>New user</Button>}>
      <Loaded from={found}>
        {({ users }) => (
          <Table label="Users" rows={users} columns={columns} rowKey={(row) => row.name} first={{ column: "name" }} empty={<Empty title="No users" />} />
        )}
      </Loaded>
      {isMaking && <NewUser onClose={() => setMaking(false)} onDone={found.reload} />}
    </Card>
  );
}

type Making = { onClose: () => void; onDone: () => void };

function NewUser({ onClose, onDone }: Making) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [roles, setRoles] = useState("");
  const make = async () => {
    await api.put(path("admin", "users", name), { password, roles: words(roles) });
    toast.ok(`User ${name} was created.`);
    onDone();
    onClose();
  };
  return (
    <Dialog title="New user" onClose={onClose}>
      <Form verb="Create user" onSubmit={make} onCancel={onClose}>
        <TextField label="Name" name="user" value={name} onChange={setName} />
        <TextField label="Password" name="password" type="password" autocomplete="new-password" value={password} onChange={setPassword} />
        <TextField label="Roles" name="roles" value={roles} onChange={setRoles} placeholder="producer consumer" />
      </Form>
    </Dialog>
  );
}

// --- API keys ------------------------------------------------------------------------------------

function Keys({ mayChange }: Kind) {
  const skip = !mayChange;
  const found = useResource((signal) => api.get<{ keys: Key[] }>("/admin/keys", { signal }), [], { skip });
  const [isMaking, setMaking] = useState(false);
  if (skip) return <Empty title="You may not see API keys">This needs the permission to alter the cluster.</Empty>;
  const columns: Column<Key>[] = [
    { id: "name", title: "Name", wide: true, sort: (row) => row.name, cell: (row) => row.name },
    { id: "id", title: "Id", cell: (row) => <code>{row.id}</code> },
    { id: "roles", title: "Roles", cell: (row) => row.roles.join(", ") || NONE },
    { id: "created", title: "Created", minor: true, sort: (row) => row.created_at, cell: (row) => <Time ms={row.created_at} /> },
    { id: "expires", title: "Expires", minor: true, cell: (row) => (row.expires_at === null ? NONE : <Time ms={row.expires_at} />) },
    { id: "state", title: "State", cell: (row) => (row.revoked ? <Badge tone="bad">revoked</Badge> : <Badge tone="good">valid</Badge>) },
    {
      id: "remove",
      title: "",
      cell: (row) => (
        <Remove consequence={row.revoked ? "It is removed from the list." : "Requests with it are refused from now on."} what={`key ${row.id}`} verb={row.revoked ? "Delete" : "Revoke"} at={path("admin", "keys", row.id)} onDone={found.reload} />
      ),
    },
  ];
  return (
    <Card title="API keys" flush actions={<Button icon="plus" onClick={() => setMaking(true)}>New key</Button>}>
      <Loaded from={found}>
        {({ keys }) => (
          <Table label="API keys" rows={keys} columns={columns} rowKey={(row) => row.id} first={{ column: "created", descending: true }} empty={<Empty title="No API keys" />} />
        )}
      </Loaded>
      {isMaking && <NewKey onClose={() => setMaking(false)} onDone={found.reload} />}
    </Card>
  );
}

function NewKey({ onClose, onDone }: Making) {
  const [name, setName] = useState("");
  const [roles, setRoles] = useState("");
  const [expires, setExpires] = useState("");
  const [made, setMade] = useState<(Key & { key: string }) | null>(null);
  const make = async () => {
    const body = { name, roles: words(roles), ...(expires ? { expires_in: expires } : {}) };
    setMade(await api.post<Key & { key: string }>("/admin/keys", body));
    onDone();
  };
  if (made) {
    return (
      <Dialog title="New key" onClose={onClose}>
        <Note tone="warn">Copy the key now: it is not shown again. The broker stores only its hash.</Note>
        <p>
          <code class="secret">{made.key}</code> <CopyButton text={made.key} label="Copy the key" />
        </p>
        <p class="muted">Its id, which Kafka clients send as the user name: <code>{made.id}</code></p>
        <footer class="dialog-foot">
          <Button kind="primary" onClick={onClose}>Done</Button>
        </footer>
      </Dialog>
    );
  }
  return (
    <Dialog title="New key" onClose={onClose}>
      <Form verb="Create key" onSubmit={make} onCancel={onClose}>
        <TextField label="Name" name="name" value={name} onChange={setName} />
        <TextField label="Roles" name="roles" value={roles} onChange={setRoles} placeholder="producer" />
        <TextField label="Expires in" name="expires_in" value={expires} onChange={setExpires} placeholder="720h" hint="Never if empty." />
      </Form>
    </Dialog>
  );
}

// --- Roles ---------------------------------------------------------------------------------------

function Roles({ mayChange }: Kind) {
  const found = useResource((signal) => api.get<{ roles: Role[] }>("/admin/roles", { signal }), []);
  const [isMaking, setMaking] = useState(false);
  const columns: Column<Role>[] = [
    { id: "name", title: "Role", sort: (row) => row.name, cell: (row) => <>{row.name} {row.built_in && <Badge>built in</Badge>}</> },
    { id: "permissions", title: "Allows", wide: true, cell: (row) => row.permissions.join(", ") },
    { id: "description", title: "Description", minor: true, cell: (row) => row.description || NONE },
  ];
  if (mayChange) {
    columns.push({
      id: "remove",
      title: "",
      cell: (row) =>
        row.built_in ? "" : <Remove what={`role ${row.name}`} verb="Delete" at={path("admin", "roles", row.name)} consequence="Users and keys with this role lose its permissions." onDone={found.reload} />,
    });
  }
  return (
    <Card title="Roles" flush actions={mayChange && <Button icon="plus" onClick={() => setMaking(true)}>New role</Button>}>
      <Loaded from={found}>
        {({ roles }) => <Table label="Roles" rows={roles} columns={columns} rowKey={(row) => row.name} first={{ column: "name" }} />}
      </Loaded>
      {isMaking && <NewRole onClose={() => setMaking(false)} onDone={found.reload} />}
    </Card>
  );
}

function NewRole({ onClose, onDone }: Making) {
  const [name, setName] = useState("");
  const [permissions, setPermissions] = useState("");
  const [description, setDescription] = useState("");
  const make = async () => {
    await api.put(path("admin", "roles", name), { permissions: words(permissions), description });
    toast.ok(`Role ${name} was created.`);
    onDone();
    onClose();
  };
  return (
    <Dialog title="New role" onClose={onClose}>
      <Form verb="Create role" onSubmit={make} onCancel={onClose}>
        <TextField label="Name" name="role" value={name} onChange={setName} />
        <TextField label="Permissions" name="permissions" mono value={permissions} onChange={setPermissions} placeholder="topic:list metrics:read" />
        <TextField label="Description" name="description" value={description} onChange={setDescription} />
      </Form>
    </Dialog>
  );
}

// --- Rules ---------------------------------------------------------------------------------------

const RESOURCES = ["topic", "group", "transactional_id", "cluster", "tenant"].map((value) => ({ value, label: value.replace("_", " ") }));
const PATTERNS = [
  { value: "literal", label: "literal: this exact name, or * for all" },
  { value: "prefixed", label: "prefixed: names with this prefix" },
];
const EFFECTS = [
  { value: "allow", label: "Allow" },
  { value: "deny", label: "Deny" },
];

function Rules({ mayChange }: Kind) {
  const found = useResource((signal) => api.get<{ acls: Rule[] }>("/admin/acls", { signal }), []);
  const [isMaking, setMaking] = useState(false);
  const columns: Column<Rule>[] = [
    { id: "principal", title: "Principal", sort: (row) => row.principal, cell: (row) => row.principal },
    { id: "effect", title: "Effect", cell: (row) => <Badge tone={row.effect === "deny" ? "bad" : "good"}>{row.effect}</Badge> },
    { id: "operation", title: "Operation", cell: (row) => row.operation },
    {
      id: "resource",
      title: "Resource",
      wide: true,
      cell: (row) => `${row.resource_type} ${row.resource_name}${row.pattern_type === "prefixed" ? "…" : ""}`,
    },
    { id: "host", title: "Host", minor: true, cell: (row) => row.host },
  ];
  if (mayChange) {
    columns.push({
      id: "remove",
      title: "",
      cell: (row) => <Remove what={`rule ${row.id}`} verb="Delete" at={path("admin", "acls", row.id)} consequence="It is no longer applied." onDone={found.reload} />,
    });
  }
  return (
    <Card title="Rules" flush actions={mayChange && <Button icon="plus" onClick={() => setMaking(true)}>New rule</Button>}>
      <Loaded from={found}>
        {({ acls }) => (
          <Table
            label="Rules"
            rows={acls}
            columns={columns}
            rowKey={(row) => row.id}
            first={{ column: "principal" }}
            empty={<Empty title="No rules">Where no rule matches, the roles decide.</Empty>}
          />
        )}
      </Loaded>
      {isMaking && <NewRule onClose={() => setMaking(false)} onDone={found.reload} />}
    </Card>
  );
}

function NewRule({ onClose, onDone }: Making) {
  const [principal, setPrincipal] = useState("User:");
  const [effect, setEffect] = useState("allow");
  const [operations, setOperations] = useState("read");
  const [kind, setKind] = useState("topic");
  const [name, setName] = useState("");
  const [pattern, setPattern] = useState("literal");
  const [host, setHost] = useState("*");
  const make = async () => {
    const about = kind === "cluster" ? {} : { resource_name: name, pattern_type: pattern };
    const body = { principal, effect, operations: words(operations), resource_type: kind, host, ...about };
    await api.post("/admin/acls", body);
    toast.ok("The rule was created.");
    onDone();
    onClose();
  };
  return (
    <Dialog title="New rule" onClose={onClose}>
      <Form verb="Create rule" onSubmit={make} onCancel={onClose}>
        <TextField label="Principal" name="principal" value={principal} onChange={setPrincipal} hint="User:NAME, User:* or role:NAME" />
        <div class="form-grid">
          <SelectField label="Effect" name="effect" value={effect} onChange={setEffect} choices={EFFECTS} />
          <TextField label="Operations" name="operations" value={operations} onChange={setOperations} hint="read, write, describe, all …" />
        </div>
        <div class="form-grid">
          <SelectField label="Resource" name="resource_type" value={kind} onChange={setKind} choices={RESOURCES} />
          <TextField label="Name" name="resource_name" value={name} onChange={setName} disabled={kind === "cluster"} />
        </div>
        <SelectField label="Pattern type" name="pattern_type" value={pattern} onChange={setPattern} choices={PATTERNS} />
        <TextField label="Host" name="host" value={host} onChange={setHost} hint="Client address; * is any." />
      </Form>
    </Dialog>
  );
}

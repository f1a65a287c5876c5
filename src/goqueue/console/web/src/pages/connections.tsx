// Who is connected, over which protocol, and since when.
import { Ago, Badge, Card, Empty, Loaded, Note, PageHead, Plain, Stat } from "../kit/parts";
import { Segmented } from "../kit/form";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { api } from "../lib/api";
import { NONE, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { useQueryField } from "../lib/router";
import { nameOf } from "../lib/session";

type Client = {
  node_id: number;
  protocol: "kafka" | "http" | "grpc";
  listener: string;
  address: string;
  principal: string;
  client_id: string | null;
  software: string | null;
  connected_at: number;
};

type Clients = { total: number; clients: Client[]; unanswered?: { node_id: number; error: string }[] };

const NAMES: Record<Client["protocol"], string> = { kafka: "Kafka", http: "HTTP", grpc: "gRPC" };
const PROTOCOLS = [{ value: "all", label: "All" }, ...Object.entries(NAMES).map(([value, label]) => ({ value, label }))];

const COLUMNS: Column<Client>[] = [
  { id: "client", title: "Client", wide: true, sort: (row) => row.client_id ?? row.software ?? "", cell: (row) => <Named client={row} /> },
  { id: "protocol", title: "Protocol", sort: (row) => row.protocol, cell: (row) => <Badge>{NAMES[row.protocol]}</Badge> },
  { id: "principal", title: "Principal", sort: (row) => row.principal, cell: (row) => <Plain text={nameOf(row.principal) || NONE} most={60} /> },
  { id: "address", title: "Address", minor: true, sort: (row) => row.address, cell: (row) => <Plain mono text={row.address} most={60} /> },
  { id: "listener", title: "Listener", minor: true, sort: (row) => row.listener, cell: (row) => row.listener },
  { id: "node", title: "Node", number: true, minor: true, sort: (row) => row.node_id, cell: (row) => row.node_id },
  { id: "since", title: "Connected", sort: (row) => row.connected_at, cell: (row) => <Ago ms={row.connected_at} /> },
];

const BROWSER = /(HeadlessChrome|Edg|Firefox|Chrome|Version)\/(\d+)/;

/** What a client calls itself; of a browser its name and version alone. */
function softwareOf({ software }: Client): string {
  const browser = software?.startsWith("Mozilla/") ? BROWSER.exec(software) : null;
  return browser ? `${browser[1] === "Version" ? "Safari" : browser[1]} ${browser[2]}` : (software ?? "");
}

function Named({ client }: { client: Client }) {
  return (
    <>
      <Plain text={client.client_id ?? (softwareOf(client) || "unknown")} most={80} />
      {client.client_id && client.software && (
        <div class="muted small">
          <Plain text={softwareOf(client)} most={80} />
        </div>
      )}
    </>
  );
}

export function ConnectionsPage() {
  const found = useResource((signal) => api.get<Clients>("/cluster/clients", { signal }), [], { everyMs: 3000 });
  const [protocol, setProtocol] = useQueryField("protocol", "all");
  const chosen = found.data?.clients.filter((row) => protocol === "all" || row.protocol === protocol);
  const rows = useFiltered(chosen, (row) => `${row.client_id ?? ""} ${row.software ?? ""} ${row.principal} ${row.address} ${row.listener}`);
  const many = (kind: Client["protocol"]) => found.data?.clients.filter((row) => row.protocol === kind).length;
  return (
    <>
      <PageHead title="Connections" lead="Client connections of all nodes. gRPC clients are listed for a minute after their last call." />
      {found.data?.unanswered?.map((each) => (
        <Note key={each.node_id} tone="warn">
          The connections of node {each.node_id} are missing: <Plain text={each.error} most={200} />
        </Note>
      ))}
      <div class="stats">
        <Stat label="Kafka" value={whole(many("kafka"))} />
        <Stat label="HTTP" value={whole(many("http"))} />
        <Stat label="gRPC" value={whole(many("grpc"))} />
        <Stat label="Principals" value={whole(found.data && new Set(found.data.clients.map((row) => row.principal).filter(Boolean)).size)} />
      </div>
      <div class="toolbar">
        <Filter label="Filter connections" />
        <Segmented label="Protocol" value={protocol} onChange={setProtocol} choices={PROTOCOLS} />
        {found.data && <span class="muted num end">{whole(rows.length)} of {whole(found.data.total)}</span>}
      </div>
      <Loaded from={found}>
        {() => (
          <Card flush>
            <Table
              label="Connections"
              rows={rows}
              columns={COLUMNS}
              rowKey={(row) => `${row.node_id}/${row.protocol}/${row.address}`}
              first={{ column: "since", descending: true }}
              empty={<Empty title="No matching connection" />}
            />
          </Card>
        )}
      </Loaded>
    </>
  );
}

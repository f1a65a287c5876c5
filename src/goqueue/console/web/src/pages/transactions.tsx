// Transactions: which are open, for how long, and the way to end one that hangs.
import { ask } from "../kit/dialog";
import { Ago, Badge, Button, Card, Empty, Loaded, PageHead, Plain, Stat, type Tone } from "../kit/parts";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { api } from "../lib/api";
import { bytes, duration, whole } from "../lib/format";
import { useResource } from "../lib/resource";

type Transaction = {
  transactional_id: string;
  transaction_id: string;
  producer_id: number;
  epoch: number;
  state: string;
  transaction_timeout_ms: number;
  started_at: number | null;
  updated_at: number;
  partitions: Record<string, number[]>;
};

type Stats = { active: number; by_state: Record<string, number>; producers: number; log_size_bytes: number };

function tone(state: string): Tone {
  if (state === "Ongoing") return "accent";
  if (state.startsWith("Prepare")) return "warn";
  return state === "CompleteCommit" ? "good" : "neutral";
}

function touched(row: Transaction): string {
  return Object.entries(row.partitions)
    .map(([topic, numbers]) => `${topic} ${numbers.join(", ")}`)
    .join("; ");
}

export function TransactionsPage() {
  const found = useResource(
    (signal) => api.get<{ transactions: Transaction[] }>("/transactions", { signal }),
    [],
    { everyMs: 3000 },
  );
  const stats = useResource((signal) => api.get<Stats>("/transactions/stats", { signal }), [], { everyMs: 5000 });
  const rows = useFiltered(found.data?.transactions, (row) => `${row.transactional_id} ${row.state} ${touched(row)}`);
  const columns: Column<Transaction>[] = [
    { id: "id", title: "Transactional id", wide: true, sort: (row) => row.transactional_id, cell: (row) => <Plain mono text={row.transactional_id} most={80} /> },
    { id: "state", title: "State", minor: true, sort: (row) => row.state, cell: (row) => <Badge tone={tone(row.state)}>{row.state}</Badge> },
    { id: "open", title: "Open since", sort: (row) => row.started_at ?? 0, cell: (row) => (row.started_at ? <Ago ms={row.started_at} /> : "–") },
    { id: "timeout", title: "Timeout", number: true, minor: true, sort: (row) => row.transaction_timeout_ms, cell: (row) => duration(row.transaction_timeout_ms) },
    { id: "producer", title: "Producer", number: true, minor: true, sort: (row) => row.producer_id, cell: (row) => `${row.producer_id}, epoch ${row.epoch}` },
    { id: "partitions", title: "Partitions", minor: true, cell: (row) => <Plain text={touched(row) || "–"} most={80} /> },
    {
      id: "abort",
      title: "",
      cell: (row) =>
        row.started_at === null ? null : (
          <Button kind="danger" aria-label={`Abort ${row.transactional_id}`} onClick={() => askAbort(row, found.reload)}>
            Abort
          </Button>
        ),
    },
  ];
  return (
    <>
      <PageHead title="Transactions" lead="read_committed consumers wait at the first open transaction of a partition." />
      {stats.data && (
        <div class="stats">
          <Stat label="Open" value={whole(stats.data.active)} />
          <Stat label="Transactional ids" value={whole(stats.data.producers)} />
          <Stat label="Log" value={bytes(stats.data.log_size_bytes)} />
        </div>
      )}
      <div class="toolbar">
        <Filter label="Filter transactions" />
      </div>
      <Loaded from={found}>
        {({ transactions }) => (
          <Card flush>
            <Table
              label="Transactions"
              rows={rows}
              columns={columns}
              rowKey={(row) => row.transactional_id}
              first={{ column: "open", descending: true }}
              empty={<Empty title={transactions.length ? "No matching transactions" : "No transactional producers"} />}
            />
          </Card>
        )}
      </Loaded>
    </>
  );
}

function askAbort(row: Transaction, onDone: () => void): void {
  ask({
    title: "Abort a transaction",
    danger: true,
    verb: "Abort transaction",
    body: (
      <p>
        Everything that <strong>{row.transactional_id}</strong> wrote in this transaction is discarded
        {touched(row) && ` (${touched(row)})`}, and its producer is fenced: it has to begin anew.
      </p>
    ),
    run: async () => {
      await api.post("/transactions/abort", { transactional_id: row.transactional_id });
      return <p>The transaction of {row.transactional_id} was aborted.</p>;
    },
    then: onDone,
  });
}

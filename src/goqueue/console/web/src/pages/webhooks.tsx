// Webhooks: where events are posted to, whether they arrive, and what failed.
import { useState } from "preact/hooks";
import { ask, Dialog } from "../kit/dialog";
import { CheckField, Form, TextField } from "../kit/form";
import { Ago, Badge, Button, Card, CopyButton, Empty, Facts, Loaded, Note, PageHead, Plain, Stat, Status, type Tone } from "../kit/parts";
import { type Column, Table } from "../kit/table";
import { toast } from "../kit/toasts";
import { api, path } from "../lib/api";
import { duration, many, milliseconds, NONE, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { go, Link, type Params } from "../lib/router";
import { session } from "../lib/session";
import { useStore } from "../lib/store";

type Webhook = {
  id: string;
  url: string;
  events: string[];
  topics: string[];
  description: string;
  enabled: boolean;
  timeout_ms: number;
  max_retries: number;
  backoff_ms: number;
  max_backoff_ms: number;
  created_at: number;
};

type Delivery = {
  event: string;
  type: string;
  attempt: number;
  at: number;
  outcome: "delivered" | "retrying" | "dead_lettered" | "failed";
  status: number | null;
  error: string;
  took_ms: number;
};

type Deliveries = { pending: number | null; deliveries: Delivery[] };
type DeadEvent = { event: string; type: string; happened_at: number; dead_at: number; attempts: number; error: string };

const SHOWN = 100;
const OUTCOMES: Record<Delivery["outcome"], Tone> = { delivered: "good", retrying: "warn", dead_lettered: "bad", failed: "bad" };

type Row = Webhook & { state: Deliveries | null };

/** A webhook whose node is away has no state; the others are shown. */
async function readWebhooks(signal: AbortSignal): Promise<Row[]> {
  const { webhooks } = await api.get<{ webhooks: Webhook[] }>("/admin/webhooks", { signal });
  const states = await Promise.allSettled(
    webhooks.map((each) => api.get<Deliveries>(path("admin", "webhooks", each.id, "deliveries"), { signal, query: { limit: SHOWN } })),
  );
  return webhooks.map((each, at) => {
    const state = states[at];
    return { ...each, state: state?.status === "fulfilled" ? state.value : null };
  });
}

function State({ hook, state }: { hook: Webhook; state: Deliveries | null | undefined }) {
  if (!hook.enabled) return <Status tone="neutral">disabled</Status>;
  const newest = state?.deliveries[0];
  if (!newest) return <Status tone="neutral">no delivery yet</Status>;
  return <Status tone={OUTCOMES[newest.outcome]}>{newest.outcome === "delivered" ? "delivering" : newest.outcome.replace("_", "-")}</Status>;
}

function failures(state: Deliveries | null | undefined): number {
  return state?.deliveries.filter((each) => each.outcome !== "delivered").length ?? 0;
}

function lastError(state: Deliveries | null | undefined): string {
  return state?.deliveries.find((each) => each.error)?.error ?? "";
}

const COLUMNS: Column<Row>[] = [
  { id: "url", title: "Target", wide: true, sort: (row) => row.url, cell: (row) => <Link to={path("webhooks", row.id)}><Plain text={row.url} most={80} /></Link> },
  { id: "state", title: "State", cell: (row) => <State hook={row} state={row.state} /> },
  { id: "pending", title: "Pending", number: true, sort: (row) => row.state?.pending ?? 0, cell: (row) => whole(row.state?.pending) },
  { id: "failures", title: "Failed attempts", number: true, minor: true, sort: (row) => failures(row.state), cell: (row) => whole(failures(row.state)) },
  { id: "error", title: "Last error", minor: true, cell: (row) => <Plain text={lastError(row.state) || NONE} most={80} /> },
  { id: "events", title: "Events", minor: true, cell: (row) => <Plain text={row.events.join(", ") || "all"} most={60} /> },
];

export function WebhooksPage() {
  const found = useResource(readWebhooks, [], { everyMs: 5000 });
  const isOff = found.problem?.code === "webhooks_disabled";
  const who = useStore(session);
  const [isMaking, setMaking] = useState(false);
  return (
    <>
      <PageHead
        title="Webhooks"
        lead="Cluster events, posted to URLs. Failed deliveries are retried with back-off, then dead-lettered."
        actions={!isOff && who?.allowed.change_access && <Button kind="primary" icon="plus" onClick={() => setMaking(true)}>New webhook</Button>}
      />
      {isOff && (
        <Empty title="Webhooks are off">
          <Plain text={found.problem?.message ?? ""} most={300} />
        </Empty>
      )}
      {!isOff && <Loaded from={found}>
        {(rows) => (
          <Card flush>
            <Table
              label="Webhooks"
              rows={rows}
              columns={COLUMNS}
              rowKey={(row) => row.id}
              rowTo={(row) => path("webhooks", row.id)}
              first={{ column: "url" }}
              empty={<Empty title="No webhooks">A webhook posts events, such as topic.created, to a URL.</Empty>}
            />
          </Card>
        )}
      </Loaded>}
      {isMaking && <NewWebhook onClose={() => setMaking(false)} onDone={found.reload} />}
    </>
  );
}

function words(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

function NewWebhook({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState("");
  const [topics, setTopics] = useState("");
  const [description, setDescription] = useState("");
  const [isEnabled, setEnabled] = useState(true);
  const [made, setMade] = useState<(Webhook & { secret: string | null }) | null>(null);
  const make = async () => {
    setMade(await api.post("/admin/webhooks", { url, events: words(events), topics: words(topics), description, enabled: isEnabled }));
    onDone();
  };
  return (
    <Dialog title="New webhook" onClose={onClose}>
      {made ? (
        <>
          <Note tone="good">
            <p>The webhook was created. Each request is signed with this secret, which is shown only now:</p>
            <p>
              <code>{made.secret}</code> <CopyButton text={made.secret ?? ""} />
            </p>
          </Note>
          <footer class="dialog-foot">
            <Button kind="primary" onClick={onClose}>Close</Button>
          </footer>
        </>
      ) : (
        <Form verb="Create webhook" onSubmit={make} onCancel={onClose}>
          <TextField label="URL" name="url" value={url} onChange={setUrl} />
          <TextField label="Events" name="events" hint="Such as topic.created; empty: all." value={events} onChange={setEvents} />
          <TextField label="Topics" name="topics" hint="Only events about these; empty: all." value={topics} onChange={setTopics} />
          <TextField label="Description" name="description" value={description} onChange={setDescription} />
          <CheckField label="Enabled" value={isEnabled} onChange={setEnabled} />
        </Form>
      )}
    </Dialog>
  );
}

const ATTEMPTS: Column<Delivery>[] = [
  { id: "at", title: "Time", sort: (row) => row.at, cell: (row) => <Ago ms={row.at} /> },
  { id: "type", title: "Event", wide: true, sort: (row) => row.type, cell: (row) => row.type },
  { id: "outcome", title: "Outcome", cell: (row) => <Status tone={OUTCOMES[row.outcome]}>{row.outcome.replace("_", "-")}</Status> },
  { id: "status", title: "Response", number: true, cell: (row) => row.status ?? NONE },
  { id: "attempt", title: "Attempt", number: true, minor: true, cell: (row) => row.attempt },
  { id: "took", title: "Took", number: true, minor: true, sort: (row) => row.took_ms, cell: (row) => milliseconds(row.took_ms) },
  { id: "error", title: "Error", minor: true, cell: (row) => <Plain text={row.error || NONE} most={100} /> },
];

export function WebhookPage({ params }: { params: Params }) {
  const id = params["webhook"] ?? "";
  const at = (...more: string[]) => path("admin", "webhooks", id, ...more);
  const hook = useResource((signal) => api.get<Webhook>(at(), { signal }), [id]);
  const past = useResource((signal) => api.get<Deliveries>(at("deliveries"), { signal, query: { limit: SHOWN } }), [id], { everyMs: 3000 });
  const dead = useResource((signal) => api.get<{ events: DeadEvent[] }>(at("dead"), { signal, query: { limit: SHOWN } }), [id], { everyMs: 5000 });
  const [isTesting, setTesting] = useState(false);
  const test = async () => {
    setTesting(true);
    try {
      const said = await api.post<Delivery>(at("test"), {});
      if (said.outcome === "delivered") toast.ok(`The target answered ${said.status ?? ""} in ${milliseconds(said.took_ms)}.`);
      else toast.problem(new Error(`The test failed: ${said.error || `the target answered ${said.status ?? "nothing"}`}.`));
      past.reload();
    } catch (error) {
      toast.problem(error);
    } finally {
      setTesting(false);
    }
  };
  const change = async (enabled: boolean) => {
    try {
      await api.patch(at(), { enabled });
      hook.reload();
    } catch (error) {
      toast.problem(error);
    }
  };
  return (
    <>
      <PageHead
        title={hook.data?.url ?? id}
        above={<Link to="/webhooks">Webhooks</Link>}
        lead={hook.data && <State hook={hook.data} state={past.data} />}
        actions={
          hook.data && (
            <>
              <Button icon="send" busy={isTesting} onClick={() => void test()}>Send test event</Button>
              <Button onClick={() => void change(!hook.data?.enabled)}>{hook.data.enabled ? "Disable" : "Enable"}</Button>
              <Button kind="danger" icon="trash" onClick={() => askDelete(at(), hook.data?.url ?? id)}>Delete</Button>
            </>
          )
        }
      />
      <Loaded from={hook}>
        {(found) => (
          <>
            <div class="stats">
              <Stat label="Pending events" value={whole(past.data?.pending)} />
              <Stat label="Failed attempts" value={whole(failures(past.data))} extra={`of the last ${many(past.data?.deliveries.length ?? 0, "attempt")}`} />
              <Stat label="Dead letters" value={whole(dead.data?.events.length)} tone={dead.data?.events.length ? "bad" : "neutral"} />
            </div>
            {lastError(past.data) && <Note tone="warn">Last error: <Plain text={lastError(past.data)} most={400} /></Note>}
            <Dead events={dead.data?.events ?? []} at={at("redeliver")} onDone={dead.reload} />
            <Loaded from={past}>
              {({ deliveries }) => (
                <Card title="Last attempts" flush>
                  <Table label="Last attempts" rows={deliveries} columns={ATTEMPTS} rowKey={(row) => `${row.event}/${row.attempt}/${row.at}`} first={{ column: "at", descending: true }} empty={<Empty title="No attempt since the node started" />} />
                </Card>
              )}
            </Loaded>
            <Card title="Settings">
              <Facts
                items={[
                  ["Id", found.id],
                  ["Description", <Plain text={found.description || NONE} />],
                  ["Events", <Plain text={found.events.join(", ") || "all"} />],
                  ["Topics", <Plain text={found.topics.join(", ") || "all"} />],
                  ["Timeout", duration(found.timeout_ms)],
                  ["Retries", `${whole(found.max_retries)}, back-off ${duration(found.backoff_ms)} to ${duration(found.max_backoff_ms)}`],
                  ["Created", <Ago ms={found.created_at} />],
                ]}
              />
            </Card>
          </>
        )}
      </Loaded>
    </>
  );
}

function Dead({ events, at, onDone }: { events: DeadEvent[]; at: string; onDone: () => void }) {
  if (!events.length) return null;
  const redeliver = (chosen: DeadEvent[] | null) =>
    ask({
      title: "Redeliver",
      verb: "Redeliver",
      body: <p>{chosen ? many(chosen.length, "dead-lettered event") : "Every dead-lettered event"} of this webhook is moved to the end of its queue, with the same id.</p>,
      run: async () => {
        const done = await api.post<{ events: number }>(at, chosen ? { events: chosen.map((each) => each.event) } : {});
        return <p>{many(done.events, "event")} will be delivered again.</p>;
      },
      then: onDone,
    });
  const columns: Column<DeadEvent>[] = [
    { id: "at", title: "Dead-lettered", sort: (row) => row.dead_at, cell: (row) => <Ago ms={row.dead_at} /> },
    { id: "type", title: "Event", wide: true, cell: (row) => row.type },
    { id: "attempts", title: "Attempts", number: true, cell: (row) => whole(row.attempts) },
    { id: "error", title: "Last error", minor: true, cell: (row) => <Plain text={row.error} most={100} /> },
    { id: "do", title: "", cell: (row) => <Button kind="ghost" onClick={() => redeliver([row])}>Redeliver</Button> },
  ];
  return (
    <Card title="Dead letters" flush actions={<><Badge tone="bad">{whole(events.length)}</Badge><Button onClick={() => redeliver(null)}>Redeliver all</Button></>}>
      <Table label="Dead letters" rows={events} columns={columns} rowKey={(row) => row.event} first={{ column: "at", descending: true }} />
    </Card>
  );
}

function askDelete(at: string, url: string): void {
  ask({
    title: "Delete webhook",
    danger: true,
    verb: "Delete webhook",
    body: <p>No further event is posted to <Plain text={url} most={120} />. Its pending and dead-lettered events are deleted.</p>,
    run: async () => {
      await api.delete(at);
      return <p>The webhook was deleted.</p>;
    },
    then: () => go("/webhooks"),
  });
}

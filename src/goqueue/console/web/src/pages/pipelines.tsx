// Spark pipelines, as reported by their drivers: state, rate, lag, errors.
import { ask } from "../kit/dialog";
import { Ago, Badge, Button, Card, Empty, Facts, Lines, Loaded, Note, PageHead, Plain, Stat, Status, Time, type Tone } from "../kit/parts";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { api, path } from "../lib/api";
import { oneLine } from "../lib/content";
import { milliseconds, perSecond, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { go, Link, type Params } from "../lib/router";

type Query = {
  name: string;
  id: string;
  run_id: string;
  state: string;
  sink: string;
  sources: string[];
  group: string | null;
  batch_id: number;
  batch_ms: number;
  rows: number;
  rows_per_second: number;
  input_rows_per_second: number;
  lag: number | null;
  state_rows: number | null;
  watermark: number | null;
  error: string | null;
  updated_at: number;
};

type Pipeline = {
  name: string;
  state: string;
  started_at: number;
  updated_at: number;
  host: string;
  pid: number;
  master: string;
  spark_ui: string | null;
  file: string | null;
  error: string | null;
  queries: Query[];
};

function tone(state: string): Tone {
  if (state === "running") return "good";
  if (state === "failed" || state === "lost") return "bad";
  return state === "starting" ? "accent" : "neutral";
}

/** Of all queries together; null where none of them knows. */
function total(pipeline: Pipeline, value: (query: Query) => number | null): number | null {
  const known = pipeline.queries.map(value).filter((each) => each !== null);
  return known.length ? known.reduce((sum, each) => sum + each, 0) : null;
}

const COLUMNS: Column<Pipeline>[] = [
  { id: "name", title: "Pipeline", wide: true, sort: (row) => row.name, cell: (row) => <Link to={path("pipelines", row.name)}>{row.name}</Link> },
  { id: "state", title: "State", sort: (row) => row.state, cell: (row) => <Status tone={tone(row.state)}>{row.state}</Status> },
  { id: "queries", title: "Queries", number: true, minor: true, sort: (row) => row.queries.length, cell: (row) => whole(row.queries.length) },
  { id: "rate", title: "Rows", number: true, sort: (row) => total(row, (each) => each.rows_per_second), cell: (row) => perSecond(total(row, (each) => each.rows_per_second)) },
  { id: "lag", title: "Lag", number: true, sort: (row) => total(row, (each) => each.lag), cell: (row) => whole(total(row, (each) => each.lag)) },
  { id: "heard", title: "Last report", minor: true, sort: (row) => row.updated_at, cell: (row) => <Ago ms={row.updated_at} /> },
  { id: "error", title: "Last error", minor: true, cell: (row) => <Plain text={errorOf(row) ?? "–"} most={80} /> },
];

function errorOf(pipeline: Pipeline): string | null {
  return pipeline.error ?? pipeline.queries.find((each) => each.error)?.error ?? null;
}

export function PipelinesPage() {
  const found = useResource((signal) => api.get<{ pipelines: Pipeline[] }>("/pipelines", { signal }), [], { everyMs: 3000, on: ["pipeline"] });
  const rows = useFiltered(found.data?.pipelines, (row) => row.name);
  return (
    <>
      <PageHead title="Pipelines" lead="Spark pipelines that read from or write to this broker, as reported by their drivers." />
      <div class="toolbar">
        <Filter label="Filter pipelines" />
      </div>
      <Loaded from={found}>
        {({ pipelines }) => (
          <Card flush>
            <Table
              label="Pipelines"
              rows={rows}
              columns={COLUMNS}
              rowKey={(row) => row.name}
              rowTo={(row) => path("pipelines", row.name)}
              first={{ column: "name" }}
              empty={
                pipelines.length ? (
                  <Empty title="No matching pipelines" />
                ) : (
                  <Empty title="No pipeline has reported">
                    <code>goqueue pipeline run FILE</code> reports here when the file names the broker's HTTP address.
                  </Empty>
                )
              }
            />
          </Card>
        )}
      </Loaded>
    </>
  );
}

const QUERIES: Column<Query>[] = [
  { id: "name", title: "Query", wide: true, sort: (row) => row.name, cell: (row) => <Plain text={row.name} /> },
  { id: "state", title: "State", cell: (row) => <Badge tone={tone(row.state)}>{row.state}</Badge> },
  { id: "sink", title: "Writes", minor: true, cell: (row) => <Plain text={row.sink} most={60} /> },
  { id: "batch", title: "Batch", number: true, minor: true, sort: (row) => row.batch_id, cell: (row) => whole(row.batch_id) },
  { id: "took", title: "Batch duration", number: true, minor: true, sort: (row) => row.batch_ms, cell: (row) => milliseconds(row.batch_ms) },
  { id: "rate", title: "Rows", number: true, sort: (row) => row.rows_per_second, cell: (row) => perSecond(row.rows_per_second) },
  { id: "rows", title: "Total rows", number: true, minor: true, sort: (row) => row.rows, cell: (row) => whole(row.rows) },
  { id: "lag", title: "Lag", number: true, sort: (row) => row.lag, cell: (row) => whole(row.lag) },
  { id: "group", title: "Group", minor: true, cell: (row) => (row.group ? <Link to={path("groups", row.group)}>{row.group}</Link> : "–") },
];

export function PipelinePage({ params }: { params: Params }) {
  const name = params["pipeline"] ?? "";
  const pipeline = useResource((signal) => api.get<Pipeline>(path("pipelines", name), { signal }), [name], { everyMs: 2000, on: ["pipeline"] });
  return (
    <>
      <PageHead
        title={name}
        above={<Link to="/pipelines">Pipelines</Link>}
        lead={pipeline.data && <Status tone={tone(pipeline.data.state)}>{pipeline.data.state}</Status>}
        actions={
          <Button icon="trash" onClick={() => askForget(name)}>
            Forget
          </Button>
        }
      />
      <Loaded from={pipeline}>
        {(found) => (
          <>
            {found.error && (
              <Note tone="bad">
                <p>
                  <Lines text={found.error} />
                </p>
              </Note>
            )}
            {found.state === "lost" && (
              <Note tone="bad">
                <p>No report for three intervals: its driver was killed, or cannot reach the broker.</p>
              </Note>
            )}
            <div class="stats">
              <Stat label="Rows" value={perSecond(total(found, (each) => each.rows_per_second))} />
              <Stat label="Lag" value={whole(total(found, (each) => each.lag))} />
              <Stat label="Total rows" value={whole(total(found, (each) => each.rows))} />
              <Stat label="Started" value={<Ago ms={found.started_at} />} />
            </div>
            <Card title="Queries" flush>
              <Table label="Queries" rows={found.queries} columns={QUERIES} rowKey={(row) => row.id || row.name} empty={<Empty title="No query has started" />} />
            </Card>
            {found.queries.filter((each) => each.error).map((each) => (
              <Note key={each.name} tone="bad">
                <p>
                  <strong>{each.name}</strong>: <Lines text={each.error ?? ""} />
                </p>
              </Note>
            ))}
            <Card title="Driver">
              <Facts
                items={[
                  ["Master", found.master],
                  ["Driver", `${found.host}, process ${found.pid}`],
                  ["File", <Plain text={found.file ?? "–"} />],
                  ["Spark UI", <SparkPage at={found.spark_ui} />],
                  ["Last report", <Time ms={found.updated_at} />],
                ]}
              />
            </Card>
          </>
        )}
      </Loaded>
    </>
  );
}

/** A link to it, where it is the address of a page. */
function SparkPage({ at }: { at: string | null }) {
  if (!at || !/^https?:\/\//i.test(at)) return <Plain text={at ?? "–"} />;
  return (
    <a href={at} target="_blank" rel="noreferrer">
      {oneLine(at, 200)}
    </a>
  );
}

function askForget(name: string): void {
  ask({
    title: "Remove a pipeline",
    verb: "Forget",
    body: (
      <p>
        What <strong>{name}</strong> last reported is removed from this list. The pipeline itself, its checkpoints and its
        groups are not touched; one that still runs is back with its next report.
      </p>
    ),
    run: async () => {
      await api.delete(path("pipelines", name));
      return <p>{name} is forgotten.</p>;
    },
    then: () => go("/pipelines"),
  });
}

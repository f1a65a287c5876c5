// The schema registry: subjects, their versions, what changed, and whether a new one would fit.
import { useState } from "preact/hooks";
import { Dialog, ask } from "../kit/dialog";
import { AreaField, Form, SelectField, TextField } from "../kit/form";
import { Badge, Button, Card, Empty, Facts, Loaded, Note, PageHead, ProblemNote } from "../kit/parts";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { toast } from "../kit/toasts";
import { api, asProblem, path } from "../lib/api";
import { isJson, jsonTokens, oneLine, visible } from "../lib/content";
import { sideBySide } from "../lib/diff";
import { many, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { go, Link, type Params, useQueryField } from "../lib/router";

type Reference = { name: string; subject: string; version: number };

type Version = {
  subject: string;
  id: number;
  version: number;
  schemaType?: string;
  schema: string;
  references?: Reference[];
};

type Verdict = { is_compatible: boolean; messages?: string[] };

/** In the address: a version is looked at for itself. */
const NOTHING = "none";
const TYPES = ["AVRO", "JSON", "PROTOBUF"];
const LEVELS = [
  "BACKWARD",
  "BACKWARD_TRANSITIVE",
  "FORWARD",
  "FORWARD_TRANSITIVE",
  "FULL",
  "FULL_TRANSITIVE",
  "NONE",
];

type Row = { subject: string; version: Version | null };

const COLUMNS: Column<Row>[] = [
  { id: "subject", title: "Subject", wide: true, sort: (row) => row.subject, cell: (row) => <Link to={path("schemas", row.subject)}>{row.subject}</Link> },
  { id: "type", title: "Type", sort: (row) => typeOf(row.version), cell: (row) => (row.version ? <Badge>{typeOf(row.version)}</Badge> : "–") },
  { id: "version", title: "Newest version", number: true, sort: (row) => row.version?.version ?? 0, cell: (row) => whole(row.version?.version) },
  { id: "id", title: "Schema id", number: true, minor: true, sort: (row) => row.version?.id ?? 0, cell: (row) => whole(row.version?.id) },
];

function typeOf(version: Version | null): string {
  return version?.schemaType ?? "AVRO";
}

export function SchemasPage() {
  const [isNew, setNew] = useState(false);
  const subjects = useResource(
    async (signal) => {
      const names = await api.get<string[]>("/subjects", { signal });
      const newest = await api.get<Version[]>("/schemas", { signal, query: { latestOnly: true } });
      const found = new Map(newest.map((each) => [each.subject, each]));
      return names.map((subject): Row => ({ subject, version: found.get(subject) ?? null }));
    },
    [],
    { everyMs: 15_000, on: ["schema"] },
  );
  const rows = useFiltered(subjects.data, (row) => row.subject);
  return (
    <>
      <PageHead
        title="Schemas"
        lead="Schemas of messages, by subject. The subject for the values of a topic is TOPIC-value."
        actions={
          <Button kind="primary" icon="plus" onClick={() => setNew(true)}>
            Register schema
          </Button>
        }
      />
      <div class="toolbar">
        <Filter label="Filter subjects" />
      </div>
      <Loaded from={subjects}>
        {() => (
          <Card flush>
            <Table
              label="Subjects"
              rows={rows}
              columns={COLUMNS}
              rowKey={(row) => row.subject}
              rowTo={(row) => path("schemas", row.subject)}
              first={{ column: "subject" }}
              empty={<Empty title={subjects.data?.length ? "No matching subjects" : "No schemas"} />}
            />
          </Card>
        )}
      </Loaded>
      {isNew && <Register onClose={() => setNew(false)} />}
    </>
  );
}

export function SubjectPage({ params }: { params: Params }) {
  const subject = params["subject"] ?? "";
  const [isNew, setNew] = useState(false);
  const [chosen, setChosen] = useQueryField("version");
  const [against, setAgainst] = useQueryField("against");
  const versions = useResource(
    async (signal) => {
      const numbers = await api.get<number[]>(path("subjects", subject, "versions"), { signal });
      return Promise.all(
        numbers.map((number) => api.get<Version>(path("subjects", subject, "versions", number), { signal })),
      );
    },
    [subject],
    { on: ["schema"] },
  );
  const level = useResource(
    (signal) =>
      api.get<{ compatibilityLevel: string }>(path("config", subject), { signal, query: { defaultToGlobal: true } }),
    [subject],
  );
  return (
    <>
      <PageHead
        title={subject}
        above={<Link to="/schemas">Schemas</Link>}
        actions={
          <>
            <Button kind="primary" icon="plus" onClick={() => setNew(true)} disabled={!versions.data}>
              New version
            </Button>
            <Button kind="danger" icon="trash" onClick={() => askDelete(subject, versions.data?.length ?? 0)} disabled={!versions.data}>
              Delete
            </Button>
          </>
        }
      />
      <Loaded from={versions}>
        {(found) => {
          const newest = found.at(-1);
          const right = found.find((each) => String(each.version) === chosen) ?? newest;
          const left =
            against === NOTHING
              ? undefined
              : (found.find((each) => String(each.version) === against) ??
                found.filter((each) => right && each.version < right.version).at(-1));
          if (!right || !newest) return <Empty title="No versions" />;
          return (
            <>
              <div class="toolbar">
                <SelectField label="Version" value={String(right.version)} onChange={setChosen} choices={choices(found)} />
                <SelectField
                  label="Compared with"
                  value={left ? String(left.version) : NOTHING}
                  onChange={setAgainst}
                  choices={[{ value: NOTHING, label: "Nothing" }, ...choices(found)]}
                />
                {level.data && (
                  <SelectField
                    label="Compatibility"
                    value={level.data.compatibilityLevel}
                    onChange={(value) => askLevel(subject, value, level.reload)}
                    choices={LEVELS.map((each) => ({ value: each, label: each.toLowerCase().replaceAll("_", " ") }))}
                  />
                )}
              </div>
              <Card title={`Version ${right.version}`}>
                <Facts
                  items={[
                    ["Type", typeOf(right)],
                    ["Schema id", whole(right.id)],
                    ["References", right.references?.length ? right.references.map((each) => `${each.subject} ${each.version}`).join(", ") : "nothing"],
                  ]}
                />
              </Card>
              {left && left.version !== right.version ? (
                <Difference left={left} right={right} />
              ) : (
                <Card title="Schema">
                  <pre class="code" tabIndex={0}>
                    {visible(laidOut(right.schema))}
                  </pre>
                </Card>
              )}
            </>
          );
        }}
      </Loaded>
      {isNew && <Register subject={subject} from={versions.data?.at(-1)} onClose={() => setNew(false)} />}
    </>
  );
}

function choices(versions: Version[]) {
  return versions.map((each) => ({ value: String(each.version), label: `Version ${each.version}` }));
}

function laidOut(schema: string): string {
  return isJson(schema) ? jsonTokens(schema).map((token) => token.text).join("") : schema;
}

const KINDS = { same: "", gone: "removed", new: "added", changed: "changed" } as const;

function Difference({ left, right }: { left: Version; right: Version }) {
  const rows = sideBySide(laidOut(left.schema), laidOut(right.schema));
  const changes = rows.filter((row) => row.kind !== "same").length;
  return (
    <Card title={`What changed from version ${left.version} to ${right.version}`} flush actions={<span class="muted">{many(changes, "line")}</span>}>
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Differences">
        <table class="diff">
          <thead>
            <tr>
              <th scope="col">Version {left.version}</th>
              <th scope="col">Version {right.version}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              <tr key={at} class={row.kind} aria-label={KINDS[row.kind] || undefined}>
                <td class="left">{row.left === null ? "" : visible(row.left)}</td>
                <td class="right">{row.right === null ? "" : visible(row.right)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function Register({ subject, from, onClose }: { subject?: string; from?: Version | undefined; onClose: () => void }) {
  const [name, setName] = useState(subject ?? "");
  const [type, setType] = useState(from ? typeOf(from) : "AVRO");
  const [text, setText] = useState(from ? laidOut(from.schema) : "");
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const body = { schema: text, schemaType: type, ...(from?.references ? { references: from.references } : {}) };
  const check = async () => {
    setVerdict(null);
    setProblem(null);
    try {
      const at = path("compatibility", "subjects", name, "versions", "latest");
      setVerdict(await api.post<Verdict>(at, body, { query: { verbose: true } }));
    } catch (error) {
      if (asProblem(error).status === 404) setVerdict({ is_compatible: true, messages: ["the subject has no version yet"] });
      else setProblem(error);
    }
  };
  return (
    <Dialog title={subject ? `New version of ${subject}` : "Register schema"} onClose={onClose} wide>
      <Form
        verb="Register"
        onCancel={onClose}
        aside={
          <Button onClick={check} disabled={!name || !text}>
            Check compatibility
          </Button>
        }
        onSubmit={async () => {
          setVerdict(null);
          setProblem(null);
          const made = await api.post<{ id: number }>(path("subjects", name, "versions"), body);
          toast.ok(`${name} was registered with schema id ${made.id}.`);
          onClose();
          go(path("schemas", name));
        }}
      >
        {!subject && <TextField label="Subject" hint="TOPIC-value for a topic's values." value={name} onChange={setName} />}
        <SelectField label="Type" value={type} onChange={setType} choices={TYPES.map((each) => ({ value: each, label: each }))} />
        <AreaField label="Schema" rows={14} value={text} onChange={setText} />
        <div aria-live="polite">
          {verdict && (
            <Note tone={verdict.is_compatible ? "good" : "bad"}>
              <p>{verdict.is_compatible ? "Compatible with earlier versions." : "Not compatible with earlier versions:"}</p>
              {verdict.messages && verdict.messages.length > 0 && (
                <ul>
                  {verdict.messages.map((each, at) => (
                    <li key={at}>{oneLine(each, 500)}</li>
                  ))}
                </ul>
              )}
            </Note>
          )}
          {problem !== null && <ProblemNote problem={problem} />}
        </div>
      </Form>
    </Dialog>
  );
}

function askLevel(subject: string, level: string, onDone: () => void): void {
  ask({
    title: "Change compatibility",
    verb: "Change",
    body: (
      <p>
        From now on, new versions of <strong>{subject}</strong> must be <strong>{level.toLowerCase().replaceAll("_", " ")}</strong>{" "}
        compatible. Versions that are there stay.
      </p>
    ),
    run: async () => {
      await api.put(path("config", subject), { compatibility: level });
      return <p>Compatibility of {subject} is {level.toLowerCase().replaceAll("_", " ")} now.</p>;
    },
    then: onDone,
  });
}

function askDelete(subject: string, versions: number): void {
  ask({
    title: "Delete subject",
    danger: true,
    typed: subject,
    verb: "Delete subject",
    body: (
      <p>
        Of <strong>{subject}</strong>, {many(versions, "version")} will no longer be listed, and nothing is checked against
        what is gone. Messages that name them by their ids can still be read: ids stay.
      </p>
    ),
    run: async () => {
      const gone = await api.delete<number[]>(path("subjects", subject));
      return <p>{many(gone.length, "version was", "versions were")} deleted.</p>;
    },
    then: () => go("/schemas"),
  });
}

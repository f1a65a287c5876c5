// The dead letters of a topic by reason and last error: the most frequent first.
import { Ago, Badge, Button, Card, Empty, Loaded, Plain } from "../kit/parts";
import { type Column, Table } from "../kit/table";
import { many, percent, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { setQueryFields } from "../lib/router";
import { type Choice, type ErrorLine, errorsOf, type LetterFilter } from "./letters";

function filterOf(line: ErrorLine): LetterFilter {
  return { ...(line.reason === null ? {} : { reason: line.reason }), error: line.error };
}

function show(line: ErrorLine): void {
  setQueryFields({ view: "", reason: line.reason ?? "", error: line.error, no_error: line.error ? "" : "1", cursor: "", letter: "" });
}

export function ErrorTable({
  topic,
  filter,
  turn,
  onRedrive,
  onDelete,
}: {
  topic: string;
  filter: LetterFilter;
  turn: number;
  onRedrive: (choice: Choice) => void;
  onDelete: (choice: Choice) => void;
}) {
  const found = useResource((signal) => errorsOf(topic, filter, signal), [topic, JSON.stringify(filter), turn], { everyMs: 15_000 });
  const all = found.data?.letters ?? 0;
  const columns: Column<ErrorLine>[] = [
    { id: "count", title: "Letters", number: true, sort: (row) => row.count, cell: (row) => whole(row.count) },
    { id: "share", title: "Share", number: true, minor: true, cell: (row) => percent(row.count / Math.max(all, 1)) },
    { id: "reason", title: "Reason", minor: true, sort: (row) => row.reason, cell: (row) => <Badge tone="bad">{row.reason ?? "unknown"}</Badge> },
    {
      id: "error",
      title: "Last error",
      wide: true,
      cell: (row) => (
        <button type="button" class="link" onClick={() => show(row)}>
          <Plain text={row.error || "no error"} most={200} />
        </button>
      ),
    },
    { id: "newest", title: "Newest", minor: true, sort: (row) => row.newest_at, cell: (row) => <Ago ms={row.newest_at} /> },
    { id: "groups", title: "Groups", minor: true, cell: (row) => <Plain text={row.groups.join(", ") || "–"} most={60} /> },
    {
      id: "acts",
      title: "",
      minor: true,
      cell: (row) => {
        const choice = { filter: filterOf(row), count: row.count };
        const which = row.error || "no error";
        return (
          <span class="actions">
            <Button onClick={() => onRedrive(choice)} aria-label={`Redrive ${many(row.count, "letter")}: ${which}`}>
              Redrive
            </Button>
            <Button kind="danger" onClick={() => onDelete(choice)} aria-label={`Delete ${many(row.count, "letter")}: ${which}`}>
              Delete
            </Button>
          </span>
        );
      },
    },
  ];
  return (
    <Loaded from={found}>
      {(data) => (
        <>
          <Card flush>
            <Table
              label="Dead letters by error"
              rows={data.errors}
              columns={columns}
              rowKey={(row) => `${row.reason} ${row.error}`}
              onRow={show}
              first={{ column: "count", descending: true }}
              empty={<Empty title="No dead letters" />}
            />
          </Card>
          <p class="muted small">
            Errors that differ only in numbers and ids are one group; # stands for those.
            {data.others > 0 && ` ${whole(data.others)} letters with less frequent errors are not listed.`}
            {data.next !== null && ` Only the first ${whole(data.letters)} letters are counted.`}
          </p>
        </>
      )}
    </Loaded>
  );
}

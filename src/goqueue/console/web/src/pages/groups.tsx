// Every group, of either kind: members and lag.
import { Badge, Card, Empty, Loaded, PageHead, Status, type Tone } from "../kit/parts";
import { type Column, Filter, Table, useFiltered } from "../kit/table";
import { api, path } from "../lib/api";
import { duration, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { Link } from "../lib/router";

export type GroupLine = {
  group: string;
  state: string;
  protocol: string;
  generation: number;
  member_count: number;
  type: "log" | "queue";
  mode: string | null;
  total_lag?: number;
  oldest_age_ms?: number | null;
  topics?: string[];
};

/** A group is well when it is stable, or when nobody is in it and nothing waits. */
export function toneOf(state: string): Tone {
  if (state === "Stable") return "good";
  if (state === "Empty") return "neutral";
  return state === "Dead" ? "bad" : "warn";
}

/** A group without a partition, assigned or committed, has no lag. */
function lagOf(group: GroupLine): number | null {
  return group.topics?.length ? (group.total_lag ?? null) : null;
}

const COLUMNS: Column<GroupLine>[] = [
  {
    id: "group",
    title: "Group",
    wide: true,
    sort: (row) => row.group,
    cell: (row) => <Link to={path("groups", row.group)}>{row.group}</Link>,
  },
  {
    id: "state",
    title: "State",
    sort: (row) => row.state,
    cell: (row) => <Status tone={toneOf(row.state)}>{row.state}</Status>,
  },
  {
    id: "kind",
    title: "Kind",
    minor: true,
    sort: (row) => kindOf(row),
    cell: (row) => <Badge tone={row.type === "queue" ? "accent" : "neutral"}>{kindOf(row)}</Badge>,
  },
  {
    id: "members",
    title: "Members",
    number: true,
    minor: true,
    sort: (row) => row.member_count,
    cell: (row) => whole(row.member_count),
  },
  {
    id: "lag",
    title: "Lag",
    number: true,
    sort: lagOf,
    cell: (row) => whole(lagOf(row)),
  },
  {
    id: "age",
    title: "Oldest",
    number: true,
    minor: true,
    sort: (row) => row.oldest_age_ms ?? null,
    cell: (row) => duration(row.oldest_age_ms),
  },
];

export function kindOf(group: { type: string; mode: string | null; protocol: string }): string {
  return group.type === "queue" ? `queue, ${group.mode ?? "shared"}` : `log, ${group.protocol}`;
}

export function GroupsPage() {
  const groups = useResource(
    (signal) => api.get<{ groups: GroupLine[] }>("/groups", { signal }),
    [],
    { everyMs: 5000, on: ["group"] },
  );
  const rows = useFiltered(groups.data?.groups, (row) => `${row.group} ${(row.topics ?? []).join(" ")}`);
  return (
    <>
      <PageHead title="Groups" lead="Consumer groups and their lag." />
      <div class="toolbar">
        <Filter label="Filter groups" />
        {groups.data && (
          <span class="muted num end">
            {whole(rows.length)} of {whole(groups.data.groups.length)}
          </span>
        )}
      </div>
      <Loaded from={groups}>
        {(found) => (
          <Card flush>
            <Table
              label="Groups"
              rows={rows}
              columns={COLUMNS}
              rowKey={(row) => row.group}
              rowTo={(row) => path("groups", row.group)}
              first={{ column: "lag", descending: true }}
              empty={
                <Empty title={found.groups.length ? "No matching groups" : "No groups"}>
                  {!found.groups.length && "A group is created by its first member, from any client."}
                </Empty>
              }
            />
          </Card>
        )}
      </Loaded>
    </>
  );
}

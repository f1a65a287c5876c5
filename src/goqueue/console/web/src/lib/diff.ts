// Two texts side by side, line by line: the longest common lines stay beside each other.

type DiffRow = { left: string | null; right: string | null; kind: "same" | "gone" | "new" | "changed" };

/** More lines than this are compared as they stand: the table would have millions of cells. */
const MOST_LINES = 2000;

export function sideBySide(left: string, right: string): DiffRow[] {
  const one = left.split("\n");
  const other = right.split("\n");
  if (one.length > MOST_LINES || other.length > MOST_LINES) return inPlace(one, other);
  return paired(steps(one, other, lengths(one, other)));
}

/** How long the common part is of what is behind each pair of lines. */
function lengths(one: string[], other: string[]): Uint16Array[] {
  const rows = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let at = one.length - 1; at >= 0; at -= 1) {
    const row = rows[at] as Uint16Array;
    const below = rows[at + 1] as Uint16Array;
    for (let beside = other.length - 1; beside >= 0; beside -= 1) {
      row[beside] =
        one[at] === other[beside]
          ? (below[beside + 1] as number) + 1
          : Math.max(below[beside] as number, row[beside + 1] as number);
    }
  }
  return rows;
}

function steps(one: string[], other: string[], rows: Uint16Array[]): DiffRow[] {
  const found: DiffRow[] = [];
  let at = 0;
  let beside = 0;
  while (at < one.length || beside < other.length) {
    if (at < one.length && beside < other.length && one[at] === other[beside]) {
      found.push({ left: one[at] as string, right: other[beside] as string, kind: "same" });
      at += 1;
      beside += 1;
    } else if (beside >= other.length || (at < one.length && (rows[at + 1]?.[beside] ?? 0) >= (rows[at]?.[beside + 1] ?? 0))) {
      found.push({ left: one[at] as string, right: null, kind: "gone" });
      at += 1;
    } else {
      found.push({ left: null, right: other[beside] as string, kind: "new" });
      beside += 1;
    }
  }
  return found;
}

/** Lines that went and lines that came in the same place stand beside each other. */
function paired(rows: DiffRow[]): DiffRow[] {
  const found: DiffRow[] = [];
  let at = 0;
  while (at < rows.length) {
    const row = rows[at] as DiffRow;
    if (row.kind === "same") {
      found.push(row);
      at += 1;
      continue;
    }
    const gone: string[] = [];
    const added: string[] = [];
    while (at < rows.length && rows[at]?.kind !== "same") {
      const { left, right } = rows[at] as DiffRow;
      if (left !== null) gone.push(left);
      if (right !== null) added.push(right);
      at += 1;
    }
    for (let place = 0; place < Math.max(gone.length, added.length); place += 1) {
      const left = gone[place] ?? null;
      const right = added[place] ?? null;
      found.push({ left, right, kind: left === null ? "new" : right === null ? "gone" : "changed" });
    }
  }
  return found;
}

function inPlace(one: string[], other: string[]): DiffRow[] {
  return Array.from({ length: Math.max(one.length, other.length) }, (_, at) => {
    const left = one[at] ?? null;
    const right = other[at] ?? null;
    const kind = left === right ? "same" : left === null ? "new" : right === null ? "gone" : "changed";
    return { left, right, kind };
  });
}

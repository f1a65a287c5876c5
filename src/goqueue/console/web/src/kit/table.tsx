// Tables: sorted by any column, filtered by a word, a page at a time, so that ten thousand rows cost
// what fifty do. Rows may lead somewhere; the link is in the first cell, the whole row follows it.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { whole } from "../lib/format";
import { go, useQueryField } from "../lib/router";
import { Icon } from "./icons";
import { Empty } from "./parts";

export type Column<Row> = {
  id: string;
  title: string;
  /** In place of the title: a control. */
  head?: ComponentChildren;
  /** What the column is sorted by; without it, it is not. */
  sort?: (row: Row) => string | number | null;
  cell: (row: Row) => ComponentChildren;
  /** Numbers stand at the right. */
  number?: boolean;
  /** Left out on narrow screens. */
  minor?: boolean;
  /** Takes what width is left. */
  wide?: boolean;
};

type TableProps<Row> = {
  /** What the table holds, for screen readers. */
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  /** Where a click on a row leads, below /console. */
  rowTo?: (row: Row) => string;
  onRow?: (row: Row) => void;
  /** The row that is open beside or below the table. */
  isCurrent?: (row: Row) => boolean;
  first?: { column: string; descending?: boolean };
  pageSize?: number;
  empty?: ComponentChildren;
};

export function Table<Row>(props: TableProps<Row>) {
  const { rows, columns, rowKey, first, pageSize = 50 } = props;
  const [order, setOrder] = useState<{ column: string; descending: boolean } | null>(
    first ? { column: first.column, descending: first.descending ?? false } : null,
  );
  const [page, setPage] = useState(0);
  const sorted = useMemo(() => inOrder(rows, columns, order), [rows, columns, order]);
  const pages = Math.max(1, Math.ceil(sorted.length / pageSize));
  const current = Math.min(page, pages - 1);
  useEffect(() => setPage(0), [order, rows.length === 0]);
  if (!rows.length) return <>{props.empty ?? <Empty title="No rows" />}</>;
  const shown = sorted.slice(current * pageSize, (current + 1) * pageSize);
  const choose = (column: Column<Row>) =>
    setOrder((was) => ({
      column: column.id,
      descending: was?.column === column.id ? !was.descending : Boolean(column.number),
    }));
  return (
    <>
      <div class="table-scroll" tabIndex={0} role="region" aria-label={props.label}>
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <HeadCell key={column.id} column={column} order={order} onChoose={choose} />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <BodyRow key={rowKey(row)} row={row} {...props} />
            ))}
          </tbody>
        </table>
      </div>
      {pages > 1 && (
        <Pager page={current} pages={pages} count={sorted.length} size={pageSize} onPage={setPage} />
      )}
    </>
  );
}

function inOrder<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  order: { column: string; descending: boolean } | null,
): readonly Row[] {
  const by = columns.find((column) => column.id === order?.column)?.sort;
  if (!by || !order) return rows;
  const sign = order.descending ? -1 : 1;
  return rows
    .map((row) => ({ row, value: by(row) }))
    .sort((one, other) => sign * compare(one.value, other.value))
    .map(({ row }) => row);
}

const NAMES = new Intl.Collator("en", { numeric: true });

function compare(one: string | number | null, other: string | number | null): number {
  if (one === other) return 0;
  if (one === null) return -1;
  if (other === null) return 1;
  if (typeof one === "number" && typeof other === "number") return one - other;
  return NAMES.compare(String(one), String(other));
}

function classes(column: { number?: boolean; minor?: boolean; wide?: boolean }): string {
  return [column.number && "num", column.minor && "minor", column.wide && "wide"]
    .filter(Boolean)
    .join(" ");
}

function HeadCell<Row>({
  column,
  order,
  onChoose,
}: {
  column: Column<Row>;
  order: { column: string; descending: boolean } | null;
  onChoose: (column: Column<Row>) => void;
}) {
  const active = order?.column === column.id;
  const state = active ? (order.descending ? "descending" : "ascending") : "none";
  return (
    <th scope="col" class={classes(column)} {...(column.sort ? { "aria-sort": state } : {})}>
      {column.sort ? (
        <button type="button" class="sort" onClick={() => onChoose(column)}>
          {column.title}
          <span class={`sort-mark ${state}`} aria-hidden="true">
            <Icon name="down" size={12} />
          </span>
        </button>
      ) : (
        column.head || column.title || <span class="unseen">Actions</span>
      )}
    </th>
  );
}

function BodyRow<Row>({ row, columns, rowTo, onRow, isCurrent }: { row: Row } & TableProps<Row>) {
  const follow = (event: MouseEvent) => {
    const target = event.target as HTMLElement;
    if (target.closest("a, button, input, label, select")) return;
    if (window.getSelection()?.toString()) return;
    if (onRow) onRow(row);
    else if (rowTo) go(rowTo(row));
  };
  const leads = Boolean(rowTo ?? onRow);
  return (
    <tr
      class={leads ? "leads" : undefined}
      aria-current={isCurrent?.(row) ? "true" : undefined}
      onClick={leads ? follow : undefined}
    >
      {columns.map((column) => (
        <td key={column.id} class={classes(column)}>
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
}

function Pager(props: {
  page: number;
  pages: number;
  count: number;
  size: number;
  onPage: (page: number) => void;
}) {
  const from = props.page * props.size + 1;
  const to = Math.min(props.count, from + props.size - 1);
  return (
    <nav class="pager" aria-label="Pages of the table">
      <span class="muted num" aria-live="polite">
        {whole(from)}–{whole(to)} of {whole(props.count)}
      </span>
      <button
        type="button"
        class="icon-button"
        aria-label="Previous page"
        disabled={props.page === 0}
        onClick={() => props.onPage(props.page - 1)}
      >
        <Icon name="left" />
      </button>
      <button
        type="button"
        class="icon-button"
        aria-label="Next page"
        disabled={props.page >= props.pages - 1}
        onClick={() => props.onPage(props.page + 1)}
      >
        <Icon name="right" />
      </button>
    </nav>
  );
}

/** The box that `/` goes to. Its text lives in the address, under `name`. */
export function Filter({ label, name = "filter" }: { label: string; name?: string }) {
  const [text, setText] = useQueryField(name);
  return (
    <label class="filter">
      <Icon name="search" />
      <span class="unseen">{label}</span>
      <input
        type="search"
        data-search
        value={text}
        placeholder={label}
        spellcheck={false}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  );
}

/** Rows in whose text every word of the filter occurs, in any case. */
export function useFiltered<Row>(
  rows: readonly Row[] | undefined,
  text: (row: Row) => string,
  name = "filter",
): readonly Row[] {
  const [filter] = useQueryField(name);
  return useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    if (!rows || !words.length) return rows ?? [];
    return rows.filter((row) => {
      const found = text(row).toLowerCase();
      return words.every((word) => found.includes(word));
    });
  }, [rows, filter]);
}

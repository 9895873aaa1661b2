/** A table with sortable columns that shows its rows in portions, so that 5,000 rows don't stop the browser. */

import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { t } from "../i18n";
import { count } from "../lib/format";
import { language } from "../store";

export interface Column<Row> {
  readonly key: string;
  readonly title: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly sort?: (row: Row) => number | string;
  readonly numeric?: boolean;
  /** Left out where there is little room; in a table that stacks, below the rest. */
  readonly wideOnly?: boolean;
  /** Explains the title on hover. */
  readonly help?: string;
  /** On a phone: `lead` comes first and fills a line, `bare` says what it is without its title. */
  readonly stacks?: "lead" | "bare";
}

interface Props<Row> {
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string;
  readonly portion?: number;
  readonly selectedKey?: string | null;
  /** On a phone, each row is a block of lines instead of narrow columns. */
  readonly stack?: boolean;
}

export function DataTable<Row>({ caption, columns, rows, rowKey, portion = 50, selectedKey, stack }: Props<Row>) {
  const [order, setOrder] = useState<{ key: string; descending: boolean } | null>(null);
  const [shown, setShown] = useState(portion);
  const sortBy = columns.find(({ key }) => key === order?.key)?.sort;
  const sorted = sortBy && order ? rows.slice().sort((a, b) => compare(sortBy(a), sortBy(b)) * (order.descending ? -1 : 1)) : rows;

  const heading = (column: Column<Row>) => {
    const active = order?.key === column.key;
    const sort = active ? (order.descending ? "descending" : "ascending") : undefined;
    return (
      <th key={column.key} scope="col" class={cellClass(column)} aria-sort={sort} title={column.help}>
        {column.sort ? (
          <button
            type="button"
            class="sort"
            onClick={() => setOrder({ key: column.key, descending: active ? !order.descending : Boolean(column.numeric) })}
          >
            {column.title}
            <span aria-hidden="true">{active ? (order.descending ? " ↓" : " ↑") : ""}</span>
          </button>
        ) : (
          column.title
        )}
      </th>
    );
  };

  return (
    <div class="table-frame">
      <div class="table-scroll" tabIndex={0} role="region" aria-label={caption}>
        <table class={stack ? "stack" : undefined}>
          <caption class="visually-hidden">{caption}</caption>
          <thead>
            <tr>{columns.map(heading)}</tr>
          </thead>
          <tbody>
            {sorted.slice(0, shown).map((row) => (
              <tr key={rowKey(row)} class={selectedKey === rowKey(row) ? "selected" : undefined}>
                {columns.map((column) => (
                  <td key={column.key} class={cellClass(column)} data-title={column.stacks ? undefined : column.title}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > shown ? (
        <p class="table-more">
          <span class="muted">{t("table.shown", { n: count(shown, language.value), total: count(rows.length, language.value) })}</span>
          <button type="button" onClick={() => setShown(shown + portion * 4)}>
            {t("table.more")}
          </button>
        </p>
      ) : null}
    </div>
  );
}

function cellClass<Row>(column: Column<Row>): string | undefined {
  return [column.numeric ? "numeric" : "", column.wideOnly ? "wide-only" : "", column.stacks ?? ""].filter(Boolean).join(" ") || undefined;
}

function compare(a: number | string, b: number | string): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}

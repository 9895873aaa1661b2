/** Is anything wrong? Halts, failing pods, suspect nodes, maintenance. */

import { t } from "../i18n";
import { printable } from "../lib/format";
import { Name, NodeLink, PodLink, Section, Time } from "../parts/basics";
import { DataTable } from "../parts/data-table";
import { status } from "../store";

export function Trouble() {
  const view = status.value;
  if (!view) return null;
  return (
    <>
      {view.halts.length || view.problems.length ? (
        <Section title={t("trouble.halts")}>
          <ul class="notice plain-list">
            {view.halts.map((halt) => (
              <li key={`${halt.reason}/${halt.namespace}`}>
                <strong>{halt.reason}</strong> {printable(halt.words)} <span class="muted">{printable(halt.ends)}</span> <Time at={halt.since} />
              </li>
            ))}
            {view.problems.map((problem) => (
              <li key={problem}>{printable(problem)}</li>
            ))}
          </ul>
        </Section>
      ) : null}
      {view.failing.length ? (
        <Section title={t("trouble.failing")}>
          <DataTable
            caption={t("trouble.failing")}
            rows={view.failing}
            rowKey={({ pod }) => pod}
            columns={[
              { key: "pod", title: t("column.pod"), cell: ({ pod }) => <PodLink pod={pod} />, sort: ({ pod }) => pod },
              { key: "node", title: t("column.node"), cell: ({ node }) => <NodeLink name={node} />, sort: ({ node }) => node },
              { key: "why", title: t("column.reason"), cell: ({ why }) => <Name>{why}</Name>, sort: ({ why }) => why },
              {
                key: "tries",
                title: t("column.tries"),
                numeric: true,
                cell: ({ tries, allowed }) => t("trouble.tries", { n: tries, allowed }),
                sort: ({ tries }) => tries,
              },
              { key: "message", title: t("column.message"), wideOnly: true, cell: ({ message }) => <Name>{message}</Name> },
            ]}
          />
        </Section>
      ) : null}
      {view.suspects.length ? (
        <Section title={t("trouble.suspects")}>
          <DataTable
            caption={t("trouble.suspects")}
            rows={view.suspects}
            rowKey={({ node }) => node}
            columns={[
              { key: "node", title: t("column.node"), cell: ({ node }) => <NodeLink name={node} /> },
              { key: "workloads", title: t("trouble.workloads"), numeric: true, cell: ({ workloads }) => workloads },
              { key: "why", title: t("column.reason"), cell: ({ why }) => <Name>{why}</Name> },
            ]}
          />
        </Section>
      ) : null}
      {view.maintenance.length ? (
        <Section title={t("trouble.maintenance")}>
          <DataTable
            caption={t("trouble.maintenance")}
            rows={view.maintenance}
            rowKey={({ node }) => node}
            columns={[
              { key: "node", title: t("column.node"), cell: ({ node }) => <NodeLink name={node} /> },
              { key: "left", title: t("trouble.left"), numeric: true, cell: ({ left }) => left },
              { key: "blocked", title: t("trouble.blocked"), cell: ({ blocked }) => <Name>{blocked.join("; ") || "–"}</Name> },
              { key: "message", title: t("column.message"), wideOnly: true, cell: ({ message }) => <Name>{message}</Name> },
            ]}
          />
        </Section>
      ) : null}
    </>
  );
}

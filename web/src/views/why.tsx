/** Any pod × all nodes: which rule forbids which node, why the pod may not move, and what would help. */

import { api } from "../api/client";
import type { PodMatrix, VerdictRow } from "../api/types.gen";
import { plural, t } from "../i18n";
import { count, printable } from "../lib/format";
import { formatRoute, navigate, route } from "../lib/router";
import { useRequest } from "../lib/use-request";
import { Empty, Failure, Loading, Name, NodeLink, PodLink, Section } from "../parts/basics";
import { DataTable } from "../parts/data-table";
import { PodInput } from "../parts/pickers";
import { language, mayAct, plan, session } from "../store";
import { openAction } from "./action-dialog";
import { Meaning, RefusalList } from "./refusals";

/** Where the pod fits is open from the start, if the nodes are that few. */
const OPEN_UP_TO = 12;

export function WhyPage() {
  const [namespace, name] = route.value.parts;
  const pod = namespace && name ? `${namespace}/${name}` : null;
  const request = useRequest(pod, () => api.explain(pod!));
  return (
    <div class="page">
      <div class="page-head">
        <div>
          <h1>{pod ? <Name>{pod}</Name> : t("nav.why")}</h1>
          <p>{t("why.intro")}</p>
        </div>
        <PodInput label={t("why.search")} autoFocus={!pod} onPick={(value) => navigate(formatRoute("why", value.split("/")))} />
      </div>
      {!pod ? (
        <Start />
      ) : request.data ? (
        <Explanation matrix={request.data} />
      ) : request.error ? (
        <Failure error={request.error} retry={request.again} />
      ) : (
        <Loading what={t("why.loading")} />
      )}
    </div>
  );
}

/** Without a pod in the address: pods that are worth asking about. */
function Start() {
  const refused = (plan.value?.refused ?? []).flatMap((group) =>
    group.examples.slice(0, 3).map((example) => ({ pod: example.subject, group })),
  );
  const rows = refused.filter(({ pod }) => /^[^/]+\/[^/]+$/.test(pod)).slice(0, 20);
  if (!rows.length) return <Empty title={t("why.empty")}>{t("why.emptyHelp")}</Empty>;
  return (
    <Section title={t("why.refusedNow")} note={t("why.refusedNowNote")}>
      <DataTable
        caption={t("why.refusedNow")}
        rows={rows}
        rowKey={({ pod, group }) => `${pod}/${group.reason}`}
        columns={[
          { key: "pod", title: t("column.pod"), cell: ({ pod }) => <PodLink pod={pod} /> },
          { key: "reason", title: t("column.reason"), cell: ({ group }) => group.reason },
          {
            key: "meaning",
            title: t("column.meaning"),
            wideOnly: true,
            cell: ({ group }) => (
              <span class="muted">
                <Meaning of={group} />
              </span>
            ),
          },
        ]}
      />
    </Section>
  );
}

function Explanation({ matrix }: { readonly matrix: PodMatrix }) {
  const fitting = matrix.rows.filter(({ forbiddenBy }) => forbiddenBy.length === 0).reduce((sum, { nodes }) => sum + nodes.length, 0);
  const isAlways = matrix.keptBy.length > 0 && JSON.stringify(matrix.keptBy) === JSON.stringify(matrix.keptInMaintenanceBy);
  return (
    <>
      <Answer matrix={matrix} fitting={fitting} />
      {matrix.keptBy.length ? (
        <Section title={isAlways ? t("why.keptAlways") : t("why.keptBy")}>
          <RefusalList refusals={matrix.keptBy} />
        </Section>
      ) : null}
      <Section
        title={t("why.matrix")}
        note={t("why.fits", { n: count(fitting, language.value), total: count(matrix.nodeCount, language.value) })}
      >
        <Matrix matrix={matrix} />
      </Section>
      {matrix.keptInMaintenanceBy.length && !isAlways ? (
        <Section title={t("why.inMaintenance")}>
          <RefusalList refusals={matrix.keptInMaintenanceBy} />
        </Section>
      ) : null}
      {matrix.members.length ? (
        <Section title={t("why.group", { name: printable(matrix.group) })}>
          <ul class="plain-list">
            {matrix.members.map((member) => (
              <li key={member}>
                <Name>{member}</Name>
              </li>
            ))}
          </ul>
        </Section>
      ) : null}
      {matrix.assumptions.length ? <p class="muted">{printable(matrix.assumptions.join(" "))}</p> : null}
    </>
  );
}

function Answer({ matrix, fitting }: { readonly matrix: PodMatrix; readonly fitting: number }) {
  // Users who may not list nodes get no verdicts about them.
  const may = matrix.mayMove && (fitting > 0 || session.value?.seesNodes === false);
  return (
    <div class="why-answer">
      <p class="why-word">{may ? t("why.may") : matrix.mayMove ? t("why.nowhere") : t("why.mayNot")}</p>
      <p class="muted">
        {[may && matrix.handover ? t("why.handover", { handover: matrix.handover }) : "", printable(matrix.why)].filter(Boolean).join(t("colon"))}{" "}
        {matrix.inWindow ? "" : t("why.outsideWindow")}
      </p>
      <p class="facts">
        <span>
          <span class="muted">{t("column.node")}</span> <NodeLink name={matrix.node} />
        </span>
        {matrix.workload ? (
          <span>
            <span class="muted">{t("column.workload")}</span> <Name>{matrix.workload}</Name>
          </span>
        ) : null}
        {matrix.trouble ? (
          <span class="danger">
            {printable(matrix.trouble)} {matrix.allowedTries === null ? "" : t("why.tries", { n: matrix.tries, allowed: matrix.allowedTries })}{" "}
            {printable(matrix.next)}
          </span>
        ) : null}
      </p>
      {mayAct("move") && may ? (
        <p>
          <button type="button" onClick={() => openAction({ kind: "move", pod: matrix.pod })}>
            {t("act.move")}
          </button>
        </p>
      ) : null}
    </div>
  );
}

/** Nodes with the same verdict are one row: 5,000 nodes become a handful. */
function Matrix({ matrix }: { readonly matrix: PodMatrix }) {
  const schedulers = matrix.columns.filter(({ isSchedulers }) => isSchedulers).length;
  const order = matrix.columns.map((_, index) => index).sort((a, b) => Number(matrix.columns[b]!.isSchedulers) - Number(matrix.columns[a]!.isSchedulers));
  const rows = matrix.rows.slice().sort((a, b) => a.forbiddenBy.length - b.forbiddenBy.length || b.nodes.length - a.nodes.length);
  return (
    <div class="table-scroll matrix-frame" tabIndex={0} role="region" aria-label={t("why.matrix")}>
      <table class="matrix">
        <caption class="visually-hidden">{t("why.matrix")}</caption>
        <thead>
          <tr>
            <td />
            {schedulers ? (
              <th scope="colgroup" colSpan={schedulers}>
                {t("why.schedulerRules")}
              </th>
            ) : null}
            {schedulers < matrix.columns.length ? (
              <th scope="colgroup" colSpan={matrix.columns.length - schedulers}>
                {t("why.ownRules")}
              </th>
            ) : null}
          </tr>
          <tr>
            <th scope="col">{t("column.nodes")}</th>
            {order.map((index) => {
              const column = matrix.columns[index]!;
              return (
                <th key={index} scope="col" class="rule">
                  {column.rule}
                  <span class="muted small">{column.reason}</span>
                  <span class="muted small">{plural("why.forbids", column.nodes)}</span>
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <MatrixRow key={row.forbiddenBy.join()} row={row} order={order} matrix={matrix} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function MatrixRow({ row, order, matrix }: { readonly row: VerdictRow; readonly order: readonly number[]; readonly matrix: PodMatrix }) {
  const fits = row.forbiddenBy.length === 0;
  return (
    <tr class={fits ? "fits" : undefined}>
      <th scope="row">
        <details open={fits && row.nodes.length <= OPEN_UP_TO}>
          <summary>
            {row.nodes.length > 2 ? plural("nodes", row.nodes.length) : printable(row.nodes.join(", "))}{" "}
            <span class="muted small">{fits ? t("why.fitsHere") : ""}</span>
          </summary>
          <ul class="plain-list matrix-nodes">
            {row.nodes.slice(0, 50).map((node) => (
              <li key={node}>
                <NodeLink name={node} />
                {row.details[node] ? <span class="muted small"> {printable(row.details[node].filter(Boolean).join("; "))}</span> : null}
                {fits ? (
                  <a class="small" title={t("why.tryThere")} href={formatRoute("what-if", [], { pin: `${matrix.pod}>${node}` })}>
                    {" "}
                    {t("why.try")}
                  </a>
                ) : null}
              </li>
            ))}
            {row.nodes.length > 50 ? <li class="muted">{plural("refusal.more", row.nodes.length - 50)}</li> : null}
          </ul>
        </details>
        <ForbiddenBy row={row} matrix={matrix} />
      </th>
      {order.map((index) => {
        const forbidden = row.forbiddenBy.includes(index);
        return (
          <td key={index} class={forbidden ? "forbidden" : "allowed"} title={forbidden ? matrix.columns[index]!.reason : undefined}>
            <span aria-hidden="true">{forbidden ? "✕" : "✓"}</span>
            <span class="visually-hidden">{forbidden ? t("why.forbidden") : t("why.allowed")}</span>
          </td>
        );
      })}
    </tr>
  );
}

/** The verdict in words, instead of columns that don't fit on a phone. */
function ForbiddenBy({ row, matrix }: { readonly row: VerdictRow; readonly matrix: PodMatrix }) {
  return (
    <ul class="plain-list narrow-only">
      {row.forbiddenBy.map((index) => (
        <li key={index}>
          <span class="danger">{matrix.columns[index]!.rule}</span> <span class="muted small">{matrix.columns[index]!.reason}</span>
        </li>
      ))}
    </ul>
  );
}

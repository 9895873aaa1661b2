/** One node: its load over time, conditions, why it is suspect, what keeps it from being emptied, and its pods. */

import { api } from "../api/client";
import type { NodeDetail, NodePodView } from "../api/types.gen";
import { plural, t } from "../i18n";
import { amount, loadsAfter } from "../lib/cluster-model";
import { printable } from "../lib/format";
import { formatRoute } from "../lib/router";
import { useRequest } from "../lib/use-request";
import { LoadBar, Name, NodeLink, PodLink, Time } from "../parts/basics";
import { DataTable } from "../parts/data-table";
import { TimeChart } from "../parts/graphics";
import { SidePanel } from "../parts/side-panel";
import { cluster, mayAct, plan, status } from "../store";
import { openAction } from "./action-dialog";
import { reasonWords, RefusalGroups } from "./refusals";

export function NodePanel({ name }: { readonly name: string }) {
  const row = cluster.value?.nodes.names.indexOf(name) ?? -1;
  // Loaded again when the node's own numbers change, not with every change in the cluster.
  const version = `${cluster.value?.nodes.pods[row]}/${cluster.value?.nodes.flags[row]}`;
  const request = useRequest(`${name}@${version}`, () => api.node(name));
  return (
    <SidePanel name={name} label={t("node.panel", { name: printable(name) })} view="cluster" request={request} loading={t("node.loading")}>
      {(node) => <Detail node={node} />}
    </SidePanel>
  );
}

function Detail({ node }: { readonly node: NodeDetail }) {
  return (
    <>
      <p class="facts">
        <span class={node.ready ? undefined : "danger"}>{node.ready ? t("node.ready") : t("node.notReady")}</span>
        {node.schedulable ? null : <span>{t("node.cordoned")}</span>}
        {node.inMaintenance ? <span>{t("node.maintenance")}</span> : null}
        <span class="muted">
          {t("node.created")} <Time at={node.created} />
        </span>
      </p>
      <Actions node={node} />
      <Expected node={node.name} />
      {node.suspect.length ? <Suspect workloads={node.suspect} /> : null}
      <Loads node={node} />
      {node.load.at.length > 1 ? (
        <TimeChart
          title={t("node.loadOverTime")}
          at={node.load.at}
          height={120}
          series={Object.entries(node.load.loads).map(([resource, values], index) => ({
            label: resource,
            values,
            color: index === 0 ? "--text" : "--muted",
            dashed: index > 0,
          }))}
        />
      ) : null}
      <section class="section">
        <h3>{t("node.stays")}</h3>
        {node.maintenance?.message ? <p>{printable(node.maintenance.message)}</p> : null}
        {node.stays.length ? <RefusalGroups groups={node.stays} /> : <p class="muted">{t("node.nothingStays")}</p>}
      </section>
      <section class="section">
        <h3>
          {plural("pods", node.pods.length)}
          {node.hiddenPods ? <span class="muted"> {t("node.hidden", { n: node.hiddenPods })}</span> : null}
        </h3>
        <PodTable pods={node.pods} allocatable={node.allocatable} />
      </section>
      <section class="section">
        <h3>{t("node.couldCome")}</h3>
        <p class="muted">{node.takesNone ? printable(node.takesNone) : plural("node.couldComeCount", node.couldCome)}</p>
      </section>
      <section class="section">
        <h3>{t("node.conditions")}</h3>
        <DataTable
          caption={t("node.conditions")}
          rows={node.conditions}
          rowKey={({ type }) => type}
          columns={[
            { key: "type", title: t("column.condition"), cell: ({ type }) => <Name>{type}</Name> },
            { key: "status", title: t("column.status"), cell: (condition) => <Name>{condition.status}</Name> },
            { key: "since", title: t("column.since"), cell: ({ since }) => <Time at={since} /> },
            { key: "message", title: t("column.message"), cell: ({ message }) => <Name>{message}</Name> },
          ]}
        />
      </section>
      <Labels node={node} />
    </>
  );
}

function Actions({ node }: { readonly node: NodeDetail }) {
  const kind = node.inMaintenance ? "undrain" : "drain";
  return (
    <div class="actions">
      <a class="button" href={formatRoute("what-if", [], { drain: node.name })}>
        {t("node.tryDrain")}
      </a>
      <a class="button" href={formatRoute("what-if", [], { like: node.name, count: 2 })}>
        {t("node.tryMore")}
      </a>
      {mayAct(kind) ? (
        <button type="button" onClick={() => openAction({ kind, node: node.name })}>
          {t(`act.${kind}`)}
        </button>
      ) : null}
    </div>
  );
}

/** Pending pods for which room is kept here, and who else empties the node. */
function Expected({ node }: { readonly node: string }) {
  const pods = status.value?.pending.filter((pod) => pod.node === node && pod.room !== "planned") ?? [];
  const drain = status.value?.drains.find((each) => each.node === node);
  return (
    <>
      {pods.length ? (
        <p>
          {t("node.roomFor")}{" "}
          {pods.map(({ pod, uid }) => (
            <span key={uid}>
              <PodLink pod={pod} />{" "}
            </span>
          ))}
        </p>
      ) : null}
      {drain ? (
        <p>
          {t("node.drained")}
          {t("colon")}
          {t("drains.progress", { moving: drain.moving, moved: drain.moved })}
          {t("stop")} <Name>{drain.reason}</Name>
        </p>
      ) : null}
    </>
  );
}

function Suspect({ workloads }: { readonly workloads: readonly string[] }) {
  return (
    <section class="section notice">
      <h3>{t("node.suspect")}</h3>
      <p>{t("node.suspectWhy")}</p>
      <ul class="plain-list">
        {workloads.map((workload) => (
          <li key={workload}>
            <Name>{workload}</Name>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Loads({ node }: { readonly node: NodeDetail }) {
  const rows = Object.keys(node.allocatable).filter((name) => (node.allocatable[name] ?? 0) > 0);
  const after = (resource: string) => loadsAfter(plan.value, resource, Infinity).get(node.name) ?? null;
  return (
    <DataTable
      caption={t("node.resources")}
      rows={rows}
      rowKey={(name) => name}
      columns={[
        { key: "resource", title: t("column.resource"), cell: (name) => <Name>{name}</Name> },
        { key: "load", title: t("column.load"), cell: (name) => <LoadBar value={share(node.usage, node.allocatable, name)} after={after(name)} /> },
        { key: "requests", title: t("measure.requests"), numeric: true, wideOnly: true, cell: (name) => amount(name, node.requests[name] ?? 0) },
        { key: "size", title: t("measure.size"), numeric: true, cell: (name) => amount(name, node.allocatable[name] ?? 0) },
      ]}
    />
  );
}

type Amounts = Readonly<Record<string, number>>;

function share(amounts: Amounts, allocatable: Amounts, name: string): number | null {
  const size = allocatable[name] ?? 0;
  return size > 0 ? (100 * (amounts[name] ?? 0)) / size : null;
}

/** The largest pods first: they are what moves are about. */
function PodTable({ pods, allocatable }: { readonly pods: readonly NodePodView[]; readonly allocatable: Amounts }) {
  const cpuOf = ({ usage }: NodePodView) => share(usage, allocatable, "cpu") ?? 0;
  const targets = new Map(plan.value?.moves.map(({ uid, to }) => [uid, to]));
  return (
    <DataTable
      caption={t("node.pods")}
      stack
      rows={pods.slice().sort((a, b) => cpuOf(b) - cpuOf(a))}
      rowKey={({ uid }) => uid}
      columns={[
        { key: "pod", title: t("column.pod"), stacks: "lead", cell: ({ pod }) => <PodLink pod={pod} />, sort: ({ pod }) => pod },
        {
          key: "cpu",
          title: "cpu",
          numeric: true,
          cell: ({ usage }) => amount("cpu", usage["cpu"] ?? 0),
          sort: cpuOf,
        },
        {
          key: "memory",
          title: "memory",
          numeric: true,
          cell: ({ usage }) => amount("memory", usage["memory"] ?? 0),
          sort: ({ usage }) => share(usage, allocatable, "memory") ?? 0,
        },
        {
          key: "move",
          title: t("column.mayMove"),
          help: t("column.handoverHelp"),
          cell: (pod) =>
            pod.mayMove ? (
              <span>
                {t("node.mayMove", { handover: pod.handover ?? "" })}{" "}
                {targets.get(pod.uid) ? (
                  <span class="accent nowrap">
                    {"→ "}
                    <NodeLink name={targets.get(pod.uid)!} />
                  </span>
                ) : null}
              </span>
            ) : (
              <span class="muted" title={printable(pod.keptBy.map((refusal) => reasonWords(refusal)[0]).join(" "))}>
                {t("node.mayNotMove", { reason: pod.keptBy[0]?.reason ?? "" })}
              </span>
            ),
          sort: ({ mayMove, keptBy }) => (mayMove ? "" : (keptBy[0]?.reason ?? "~")),
        },
      ]}
    />
  );
}

function Labels({ node }: { readonly node: NodeDetail }) {
  return (
    <details>
      <summary>{t("node.labels")}</summary>
      <ul class="plain-list mono">
        {node.taints.map((taint) => (
          <li key={taint}>
            {t("node.taint")}
            {t("colon")}
            <Name>{taint}</Name>
          </li>
        ))}
        {Object.entries(node.labels).map(([key, value]) => (
          <li key={key}>
            <Name>{`${key}=${value}`}</Name>
          </li>
        ))}
      </ul>
    </details>
  );
}

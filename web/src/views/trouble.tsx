/** Is anything wrong? Halts, failing pods, pending pods, suspect nodes, maintenance, and drains by other clients. */

import { useEffect, useRef } from "preact/hooks";
import type { FailingPod, Halt, NodeDrainView, PendingPodView } from "../api/types.gen";
import { plural, t, translatedCode } from "../i18n";
import { printable } from "../lib/format";
import { route } from "../lib/router";
import { Name, NodeLink, PodLink, Section, Time, Words } from "../parts/basics";
import { DataTable } from "../parts/data-table";
import { status } from "../store";
import { reasonWords } from "./refusals";

export function Trouble() {
  const view = status.value;
  const first = useRef<HTMLDivElement>(null);
  const isWanted = route.value.query.get("tab") === "trouble";
  const isThere = view !== null;
  useEffect(() => {
    if (isWanted && isThere) first.current?.scrollIntoView();
  }, [isWanted, isThere]);
  if (!view) return null;
  return (
    <div class="page-part" ref={first}>
      {view.halts.length || view.problems.length ? (
        <Section title={t("trouble.halts")}>
          <ul class="notice plain-list">
            {view.halts.map((halt) => (
              <li key={`${halt.reason}/${halt.namespace}`}>
                <HaltLine halt={halt} />
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
            stack
            caption={t("trouble.failing")}
            rows={view.failing}
            rowKey={({ pod }) => pod}
            columns={[
              { key: "pod", title: t("column.pod"), stacks: "lead", cell: ({ pod }) => <PodLink pod={pod} />, sort: ({ pod }) => pod },
              { key: "node", title: t("column.node"), cell: ({ node }) => <NodeLink name={node} />, sort: ({ node }) => node },
              { key: "why", title: t("column.reason"), cell: ({ why }) => <Name>{why}</Name>, sort: ({ why }) => why },
              {
                key: "tries",
                title: t("column.tries"),
                numeric: true,
                cell: ({ tries, allowed }) => <span class="nowrap">{t("trouble.tries", { n: tries, allowed })}</span>,
                sort: ({ tries }) => tries,
              },
              ...(view.failing.some(({ message }) => message)
                ? [{ key: "message", title: t("column.message"), wideOnly: true, cell: ({ message }: FailingPod) => <Name>{message}</Name> }]
                : []),
            ]}
          />
        </Section>
      ) : null}
      {view.suspects.length ? (
        <Section title={t("trouble.suspects")}>
          <DataTable
            stack
            caption={t("trouble.suspects")}
            rows={view.suspects}
            rowKey={({ node }) => node}
            columns={[
              { key: "node", title: t("column.node"), stacks: "lead", cell: ({ node }) => <NodeLink name={node} /> },
              { key: "workloads", title: t("trouble.workloads"), numeric: true, cell: ({ workloads }) => workloads },
              { key: "why", title: t("column.reason"), cell: ({ why }) => <Name>{why}</Name> },
            ]}
          />
        </Section>
      ) : null}
      {view.drains.length ? <Drains drains={view.drains} /> : null}
      {view.pending.length ? <PendingPods pods={view.pending} count={view.pendingCount} /> : null}
      {view.maintenance.length ? (
        <Section title={t("trouble.maintenance")}>
          <DataTable
            stack
            caption={t("trouble.maintenance")}
            rows={view.maintenance}
            rowKey={({ node }) => node}
            columns={[
              { key: "node", title: t("column.node"), stacks: "lead", cell: ({ node }) => <NodeLink name={node} /> },
              { key: "left", title: t("trouble.left"), numeric: true, cell: ({ left }) => left },
              { key: "blocked", title: t("trouble.blocked"), cell: ({ blocked }) => <Name>{blocked.join("; ") || "–"}</Name> },
              { key: "message", title: t("column.message"), wideOnly: true, cell: ({ message }) => <Name>{message}</Name> },
            ]}
          />
        </Section>
      ) : null}
    </div>
  );
}

function HaltLine({ halt }: { readonly halt: Halt }) {
  const [meaning, ends = ""] = translatedCode("halts", halt.reason);
  return (
    <>
      <strong>{halt.reason}</strong>{" "}
      {meaning ? (
        <>
          {meaning}
          {t("stop")}
          <span title={printable(halt.ends)}>
            <Words>{ends}</Words>
          </span>{" "}
          <span class="muted">({printable(halt.words)})</span>
        </>
      ) : (
        <>
          {printable(halt.words)}{" "}
          <span class="muted">
            <Words>{halt.ends}</Words>
          </span>
        </>
      )}{" "}
      <Time at={halt.since} />
    </>
  );
}

function Drains({ drains }: { readonly drains: readonly NodeDrainView[] }) {
  return (
    <Section title={t("drains.title")}>
      <DataTable
        stack
        caption={t("drains.title")}
        rows={drains}
        rowKey={({ node }) => node}
        columns={[
          { key: "node", title: t("column.node"), stacks: "lead", cell: ({ node }) => <NodeLink name={node} /> },
          { key: "left", title: t("trouble.left"), numeric: true, cell: ({ left }) => left },
          { key: "progress", title: t("nav.moves"), cell: (drain) => <Progress drain={drain} /> },
          { key: "deadline", title: t("drains.deadline"), cell: ({ deadline }) => <Time at={deadline} /> },
          { key: "reason", title: t("column.reason"), wideOnly: true, cell: ({ reason }) => <Name>{reason}</Name> },
        ]}
      />
    </Section>
  );
}

function Progress({ drain: { moving, moved, failed } }: { readonly drain: NodeDrainView }) {
  return (
    <>
      {t("drains.progress", { moving, moved })}
      {failed ? <span class="danger">, {t("drains.failed", { n: failed })}</span> : null}
    </>
  );
}

function PendingPods({ pods, count }: { readonly pods: readonly PendingPodView[]; readonly count: number }) {
  return (
    <Section title={t("pending.title")} note={count > pods.length ? t("table.shown", { n: pods.length, total: count }) : t("pending.note")}>
      <DataTable
        stack
        caption={t("pending.title")}
        rows={pods}
        rowKey={({ uid }) => uid}
        columns={[
          { key: "pod", title: t("column.pod"), stacks: "lead", cell: ({ pod }) => <PodLink pod={pod} />, sort: ({ pod }) => pod },
          { key: "since", title: t("pending.since"), cell: ({ since }) => <Time at={since} />, sort: ({ since }) => since ?? "" },
          { key: "room", title: t("pending.room"), cell: (pod) => <Room pod={pod} />, sort: ({ room }) => room },
          { key: "message", title: t("pending.scheduler"), wideOnly: true, cell: ({ message }) => <Name>{message}</Name> },
        ]}
      />
    </Section>
  );
}

/** The room that is made for a pending pod, or why there is none. */
function Room({ pod: { room, node, moves, movesDone, refusal } }: { readonly pod: PendingPodView }) {
  if (room === "none") {
    return (
      <span class="muted" title={refusal ? printable(reasonWords(refusal).filter(Boolean).join(" ")) : undefined}>
        {t("pending.none")}
        {refusal ? `${t("colon")}${printable(refusal.detail || reasonWords(refusal)[0])}` : ""}
      </span>
    );
  }
  const words =
    room === "planned" ? plural("pending.planned", moves) : room === "making" ? t("pending.making", { done: movesDone, n: moves }) : t("pending.kept");
  return (
    <span class={room === "planned" ? undefined : "accent"}>
      {words} <NodeLink name={node} />
    </span>
  );
}

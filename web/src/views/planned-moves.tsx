/** The parts of a plan that the Plan and the What if views share. */

import type { HistogramView, PlanView } from "../api/types.gen";
import { plural, t } from "../i18n";
import { decimal, percent } from "../lib/format";
import { Empty, Figure, Name, NodeLink, PodLink, Section } from "../parts/basics";
import { DataTable } from "../parts/data-table";
import { BeforeAfter } from "../parts/graphics";
import { language } from "../store";
import { RefusalGroups } from "./refusals";

interface FiguresProps {
  readonly plan: PlanView;
  /** Of the spread, in percentage points. */
  readonly limit: number;
}

export function PlanBody({ plan, limit }: FiguresProps) {
  const refusedCount = plan.refused.reduce((sum, { count }) => sum + count, 0);
  return (
    <>
      <PlanFigures plan={plan} limit={limit} />
      {plan.histograms.length ? (
        <Section title={t("plan.beforeAfter")} note={t("plan.beforeAfterNote")}>
          <div class="columns">
            {plan.histograms.map((histogram) => (
              <BeforeAfter key={histogram.resource} histogram={histogram} title={histogram.resource} />
            ))}
          </div>
        </Section>
      ) : null}
      <Section title={t("plan.moves")} note={plan.hiddenMoves ? plural("plan.hidden", plan.hiddenMoves) : null}>
        {plan.moves.length ? <MovesTable plan={plan} /> : <Empty title={t("plan.noMoves")}>{t("plan.noMovesWhy")}</Empty>}
      </Section>
      {plan.changes.length ? <NodeChanges plan={plan} /> : null}
      <Section title={t("plan.refused")} note={refusedCount ? plural("plan.refusedCount", refusedCount) : null}>
        {plan.refused.length ? <RefusalGroups groups={plan.refused} /> : <p class="muted">{t("plan.nothingRefused")}</p>}
      </Section>
      {plan.assumptions.length ? (
        <Section title={t("plan.assumptions")}>
          <ul class="bullets">
            {plan.assumptions.map((text) => (
              <li key={text}>
                <Name>{text}</Name>
              </li>
            ))}
          </ul>
        </Section>
      ) : null}
    </>
  );
}

function PlanFigures({ plan, limit }: FiguresProps) {
  const highest = (of: (histogram: HistogramView) => number) => percent(Math.max(0, ...plan.histograms.map(of)), language.value);
  return (
    <dl class="figures">
      <Figure label={t("plan.moves")} value={plan.moves.length} note={plan.waves.length ? plural("waves", plan.waves.length) : null} />
      {plan.histograms.map((each) => (
        <Figure
          key={each.resource}
          label={t("plan.spreadOf", { resource: each.resource, limit: decimal(limit, 0, language.value) })}
          value={
            <>
              {Math.round(each.highestBefore - each.lowestBefore)} → {Math.round(each.highestAfter - each.lowestAfter)}
            </>
          }
          note={t("plan.points")}
        />
      ))}
      <Figure label={t("plan.highest")} value={`${highest(({ highestBefore }) => highestBefore)} → ${highest(({ highestAfter }) => highestAfter)}`} />
      {plan.planningSeconds >= 0.005 ? (
        <Figure label={t("plan.planning")} value={`${plan.planningSeconds.toFixed(2)}s`} note={plan.usageSource} />
      ) : null}
    </dl>
  );
}

function MovesTable({ plan }: { readonly plan: PlanView }) {
  return (
    <DataTable
      caption={t("plan.moves")}
      rows={plan.moves}
      rowKey={({ uid, wave }) => `${uid}/${wave}`}
      stack
      columns={[
        { key: "wave", title: t("column.wave"), help: t("column.waveHelp"), numeric: true, cell: ({ wave }) => wave, sort: ({ wave }) => wave },
        { key: "pod", title: t("column.pod"), stacks: "lead", cell: ({ pod }) => <PodLink pod={pod} />, sort: ({ pod }) => pod },
        { key: "from", title: t("column.from"), cell: ({ from }) => <NodeLink name={from} />, sort: ({ from }) => from },
        {
          key: "to",
          title: t("column.to"),
          cell: ({ to, hop }) => (
            <>
              {to ? <NodeLink name={to} /> : <span class="muted">{t("plan.chosenLater")}</span>}
              {hop ? <span class="muted small"> {t("plan.hop")}</span> : null}
            </>
          ),
          sort: ({ to }) => to ?? "",
        },
        {
          key: "reason",
          title: t("column.reason"),
          stacks: "bare",
          cell: ({ reason, strategy, handover }) => (
            <>
              <Name>{reason}</Name>
              <span class="instead muted small">
                {strategy}, {handover}
              </span>
            </>
          ),
        },
        { key: "strategy", title: t("column.strategy"), wideOnly: true, cell: ({ strategy }) => <Name>{strategy}</Name>, sort: ({ strategy }) => strategy },
        { key: "handover", title: t("column.handover"), help: t("column.handoverHelp"), wideOnly: true, cell: ({ handover }) => handover, sort: ({ handover }) => handover },
        {
          key: "gain",
          title: t("column.gain"),
          help: t("column.gainHelp"),
          numeric: true,
          wideOnly: true,
          cell: ({ gain }) => percent(100 * gain, language.value, 1),
          sort: ({ gain }) => gain,
        },
      ]}
    />
  );
}

function NodeChanges({ plan }: { readonly plan: PlanView }) {
  return (
    <Section title={t("plan.changes")}>
      <DataTable
        caption={t("plan.changes")}
        stack
        rows={plan.changes}
        rowKey={({ node, change }) => `${node}/${change}`}
        columns={[
          { key: "node", title: t("column.node"), stacks: "lead", cell: ({ node }) => <NodeLink name={node} /> },
          { key: "change", title: t("column.change"), cell: ({ change }) => change },
          { key: "strategy", title: t("column.strategy"), cell: ({ strategy }) => <Name>{strategy}</Name> },
          { key: "reason", title: t("column.reason"), cell: ({ reason }) => <Name>{reason}</Name> },
        ]}
      />
    </Section>
  );
}

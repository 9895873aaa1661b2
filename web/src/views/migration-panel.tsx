/** One move: what, why, its steps, and its timeline from conditions and Events. */

import { api } from "../api/client";
import type { MigrationDetail } from "../api/types.gen";
import { t } from "../i18n";
import { duration, exactTime, printable } from "../lib/format";
import { useRequest } from "../lib/use-request";
import { Name, NodeLink, PodLink, Time } from "../parts/basics";
import { SidePanel } from "../parts/side-panel";
import { language, migrations } from "../store";
import { StepTrack } from "./step-track";

export function MigrationPanel({ name }: { readonly name: string }) {
  const known = migrations.value.find(({ key }) => key === name);
  const request = useRequest(`${name}@${known?.step}/${known?.phase}/${known?.attempts}`, () => api.migration(name));
  return (
    <SidePanel name={name} label={t("moves.panel", { name: printable(name) })} view="moves" request={request} loading={t("moves.loadingOne")}>
      {(detail) => <Detail detail={detail} />}
    </SidePanel>
  );
}

function Detail({ detail }: { readonly detail: MigrationDetail }) {
  const { migration: move, timeline, notes } = detail;
  return (
    <>
      <StepTrack migration={move} />
      {move.message && move.phase !== "Completed" ? <p class={move.phase === "Failed" ? "danger" : undefined}>{printable(move.message)}</p> : null}
      <dl class="pairs">
        <dt>{t("column.pod")}</dt>
        <dd>
          <PodLink pod={move.pod} />
        </dd>
        <dt>{t("moves.route")}</dt>
        <dd>
          <NodeLink name={move.from} /> → {move.to ? <NodeLink name={move.to} /> : t("plan.chosenLater")}
        </dd>
        {move.newPod ? (
          <>
            <dt>{t("moves.newPod")}</dt>
            <dd>
              <Name>{move.newPod}</Name>
            </dd>
          </>
        ) : null}
        <dt>{t("column.strategy")}</dt>
        <dd>
          <Name>{move.strategy}</Name>
        </dd>
        <dt>{t("column.handover")}</dt>
        <dd title={t("column.handoverHelp")}>{move.handover}</dd>
        <dt>{t("column.reason")}</dt>
        <dd>
          <Name>{move.reason}</Name>
        </dd>
        <dt>{t("moves.created")}</dt>
        <dd>
          <Time at={move.created} />
        </dd>
        {move.readySecondsLost !== null ? (
          <>
            <dt>{t("moves.lost")}</dt>
            <dd>
              {duration(move.readySecondsLost)}
              {move.evictionSecondsLost === null ? null : (
                <span class="muted"> {t("moves.insteadOf", { lost: duration(move.evictionSecondsLost) })}</span>
              )}
            </dd>
          </>
        ) : null}
      </dl>
      <section class="section">
        <h3>{t("moves.timeline")}</h3>
        <ol class="timeline">
          {timeline.map((entry, index) => (
            <li key={index} class={entry.source}>
              <time dateTime={entry.at} title={exactTime(Date.parse(entry.at), language.value)}>
                {elapsed(move.created, entry.at)}
              </time>
              <div>
                <strong>{printable(entry.reason)}</strong> <span class="muted small">{t(`timeline.${entry.source}`)}</span>
                {entry.message ? <p class="muted">{printable(entry.message)}</p> : null}
              </div>
            </li>
          ))}
        </ol>
      </section>
      {notes.map((note) => (
        <p key={note} class="muted small">
          {printable(note)}
        </p>
      ))}
    </>
  );
}

function elapsed(from: string, to: string): string {
  // Whole seconds: most of the times have no fractions.
  return `+${duration(Math.max(0, Math.floor(Date.parse(to) / 1000) - Math.floor(Date.parse(from) / 1000)))}`;
}

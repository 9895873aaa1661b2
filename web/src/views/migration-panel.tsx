/** One move: what, why, its steps, and its timeline from conditions and Events. */

import { useEffect, useRef } from "preact/hooks";
import { api } from "../api/client";
import type { MigrationDetail } from "../api/types.gen";
import { t } from "../i18n";
import { duration, exactTime, printable } from "../lib/format";
import { formatRoute, navigate, route } from "../lib/router";
import { useRequest } from "../lib/use-request";
import { Failure, Loading, Name, NodeLink, PodLink, Time } from "../parts/basics";
import { language, migrations } from "../store";
import { StepTrack } from "./step-track";

export function MigrationPanel({ name }: { readonly name: string }) {
  const known = migrations.value.find(({ key }) => key === name);
  const request = useRequest(`${name}@${known?.step}/${known?.phase}/${known?.attempts}`, () => api.migration(name));
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [name]);
  const close = () => navigate(formatRoute("moves", [], Object.fromEntries(route.value.query)));
  return (
    <aside class="panel" aria-label={t("moves.panel", { name: printable(name) })} onKeyDown={(event) => event.key === "Escape" && close()}>
      <div class="panel-head">
        <h2 ref={heading} tabIndex={-1}>
          <Name>{name}</Name>
        </h2>
        <button type="button" class="plain" onClick={close} aria-label={t("close")}>
          ✕
        </button>
      </div>
      {request.data ? (
        <Detail detail={request.data} />
      ) : request.error ? (
        <Failure error={request.error} retry={request.again} />
      ) : (
        <Loading what={t("moves.loadingOne")} />
      )}
    </aside>
  );
}

function Detail({ detail }: { readonly detail: MigrationDetail }) {
  const { migration: move, timeline, notes } = detail;
  return (
    <div class="panel-body">
      <StepTrack migration={move} />
      {move.message ? <p class={move.phase === "Failed" ? "danger" : undefined}>{printable(move.message)}</p> : null}
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
          {move.strategy}, {move.handover}
        </dd>
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
                <strong>{printable(entry.reason)}</strong>
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
    </div>
  );
}

function elapsed(from: string, to: string): string {
  return `+${duration(Math.max(0, (Date.parse(to) - Date.parse(from)) / 1000))}`;
}

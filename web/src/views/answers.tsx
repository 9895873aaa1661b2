/** Three questions, answered in words and figures. */

import type { ComponentChildren } from "preact";
import { plural, t, translatedCode } from "../i18n";
import { judgeBalance, movesNotBegun } from "../lib/cluster-model";
import { decimal, percent, printable } from "../lib/format";
import { formatRoute } from "../lib/router";
import { NodeLink, Time } from "../parts/basics";
import { cluster, language, migrations, plan, running, status } from "../store";

type Tone = "good" | "active" | "bad" | "quiet";

function Answer(props: { readonly question: string; readonly answer: string; readonly tone: Tone; readonly children?: ComponentChildren }) {
  return (
    <div class="answer">
      <dt>{props.question}</dt>
      <dd>
        <span class={`answer-word ${props.tone}`}>{props.answer}</span>
        <span class="muted small">{props.children}</span>
      </dd>
    </div>
  );
}

export function Answers() {
  return (
    <dl class="answers">
      <Balance />
      <Moving />
      <Trouble />
    </dl>
  );
}

function Balance() {
  const verdict = judgeBalance(cluster.value!, status.value?.thresholds ?? {});
  if (!verdict) return <Answer question={t("answer.balanced")} answer={t("answer.unknown")} tone="quiet" />;
  return (
    <Answer
      question={t("answer.balanced")}
      answer={verdict.balanced ? t("answer.yes") : t("answer.no")}
      tone={verdict.balanced ? "good" : "bad"}
    >
      {t("answer.spread", {
        resource: verdict.resource,
        spread: decimal(verdict.spread, 0, language.value),
        limit: decimal(verdict.limit, 0, language.value),
      })}
      {t("colon")}
      <NodeAt {...verdict.lowest} /> – <NodeAt {...verdict.highest} />
    </Answer>
  );
}

function NodeAt({ node, percent: load }: { readonly node: string; readonly percent: number }) {
  return (
    <span class="nowrap">
      <NodeLink name={node} /> {percent(load, language.value)}
    </span>
  );
}

function Moving() {
  const planned = plan.value?.moves.length ?? 0;
  const active = running.value.length;
  const notBegun = movesNotBegun(plan.value, migrations.value);
  const latest = running.value[0];
  const check = status.value?.lastCheck;
  return (
    <Answer question={t("answer.moving")} answer={active ? plural("answer.podsMoving", active) : t("answer.nothing")} tone={active ? "active" : "quiet"}>
      {latest ? (
        <>
          <a class="name" href={formatRoute("moves", latest.key.split("/"))}>
            <bdi>{printable(latest.pod.split("/")[1] ?? latest.pod)}</bdi>
          </a> {active > 1 ? plural("answer.others", active - 1) : (translatedCode("steps", latest.step)[0] ?? latest.step)}
          {t("comma")}
        </>
      ) : null}
      {plan.value ? (
        <a href={formatRoute("plan")}>
          {active && notBegun
            ? plural("answer.toCome", notBegun)
            : active
              ? t("answer.noneToCome")
              : planned
                ? plural("answer.planned", planned)
                : t("answer.nonePlanned")}
        </a>
      ) : (
        t("answer.planning")
      )}
      {check ? (
        <>
          {t("comma")}
          <span class="nowrap">
            {t("answer.checked")} <Time at={check} />
          </span>
        </>
      ) : null}
    </Answer>
  );
}

function Trouble() {
  const view = status.value;
  if (!view) return <Answer question={t("answer.wrong")} answer={t("answer.unknown")} tone="quiet" />;
  const counts = [
    view.nodesNotReady ? plural("answer.notReady", view.nodesNotReady) : "",
    view.failing.length ? plural("answer.failing", view.failing.length) : "",
    view.pendingCount ? plural("answer.pending", view.pendingCount) : "",
    view.suspects.length ? plural("answer.suspect", view.suspects.length) : "",
  ].filter(Boolean);
  const parts = [...view.halts.map(({ reason, words }) => translatedCode("halts", reason)[0] ?? printable(words)), ...counts, ...view.problems.map(printable)];
  // "4 failing pods" says more than "1 problem: 4 failing pods".
  const only = parts.length === 1 ? counts[0] : undefined;
  const paused = view.pausedBy ? t("answer.pausedBy", { by: printable(view.pausedBy) }) : t("answer.paused");
  const quiet = [view.paused && !view.halts.length ? paused : "", view.dryRun ? t("answer.dryRun") : "", view.maintenance.length ? plural("answer.maintenance", view.maintenance.length) : ""].filter(Boolean);
  return (
    <Answer
      question={t("answer.wrong")}
      answer={only ?? (parts.length ? plural("answer.problems", parts.length) : t("answer.nothing"))}
      tone={parts.length ? "bad" : "good"}
    >
      {parts.length ? <a href={formatRoute("moves", [], { tab: "trouble" })}>{only ? t("answer.inMoves") : parts.slice(0, 3).join(t("comma"))}</a> : null}
      {parts.length && quiet.length ? t("comma") : ""}
      {[parts.length ? "" : plural("answer.allReady", view.nodes), ...quiet].filter(Boolean).join(t("comma"))}
    </Answer>
  );
}

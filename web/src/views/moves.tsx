/** Moves: running, finished, what they cost, and what is in trouble. */

import { useMemo } from "preact/hooks";
import { api, type MigrationFilter } from "../api/client";
import type { BalancePoint, MigrationView } from "../api/types.gen";
import { plural, t } from "../i18n";
import { decimal, duration, printable } from "../lib/format";
import { formatRoute, route, setQuery } from "../lib/router";
import { useRequest } from "../lib/use-request";
import { Empty, Failure, Figure, Loading, Name, NodeLink, PodName, Section, Time } from "../parts/basics";
import { type Column, DataTable } from "../parts/data-table";
import { TimeChart } from "../parts/graphics";
import { language, mayAct, migrations, now, running, session, status } from "../store";
import { openAction } from "./action-dialog";
import { MigrationPanel } from "./migration-panel";
import { StepTrack } from "./step-track";
import { Trouble } from "./trouble";

export function MovesPage() {
  const [namespace, name] = route.value.parts;
  const key = namespace && name ? `${namespace}/${name}` : null;
  const filter = filterFromQuery(route.value.query);
  const isFiltered = Object.keys(filter).length > 0;
  const version = migrations.value.map(({ uid, phase }) => uid + phase).join();
  const history = useRequest(`${JSON.stringify(filter)}@${version}`, () => api.migrations({ ...filter, state: "finished", limit: 100 }));
  return (
    <div class={`with-side ${key ? "with-panel" : ""}`}>
      <div class="page">
        <div class="page-head">
          <div>
            <h1>{t("nav.moves")}</h1>
            <p>{t("moves.intro")}</p>
          </div>
          <PauseButton />
        </div>
        <Section title={t("moves.running")} note={running.value.length ? plural("moves", running.value.length) : null}>
          {running.value.length ? <RunningTable /> : <Empty title={t("moves.noneRunning")}>{t("moves.noneRunningHelp")}</Empty>}
        </Section>
        <Trouble />
        <Costs data={history.data} />
        <BalanceOverTime />
        <Section title={t("moves.history")} note={history.data ? plural("moves", history.data.total) : null}>
          {history.data?.total || isFiltered ? <Filters strategies={history.data?.strategies ?? []} /> : null}
          {history.data ? (
            history.data.migrations.length ? (
              <HistoryTable rows={history.data.migrations} selected={key} />
            ) : (
              <Empty title={t(isFiltered ? "moves.noMatch" : "moves.noHistory")}>{t(isFiltered ? "moves.noMatchHelp" : "moves.noHistoryHelp")}</Empty>
            )
          ) : history.error ? (
            <Failure error={history.error} retry={history.again} />
          ) : (
            <Loading what={t("moves.loading")} />
          )}
        </Section>
      </div>
      {key ? <MigrationPanel key={key} name={key} /> : null}
    </div>
  );
}

const FILTERS = ["phase", "namespace", "node", "strategy", "handover", "q"] as const;

function filterFromQuery(query: ReadonlyMap<string, string>): MigrationFilter {
  return Object.fromEntries(FILTERS.flatMap((name) => (query.get(name) ? [[name, query.get(name)!]] : [])));
}

function Filters({ strategies }: { readonly strategies: readonly string[] }) {
  const query = route.value.query;
  const choice = (name: (typeof FILTERS)[number], label: string, options: readonly string[]) => (
    <select aria-label={label} value={query.get(name) ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
      <option value="">{label}</option>
      {options.map((option) => (
        <option key={option} value={option}>
          {printable(option)}
        </option>
      ))}
    </select>
  );
  return (
    <div class="controls" role="search">
      <input
        type="search"
        aria-label={t("moves.search")}
        placeholder={t("moves.search")}
        value={query.get("q") ?? ""}
        onChange={(event) => setQuery({ q: event.currentTarget.value })}
      />
      <input
        type="search"
        aria-label={t("column.node")}
        placeholder={t("column.node")}
        value={query.get("node") ?? ""}
        onChange={(event) => setQuery({ node: event.currentTarget.value })}
      />
      {choice("phase", t("column.phase"), ["Completed", "Failed"])}
      {choice("strategy", t("column.strategy"), strategies)}
      {choice("handover", t("column.handover"), ["Adopt", "Copy", "Evict"])}
      {FILTERS.some((name) => query.get(name)) ? (
        <button type="button" class="plain" onClick={() => setQuery(Object.fromEntries(FILTERS.map((name) => [name, null])))}>
          {t("moves.clearFilters")}
        </button>
      ) : null}
    </div>
  );
}

function PauseButton() {
  const paused = status.value?.paused ?? false;
  const kind = paused ? "resume" : "pause";
  return mayAct(kind) ? (
    <button type="button" onClick={() => openAction({ kind })}>
      {t(`act.${kind}`)}
    </button>
  ) : null;
}

/** Path of a move's own address; keeps the filters. */
export function moveHref(key: string): string {
  return formatRoute("moves", key.split("/"), Object.fromEntries(route.value.query));
}

/** The pod, with a link to its move. Its title depends on the language, so it is made for each table. */
function podColumn(): Column<MigrationView> {
  return {
    key: "pod",
    title: t("column.pod"),
    stacks: "lead",
    cell: (move) => (
      <a href={moveHref(move.key)}>
        <PodName pod={move.pod} />
      </a>
    ),
    sort: ({ pod }) => pod,
  };
}

function RunningTable() {
  return (
    <DataTable
      caption={t("moves.running")}
      rows={running.value}
      rowKey={({ uid }) => uid}
      selectedKey={null}
      stack
      columns={[
        podColumn(),
        {
          key: "route",
          title: t("moves.route"),
          stacks: "bare",
          cell: ({ from, to }) => (
            <span class="route">
              <NodeLink name={from} /> <span aria-hidden="true">→</span> {to ? <NodeLink name={to} /> : <span class="muted">{t("plan.chosenLater")}</span>}
            </span>
          ),
        },
        { key: "step", title: t("moves.step"), stacks: "bare", cell: (move) => <StepTrack migration={move} /> },
        {
          key: "timer",
          title: t("moves.timer"),
          numeric: true,
          cell: (move) => <Timer migration={move} />,
        },
        { key: "strategy", title: t("column.strategy"), wideOnly: true, cell: ({ strategy }) => <Name>{strategy}</Name> },
        {
          key: "cancel",
          title: t("column.action"),
          stacks: "bare",
          cell: (move) =>
            mayAct("cancel") && !move.isCancelled ? (
              <button type="button" class="compact" onClick={() => openAction({ kind: "cancel", migration: move.key })}>
                {t("act.cancel")}
              </button>
            ) : move.isCancelled ? (
              <span class="muted">{t("moves.cancelling")}</span>
            ) : null,
        },
      ]}
    />
  );
}

function Timer({ migration }: { readonly migration: MigrationView }) {
  const since = Date.parse(migration.stepSince ?? migration.created);
  const left = migration.deadline ? (Date.parse(migration.deadline) - now.value) / 1000 : null;
  return (
    <span class="nowrap" title={left === null ? undefined : t("moves.deadline", { left: duration(left) })}>
      {duration(Math.floor((now.value - since) / 1000))}
    </span>
  );
}

function Costs({ data }: { readonly data: { readonly readySecondsLost: number; readonly evictionSecondsLost: number; readonly total: number } | null }) {
  if (!data?.total) return null;
  const saved = Math.max(0, data.evictionSecondsLost - data.readySecondsLost);
  return (
    <dl class="figures">
      <Figure label={t("moves.lost")} value={duration(data.readySecondsLost)} note={t("moves.lostNote")} />
      <Figure label={t("moves.evictionLost")} value={duration(data.evictionSecondsLost)} note={t("moves.evictionLostNote")} />
      <Figure label={t("moves.saved")} value={duration(saved)} note={plural("moves.savedNote", data.total)} />
    </dl>
  );
}

function BalanceOverTime() {
  // The server samples every interval; a new check is a good moment to ask again.
  const sees = session.value?.seesNodes !== false;
  const request = useRequest(sees ? `balance@${status.value?.lastCheck ?? session.value?.replica}` : null, api.balance);
  const charts = useMemo(() => chartsOf(request.data?.points ?? []), [request.data]);
  const enough = charts.filter(({ at }) => at.length > 1);
  if (!enough.length) return null;
  return (
    <Section title={t("moves.balance")} note={t("moves.balanceNote")}>
      <div class="columns">
        {enough.map(({ resource, at, highest, mean, lowest }) => (
          <TimeChart
            key={resource}
            title={resource}
            note={t("moves.spread", { spread: decimal((highest.at(-1) ?? 0) - (lowest.at(-1) ?? 0), 0, language.value) })}
            at={at}
            series={[
              { label: t("moves.highest"), values: highest, color: "--text" },
              { label: t("moves.mean"), values: mean, color: "--muted", dashed: true },
              { label: t("moves.lowest"), values: lowest, color: "--muted" },
            ]}
          />
        ))}
      </div>
    </Section>
  );
}

function chartsOf(points: readonly BalancePoint[]) {
  const resources = [...new Set(points.map(({ resource }) => resource))];
  return resources.map((resource) => {
    const own = points.filter((point) => point.resource === resource);
    return {
      resource,
      at: own.map(({ at }) => at),
      highest: own.map(({ highest }) => highest),
      mean: own.map(({ mean }) => mean),
      lowest: own.map(({ lowest }) => lowest),
    };
  });
}

function HistoryTable({ rows, selected }: { readonly rows: readonly MigrationView[]; readonly selected: string | null }) {
  return (
    <DataTable
      caption={t("moves.history")}
      rows={rows}
      rowKey={({ key }) => key}
      selectedKey={selected}
      stack
      columns={[
        { key: "finished", title: t("column.finished"), cell: ({ finished }) => <Time at={finished} />, sort: ({ finished }) => finished ?? "" },
        podColumn(),
        { key: "from", title: t("column.from"), cell: ({ from }) => <NodeLink name={from} />, sort: ({ from }) => from },
        { key: "to", title: t("column.to"), cell: ({ to }) => (to ? <NodeLink name={to} /> : "–"), sort: ({ to }) => to },
        {
          key: "phase",
          title: t("column.result"),
          cell: ({ phase, failure }) => <span class={phase === "Failed" ? "danger" : undefined}>{phase === "Failed" ? failure || phase : phase}</span>,
          sort: ({ phase }) => phase,
        },
        { key: "strategy", title: t("column.strategy"), wideOnly: true, cell: ({ strategy }) => <Name>{strategy}</Name>, sort: ({ strategy }) => strategy },
        { key: "handover", title: t("column.handover"), help: t("column.handoverHelp"), wideOnly: true, cell: ({ handover }) => handover, sort: ({ handover }) => handover },
        {
          key: "lost",
          title: t("column.lost"),
          help: t("column.lostHelp"),
          numeric: true,
          cell: ({ readySecondsLost, evictionSecondsLost }) => (
            <span class="nowrap">
              {readySecondsLost === null ? "–" : duration(readySecondsLost)}
              {evictionSecondsLost === null ? "" : <span class="muted"> / {duration(evictionSecondsLost)}</span>}
            </span>
          ),
          sort: ({ readySecondsLost }) => readySecondsLost ?? -1,
        },
      ]}
    />
  );
}


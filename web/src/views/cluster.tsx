/** The first screen: is the cluster balanced, what is moving, is anything wrong? Below: every node. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { ClusterView as Cluster, LabelColumn, MigrationView, PlanView } from "../api/types.gen";
import { NodeGrid, type MoveFlight } from "../grid/node-grid";
import type { LayoutGroup } from "../grid/layout";
import type { CellStyle, GridNode, GridPod } from "../grid/painter";
import { t, plural } from "../i18n";
import { FLAG, groupNodes, leavingPods, loadsAfter, loadsOf, type Measure } from "../lib/cluster-model";
import { percent, printable } from "../lib/format";
import { formatRoute, navigate, route, setQuery } from "../lib/router";
import { useRequest } from "../lib/use-request";
import { LoadBar, Name, NodeLink, Segmented } from "../parts/basics";
import { DataTable } from "../parts/data-table";
import { LoadLegend } from "../parts/load-legend";
import { cluster, language, migrations, plan, running, theme } from "../store";
import { Answers } from "./answers";
import { NodePanel } from "./node-panel";

const PODS_SHOWN_UP_TO = 60;

export function ClusterPage() {
  const view = cluster.value!;
  const { query, parts } = route.value;
  const resource = query.get("resource") ?? "cpu";
  const measure = (query.get("measure") ?? "usage") as Measure;
  const groupBy = query.get("group") ?? (view.nodes.zone.values.length > 1 ? "zone" : "none");
  const asTable = query.get("as") === "table";
  const [cells, setCells] = useState<CellStyle>("pods");
  const waveCount = plan.value?.waves.length ?? 0;
  const wave = Math.min(waveCount, Number(query.get("wave") ?? waveCount));
  const label = useGroupLabel(view, groupBy);
  const loads = useMemo(() => loadsOf(view, resource, measure), [view, resource, measure]);
  const after = useMemo(
    () => (measure === "usage" ? loadsAfter(plan.value, resource, wave) : new Map<string, number>()),
    [plan.value, resource, measure, wave],
  );
  // Cells keep their place while the numbers change a little: sorted again only when something else is chosen or nodes come and go.
  const order = `${view.epoch}/${view.nodes.names.length}/${resource}/${measure}/${groupBy}/${label?.values.length}`;
  const groups = useMemo(() => groupNodes(loads, label, t("cluster.noLabel")), [order]);
  const pods = usePods(view, plan.value);
  const leaving = useMemo(() => leavingPods(plan.value), [plan.value]);
  const arriving = useMemo(() => arrivingPods(plan.value, running.value, wave, pods), [plan.value, running.value, wave, pods]);
  const nodes = useMemo<readonly GridNode[]>(
    () => groups.flatMap(({ rows }) => rows.map((row) => gridNode(view, row, loads, after, pods, leaving, arriving))),
    [groups, view, loads, after, pods, leaving, arriving],
  );
  const isPlanned = measure === "usage" && waveCount > 0;
  const flights = useFlights(wave);
  const links = useMemo(() => running.value.slice(0, 40).map(flightOf), [running.value]);
  const layoutGroups = useMemo(() => groups.map(({ name, rows }) => ({ name, size: rows.length })), [groups]);
  const headings = groups.map(
    ({ name, rows, mean }) => `${printable(name)}   ${plural("nodes", rows.length)}${t("comma")}${t("cluster.mean", { percent: percent(mean, language.value) })}`,
  );

  return (
    <div class={`cluster ${parts[0] ? "with-panel" : ""}`}>
      <div class="cluster-main">
        <h1 class="visually-hidden">{t("nav.cluster")}</h1>
        <Answers />
        <Controls view={view} resource={resource} measure={measure} groupBy={groupBy} asTable={asTable} />
        {asTable ? (
          <div class="cluster-table">
            <NodeTable nodes={nodes} groups={groups.length > 1 ? layoutGroups : []} groupTitle={groupTitle(groupBy)} />
          </div>
        ) : (
          <NodeGrid
            nodes={nodes}
            groups={layoutGroups}
            headings={headings}
            theme={theme.value}
            selected={parts[0] ?? null}
            flights={flights}
            links={links}
            label={t("cluster.grid", { n: nodes.length })}
            help={t("cluster.gridHelp")}
            tooltip={(node, pod) => <Tooltip node={node} pod={pod} />}
            announce={(node) => `${printable(node.name)}, ${nodeWords(node)}`}
            onOpen={(node) => openNode(node.name)}
            onStyle={setCells}
            onDrop={(pod, target) => navigate(formatRoute("what-if", [], { pin: `${pod}>${target.name}` }))}
          />
        )}
        <div class="grid-foot">
          <LoadLegend
            title={t(`legend.${measure}`, { resource: printable(resource) })}
            planned={isPlanned || running.value.length > 0}
            running={running.value.length > 0}
            unready={nodes.some(({ ready }) => !ready)}
            cells={asTable ? null : cells}
          />
          {isPlanned ? <WaveScrubber wave={wave} count={waveCount} /> : null}
        </div>
      </div>
      {parts[0] ? <NodePanel key={parts[0]} name={parts[0]} /> : null}
    </div>
  );
}

function openNode(name: string): void {
  navigate(formatRoute("cluster", [name], Object.fromEntries(route.value.query)));
}

function gridNode(
  view: Cluster,
  row: number,
  loads: readonly (number | null)[],
  after: ReadonlyMap<string, number>,
  pods: ReadonlyMap<string, readonly GridPod[]>,
  leaving: ReadonlyMap<string, number>,
  arriving: ReadonlyMap<string, readonly string[]>,
): GridNode {
  const name = view.nodes.names[row]!;
  const flags = view.nodes.flags[row] ?? 0;
  return {
    name,
    load: loads[row] ?? null,
    after: after.get(name) ?? null,
    podCount: view.nodes.pods[row] ?? 0,
    pods: pods.get(name) ?? null,
    leaving: leaving.get(name) ?? 0,
    arriving: arriving.get(name) ?? [],
    ready: !(flags & FLAG.notReady),
    schedulable: !(flags & (FLAG.cordoned | FLAG.maintenance)),
    warned: Boolean(flags & (FLAG.notReady | FLAG.suspect)),
    note: flags & FLAG.maintenance ? t("node.maintenance") : flags & FLAG.cordoned ? t("node.cordoned") : "",
  };
}

function useGroupLabel(view: Cluster, groupBy: string): LabelColumn | null {
  const key = groupBy.startsWith("label:") ? groupBy.slice(6) : null;
  const loaded = useRequest(key && `${key}@${view.epoch}/${view.nodes.names.length}`, () => api.label(key!));
  if (groupBy === "zone") return view.nodes.zone;
  if (groupBy === "pool") return view.nodes.pool;
  return key ? loaded.data : null;
}

/** The pods that come to each node: by the plan up to a wave, and by moves that run, until the new pod is there. */
function arrivingPods(
  current: PlanView | null,
  moves: readonly MigrationView[],
  wave: number,
  pods: ReadonlyMap<string, readonly GridPod[]>,
): ReadonlyMap<string, readonly string[]> {
  const last = current?.waves[wave - 1]?.wave ?? 0;
  const result = new Map<string, string[]>();
  const add = (node: string | null, pod: string) => {
    const known = result.get(node ?? "");
    if (!node || known?.includes(pod)) return;
    if (known) known.push(pod);
    else result.set(node, [pod]);
  };
  for (const each of moves) {
    const next = newPodOf(each);
    if (!next || !pods.get(each.to)?.some(({ key }) => key === next)) add(each.to, each.pod);
  }
  const begun = new Set(moves.map(({ pod }) => pod));
  for (const move of current?.moves ?? []) if (move.wave <= last && !begun.has(move.pod)) add(move.to, move.pod);
  return result;
}

function newPodOf({ namespace, newPod }: MigrationView): string | null {
  return newPod ? `${namespace}/${newPod}` : null;
}

function flightOf(move: MigrationView): MoveFlight {
  return { id: move.uid, from: move.from, to: move.to, pod: move.pod, newPod: newPodOf(move) };
}

/** The pods of each node, where there are few enough nodes to show them. */
function usePods(view: Cluster, current: PlanView | null): ReadonlyMap<string, readonly GridPod[]> {
  const names = view.nodes.names;
  const moving = useMemo(
    () => new Set([...(current?.moves ?? []), ...running.value].map(({ pod }) => pod)),
    [current, running.value],
  );
  const coming = useMemo(() => new Set(running.value.map(newPodOf)), [running.value]);
  const [keys, setKeys] = useState<ReadonlyMap<string, readonly string[]>>(new Map());
  const loaded = useRef(new Map<string, number>());
  useEffect(() => {
    if (names.length > PODS_SHOWN_UP_TO) return;
    let wanted = true;
    void (async () => {
      for (const [row, name] of names.entries()) {
        const size = view.nodes.pods[row]!;
        if (loaded.current.get(name) === size) continue;
        const found = await api.podsOn(name).catch(() => null);
        if (!wanted) return;
        if (!found) continue;
        loaded.current.set(name, size);
        setKeys((old) => new Map(old).set(name, found.pods.map(({ pod }) => pod)));
      }
    })();
    return () => {
      wanted = false;
    };
  }, [names, view.nodes.pods.join()]);
  return useMemo(
    () => new Map([...keys].map(([node, pods]) => [node, pods.map((key) => ({ key, moving: moving.has(key), comes: coming.has(key) }))])),
    [keys, moving, coming],
  );
}

/** Moves to animate: those of the wave that the scrubber stands on, and those that just finished in the cluster. */
function useFlights(wave: number): readonly MoveFlight[] {
  const [opened] = useState(() => Date.now());
  const scrubbed = route.value.query.has("wave");
  return useMemo(() => {
    const number = plan.value?.waves[wave - 1]?.wave;
    const planned = scrubbed && number !== undefined ? (plan.value?.moves.filter((move) => move.wave === number) ?? []) : [];
    const finished = migrations.value.filter(({ phase, finished: at }) => phase === "Completed" && at && Date.parse(at) > opened);
    return [
      ...planned.flatMap((move) => (move.to ? [{ id: `wave-${number}/${move.uid}`, from: move.from, to: move.to, pod: move.pod, newPod: null }] : [])),
      ...finished.map(flightOf),
    ];
  }, [plan.value, wave, scrubbed, migrations.value]);
}

interface ControlProps {
  readonly view: Cluster;
  readonly resource: string;
  readonly measure: Measure;
  readonly groupBy: string;
  readonly asTable: boolean;
}

function Controls({ view, resource, measure, groupBy, asTable }: ControlProps) {
  const common = ["cpu", "memory", "pods"].filter((name) => view.nodes.resources.some((column) => column.name === name));
  const others = view.nodes.resources.map(({ name }) => name).filter((name) => !common.includes(name));
  const labels = view.labelKeys.filter(({ values, nodes }) => values > 1 && values < Math.max(2, nodes));
  return (
    <div class="controls">
      <Segmented
        label={t("cluster.resource")}
        value={resource}
        options={[...common, ...(others.includes(resource) ? [resource] : [])].map((name) => ({ value: name, label: printable(name) }))}
        onChange={(value) => setQuery({ resource: value === "cpu" ? null : value })}
      />
      {others.length > 0 ? (
        <select
          aria-label={t("cluster.otherResource")}
          value={others.includes(resource) ? resource : ""}
          onChange={(event) => setQuery({ resource: event.currentTarget.value })}
        >
          <option value="">{t("cluster.moreResources")}</option>
          {others.map((name) => (
            <option key={name} value={name}>
              {printable(name)}
            </option>
          ))}
        </select>
      ) : null}
      <Segmented
        label={t("cluster.measure")}
        value={measure}
        options={[
          { value: "usage", label: t("measure.usage") },
          { value: "requests", label: t("measure.requests") },
          { value: "size", label: t("measure.size") },
        ]}
        onChange={(value) => setQuery({ measure: value === "usage" ? null : value })}
      />
      <label class="field">
        <span>{t("cluster.groupBy")}</span>
        <select value={groupBy} onChange={(event) => setQuery({ group: event.currentTarget.value })}>
          <option value="none">{t("group.none")}</option>
          <option value="zone">{t("group.zone")}</option>
          <option value="pool">{t("group.pool")}</option>
          {labels.map(({ key }) => (
            <option key={key} value={`label:${key}`}>
              {printable(key)}
            </option>
          ))}
        </select>
      </label>
      <span class="spring" />
      <Segmented
        label={t("cluster.as")}
        value={asTable ? "table" : "grid"}
        options={[
          { value: "grid", label: t("cluster.asGrid") },
          { value: "table", label: t("graphic.table") },
        ]}
        onChange={(value) => setQuery({ as: value === "table" ? "table" : null })}
      />
    </div>
  );
}

function WaveScrubber({ wave, count: waves }: { readonly wave: number; readonly count: number }) {
  const total = plan.value?.moves.length ?? 0;
  const done = (plan.value?.waves ?? []).slice(0, wave).reduce((sum, { moves }) => sum + moves, 0);
  const words = wave === 0 ? t("wave.before") : t("wave.after", { n: wave, count: waves, done, total });
  return (
    <div class="scrubber">
      <label for="wave">{t("wave.label")}</label>
      <button type="button" class="plain" aria-label={t("wave.previous")} disabled={wave === 0} onClick={() => setQuery({ wave: wave - 1 })}>
        ‹
      </button>
      <input
        id="wave"
        type="range"
        min={0}
        max={waves}
        value={wave}
        aria-valuetext={words}
        onInput={(event) => setQuery({ wave: event.currentTarget.value })}
      />
      <button type="button" class="plain" aria-label={t("wave.next")} disabled={wave === waves} onClick={() => setQuery({ wave: wave + 1 })}>
        ›
      </button>
      <span class="muted nowrap">
        {words}
      </span>
    </div>
  );
}

function nodeWords(node: GridNode): string {
  const load = node.ready ? percent(node.load, language.value) : t("node.notReady");
  const changes = node.after !== null && node.load !== null && Math.abs(node.after - node.load) >= 0.5;
  return [load, changes ? t("node.afterPlan", { percent: percent(node.after, language.value) }) : "", plural("pods", node.podCount)]
    .filter(Boolean)
    .join(t("comma"));
}

function Tooltip({ node, pod }: { readonly node: GridNode; readonly pod: string | null }) {
  return (
    <>
      <strong class="name">{printable(node.name)}</strong>
      <span>{nodeWords(node)}</span>
      {node.note ? <span class="muted">{node.note}</span> : null}
      {pod ? <span class="name">{printable(pod)}</span> : null}
      {pod ? <span class="muted">{t("cluster.dragPod")}</span> : null}
    </>
  );
}

/** The name of what the nodes are grouped by. */
function groupTitle(groupBy: string): string {
  return groupBy === "zone" || groupBy === "pool" ? t(`column.${groupBy}`) : printable(groupBy.replace("label:", ""));
}

interface NodeTableProps {
  readonly nodes: readonly GridNode[];
  readonly groups: readonly LayoutGroup[];
  readonly groupTitle: string;
}

function NodeTable({ nodes, groups, groupTitle: title }: NodeTableProps) {
  const names = groups.flatMap(({ name, size }) => Array.from({ length: size }, () => name));
  const groupOf = new Map(nodes.map(({ name }, index) => [name, names[index] ?? ""]));
  return (
    <DataTable
      caption={t("cluster.nodes")}
      rows={nodes}
      rowKey={({ name }) => name}
      portion={100}
      columns={[
        { key: "name", title: t("column.node"), cell: ({ name }) => <NodeLink name={name} />, sort: ({ name }) => name },
        {
          key: "load",
          title: t("column.load"),
          cell: ({ load, after }) => <LoadBar value={load} after={after} />,
          sort: ({ load }) => load ?? -1,
        },
        ...(groups.length
          ? [
              {
                key: "group",
                title,
                wideOnly: true,
                cell: ({ name }: GridNode) => <Name>{groupOf.get(name)!}</Name>,
                sort: ({ name }: GridNode) => groupOf.get(name)!,
              },
            ]
          : []),
        { key: "pods", title: t("column.pods"), numeric: true, wideOnly: true, cell: ({ podCount }) => podCount, sort: ({ podCount }) => podCount },
        { key: "state", title: t("column.state"), cell: (node) => <NodeState node={node} /> },
      ]}
    />
  );
}

function NodeState({ node }: { readonly node: GridNode }) {
  const words = [
    node.ready ? t("node.ready") : t("node.notReady"),
    ...(node.note ? [node.note] : []),
    ...(node.warned && node.ready ? [t("node.suspect")] : []),
  ];
  return <span class={node.warned ? "danger" : "muted"}>{words.join(t("comma"))}</span>;
}

/** From the server's columns to what the grid and the tables show. Pure. */

import type { ClusterView, LabelColumn, MigrationView, PlanView, WaveView } from "../api/types.gen";
import { bytes, cores } from "./format";

export const FLAG = { notReady: 1, cordoned: 2, maintenance: 4, suspect: 8, planned: 16 } as const;

/** `usage` is the load that plans use; `size` compares what the nodes have. */
export type Measure = "usage" | "requests" | "size";

/** Percent per node; null where the node has nothing of the resource. */
export function loadsOf(cluster: ClusterView, resource: string, measure: Measure): readonly (number | null)[] {
  const column = cluster.nodes.resources.find(({ name }) => name === resource);
  if (!column) return cluster.nodes.names.map(() => null);
  const largest = Math.max(1, ...column.allocatable);
  return column.allocatable.map((allocatable, row) => {
    if (allocatable <= 0) return null;
    if (measure === "size") return (100 * allocatable) / largest;
    return (100 * (measure === "usage" ? column.usage[row]! : column.requests[row]!)) / allocatable;
  });
}

/** The load of each node that the plan changes, after the waves up to `waves` (0: before the first). */
export function loadsAfter(plan: PlanView | null, resource: string, waves: number): ReadonlyMap<string, number> {
  const result = new Map<string, number>();
  for (const wave of plan?.waves.slice(0, waves) ?? []) addWave(result, wave, resource);
  return result;
}

/** How many pods the plan moves away from each node. */
export function leavingPods(plan: PlanView | null): ReadonlyMap<string, number> {
  const result = new Map<string, number>();
  for (const { from } of plan?.moves ?? []) result.set(from, (result.get(from) ?? 0) + 1);
  return result;
}

/** How many moves of a plan have no PodMigration yet. */
export function movesNotBegun(plan: PlanView | null, migrations: readonly Pick<MigrationView, "pod" | "created">[]): number {
  const since = Math.floor(Date.parse(plan?.takenAt ?? "") / 1000) * 1000; // Kubernetes rounds down to seconds
  const begun = new Set(migrations.flatMap(({ pod, created }) => (Date.parse(created) >= since ? [pod] : [])));
  return plan?.moves.filter(({ pod }) => !begun.has(pod)).length ?? 0;
}

function addWave(result: Map<string, number>, wave: WaveView, resource: string): void {
  const loads = wave.loads[resource];
  if (loads) wave.nodes.forEach((node, index) => result.set(node, loads[index]!));
}

export interface NodeGroup {
  readonly name: string;
  /** Rows of the cluster, most loaded first. */
  readonly rows: readonly number[];
  readonly mean: number | null;
}

/** Groups by the values of a label, or one group of all. Nodes without the label come last. */
export function groupNodes(loads: readonly (number | null)[], label: LabelColumn | null, without: string): readonly NodeGroup[] {
  const rowsByValue = new Map<string, number[]>();
  loads.forEach((_, row) => {
    const value = label ? (label.values[label.index[row] ?? -1] ?? "") : "";
    const rows = rowsByValue.get(value);
    if (rows) rows.push(row);
    else rowsByValue.set(value, [row]);
  });
  return [...rowsByValue]
    .sort(([a], [b]) => Number(a === "") - Number(b === "") || a.localeCompare(b, undefined, { numeric: true }))
    .map(([value, rows]) => ({
      name: value || without,
      rows: rows.sort((a, b) => (loads[b] ?? -1) - (loads[a] ?? -1) || a - b),
      mean: mean(rows.flatMap((row) => loads[row] ?? [])),
    }));
}

function mean(values: readonly number[]): number | null {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

/** An amount of a resource, in the unit that Kubernetes uses for it. */
export function amount(resource: string, value: number): string {
  if (resource === "cpu") return cores(value);
  return /memory|storage|hugepages/.test(resource) ? bytes(value) : String(value);
}

export interface Verdict {
  readonly balanced: boolean;
  readonly resource: string;
  readonly spread: number;
  readonly limit: number;
  readonly highest: { readonly node: string; readonly percent: number };
  readonly lowest: { readonly node: string; readonly percent: number };
}

/** Is the cluster balanced? Judged by the resource with the largest spread. */
export function judgeBalance(cluster: ClusterView, thresholds: Readonly<Record<string, number>>): Verdict | null {
  const limit = thresholds["imbalance"] ?? 20;
  const worst = cluster.balance.reduce<ClusterView["balance"][number] | null>(
    (found, each) => (!found || each.most.percent - each.least.percent > found.most.percent - found.least.percent ? each : found),
    null,
  );
  if (!worst) return null;
  const spread = worst.most.percent - worst.least.percent;
  return { balanced: spread <= limit, resource: worst.resource, spread, limit, highest: worst.most, lowest: worst.least };
}

/** Apply the server's changes to what the page has. Pure: returns new objects, and the old one where nothing changes. */

import type { ClusterView, MigrationsDelta, MigrationView, NodesDelta, ResourceColumn } from "./types.gen";

/** Null means: the change doesn't fit to this cluster, load everything again. */
export function applyNodes(cluster: ClusterView, delta: NodesDelta): ClusterView | null {
  if (delta.revision <= cluster.revision) return cluster;
  const size = cluster.nodes.names.length;
  if (delta.rows.some((row) => row < 0 || row >= size)) return null;
  const resources: ResourceColumn[] = [];
  for (const column of cluster.nodes.resources) {
    const change = delta.resources.find(({ name }) => name === column.name);
    resources.push(
      change
        ? {
            name: column.name,
            allocatable: replaced(column.allocatable, delta.rows, change.allocatable),
            requests: replaced(column.requests, delta.rows, change.requests),
            usage: replaced(column.usage, delta.rows, change.usage),
          }
        : column,
    );
  }
  return {
    ...cluster,
    revision: delta.revision,
    takenAt: delta.takenAt,
    balance: delta.balance,
    nodes: {
      ...cluster.nodes,
      resources,
      pods: replaced(cluster.nodes.pods, delta.rows, delta.pods),
      flags: replaced(cluster.nodes.flags, delta.rows, delta.flags),
    },
  };
}

function replaced(values: readonly number[], rows: readonly number[], changes: readonly number[]): readonly number[] {
  const copy = values.slice();
  rows.forEach((row, index) => {
    copy[row] = changes[index] ?? copy[row]!;
  });
  return copy;
}

const KEPT = 500;

/** Newest first. Old ones are dropped, so that a page that is open for days stays small. */
export function applyMigrations(known: readonly MigrationView[], delta: MigrationsDelta): readonly MigrationView[] {
  const removed = new Set([...delta.removed, ...delta.changed.map(({ key }) => key)]);
  return [...delta.changed, ...known.filter(({ key }) => !removed.has(key))]
    .sort((a, b) => b.created.localeCompare(a.created) || a.key.localeCompare(b.key))
    .slice(0, KEPT);
}

export function isRunning(migration: MigrationView): boolean {
  return migration.phase === "Pending" || migration.phase === "InProgress";
}

import { describe, expect, test } from "vitest";
import { applyMigrations, applyNodes } from "../src/api/deltas";
import type { ClusterView, MigrationView, NodesDelta, PlanView } from "../src/api/types.gen";
import { groupNodes, judgeBalance, loadsAfter, loadsOf, movesNotBegun } from "../src/lib/cluster-model";
import { formatRoute, parseRoute } from "../src/lib/router";
import { formFromQuery, formFromRequest, isUnchanged, requestFromForm, UNCHANGED } from "../src/lib/what-if-model";

const cluster = {
  revision: 3,
  epoch: "e",
  takenAt: "2026-01-01T00:00:00Z",
  nodes: {
    names: ["a", "b", "c"],
    resources: [{ name: "cpu", allocatable: [1000, 2000, 0], requests: [500, 500, 0], usage: [900, 1000, 0] }],
    pods: [5, 6, 0],
    flags: [0, 0, 1],
    zone: { key: "zone", values: ["x", "y"], index: [1, 0, -1] },
    pool: { key: "pool", values: [], index: [-1, -1, -1] },
  },
  balance: [{ resource: "cpu", mean: 70, least: { node: "b", percent: 50 }, most: { node: "a", percent: 90 } }],
} as unknown as ClusterView;

const delta = (changes: Partial<NodesDelta>): NodesDelta => ({
  revision: 4,
  takenAt: "2026-01-01T00:01:00Z",
  rows: [1],
  resources: [{ name: "cpu", allocatable: [2000], requests: [600], usage: [400] }],
  pods: [4],
  flags: [16],
  balance: [],
  ...changes,
});

describe("changes of nodes", () => {
  test("replace the numbers of their rows and nothing else", () => {
    const next = applyNodes(cluster, delta({}))!;
    expect(next.nodes.resources[0]!.usage).toEqual([900, 400, 0]);
    expect(next.nodes.pods).toEqual([5, 4, 0]);
    expect(cluster.nodes.pods).toEqual([5, 6, 0]);
    expect(next.revision).toBe(4);
  });

  test("that are older are ignored", () => expect(applyNodes(cluster, delta({ revision: 3 }))).toBe(cluster));

  test("of rows that don't exist need everything anew", () => expect(applyNodes(cluster, delta({ rows: [9] }))).toBeNull());
});

describe("changes of migrations", () => {
  const migration = (key: string, created: string, phase = "InProgress") => ({ key, created, phase }) as unknown as MigrationView;

  test("replace, add and remove, newest first", () => {
    const known = [migration("n/a", "2026-01-01T00:00:02Z"), migration("n/b", "2026-01-01T00:00:01Z")];
    const next = applyMigrations(known, {
      changed: [migration("n/b", "2026-01-01T00:00:01Z", "Completed"), migration("n/c", "2026-01-01T00:00:03Z")],
      removed: ["n/a"],
    });
    expect(next.map(({ key, phase }) => [key, phase])).toEqual([
      ["n/c", "InProgress"],
      ["n/b", "Completed"],
    ]);
  });

  test("never grow without bound", () => {
    const many = Array.from({ length: 2000 }, (_, index) => migration(`n/${index}`, "2026-01-01T00:00:00Z"));
    expect(applyMigrations([], { changed: many, removed: [] }).length).toBe(500);
  });
});

describe("the cluster's numbers", () => {
  test("load is a share of allocatable, and null where there is none", () => {
    expect(loadsOf(cluster, "cpu", "usage")).toEqual([90, 50, null]);
    expect(loadsOf(cluster, "cpu", "requests")).toEqual([50, 25, null]);
    expect(loadsOf(cluster, "cpu", "size")).toEqual([50, 100, null]);
    expect(loadsOf(cluster, "gpu", "usage")).toEqual([null, null, null]);
  });

  test("groups are sorted by name, their nodes by load, and nodes without the label come last", () => {
    const groups = groupNodes([90, 50, null], cluster.nodes.zone, "none");
    expect(groups.map(({ name, rows }) => [name, rows])).toEqual([
      ["x", [1]],
      ["y", [0]],
      ["none", [2]],
    ]);
  });

  test("the ghost is the load after the last wave that changes a node", () => {
    const plan = {
      waves: [
        { nodes: ["a", "b"], loads: { cpu: [80, 60] } },
        { nodes: ["a"], loads: { cpu: [70] } },
      ],
    } as unknown as PlanView;
    expect([...loadsAfter(plan, "cpu", 1)]).toEqual([
      ["a", 80],
      ["b", 60],
    ]);
    expect(loadsAfter(plan, "cpu", 2).get("a")).toBe(70);
    expect(loadsAfter(null, "cpu", 2).size).toBe(0);
  });

  test("a cluster is balanced while its largest spread is within the limit", () => {
    expect(judgeBalance(cluster, { imbalance: 20 })?.balanced).toBe(false);
    expect(judgeBalance(cluster, { imbalance: 40 })?.balanced).toBe(true);
    expect(judgeBalance({ ...cluster, balance: [] }, {})).toBeNull();
  });
});

describe("addresses", () => {
  test.each(["a/b", "50%", "x?y=1&z", "<img>", "名字"])("%s survives in a path and in a query", (name) => {
    const route = parseRoute(formatRoute("cluster", [name], { group: name }));
    expect(route.parts).toEqual([name]);
    expect(route.query.get("group")).toBe(name);
  });

  test("broken ones open the first view or are taken as they are", () => {
    expect(parseRoute("").view).toBe("cluster");
    expect(parseRoute("#/why/%E0%A4%A").parts).toEqual(["%E0%A4%A"]);
  });
});

describe("the What if form", () => {
  test("takes links of other views", () => {
    const form = formFromQuery(new Map([["drain", "a"], ["pin", "n/p>b"], ["like", "c"], ["count", "2"]]));
    expect(requestFromForm(form)).toEqual({ drain: ["a"], pin: [{ pod: "n/p", node: "b" }], addNodes: [{ like: "c", count: 2 }] });
  });

  test("sends only what is changed, and comes back from a request", () => {
    expect(isUnchanged(UNCHANGED)).toBe(true);
    const request = { cpuThreshold: 70, maxMoves: 3, strategies: ["LoadBalancing"] };
    expect(requestFromForm(formFromRequest(request))).toEqual(request);
  });
});

test("a move of the plan is to come until its pod has a PodMigration of this plan", () => {
  const plan = { takenAt: "2026-01-01T00:00:10.5Z", moves: [{ pod: "shop/a" }, { pod: "shop/b" }, { pod: "shop/c" }] } as unknown as PlanView;
  const begun = { pod: "shop/a", created: "2026-01-01T00:00:10Z" };
  const older = { pod: "shop/b", created: "2026-01-01T00:00:01Z" };
  expect(movesNotBegun(plan, [begun, older])).toBe(2);
  expect(movesNotBegun(null, [begun])).toBe(0);
});

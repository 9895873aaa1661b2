import { describe, expect, test } from "vitest";
import { arcOf, pointAt, type Box, type Point, type RouteEnd, routeOf } from "../src/grid/move-routes";

const WIDTH = 200;
const HEIGHT = 100;
const GAP = 8;
const cellAt = (column: number, row: number): Box => [column * (WIDTH + GAP), row * (HEIGHT + GAP), WIDTH, HEIGHT];

/** A pod in the fourth line of a cell, with a name of 90 pixels. */
const named = (column: number, row: number): RouteEnd => {
  const cell = cellAt(column, row);
  const square: Point = [cell[0] + 35, cell[1] + 70];
  return { cell, square, half: 5, behindName: square[0] + 100 };
};
const unnamed = (column: number, row: number): RouteEnd => ({ ...named(column, row), behindName: null });
const absent = (column: number, row: number): RouteEnd => ({ ...named(column, row), square: null, behindName: null });

/** Whether a line between two corners enters a box. They are horizontal or vertical. */
function enters([a, b]: readonly [Point, Point], [left, top, width, height]: Box): boolean {
  const [x1, x2] = [Math.min(a[0], b[0]), Math.max(a[0], b[0])];
  const [y1, y2] = [Math.min(a[1], b[1]), Math.max(a[1], b[1])];
  return x2 > left && x1 < left + width && y2 > top && y1 < top + height;
}

const linesOf = (points: readonly Point[]) => points.slice(1).map((point, index) => [points[index]!, point] as const);
const places = [0, 1, 2].flatMap((column) => [0, 1, 2].map((row) => [column, row] as const));
const pairs = places.flatMap((from) => places.filter((to) => to !== from).map((to) => [from, to] as const));

describe.each([
  ["with names", named],
  ["without names", unnamed],
  ["that are not there", absent],
])("the line between pods %s", (_, end) => {
  test("is outside of all other cells", () => {
    for (const [from, to] of pairs) {
      for (const line of [-2, 0, 2].flatMap((lane) => linesOf(routeOf(end(...from), end(...to), GAP, lane)))) {
        expect(line[0][0] === line[1][0] || line[0][1] === line[1][1], `${from} to ${to}`).toBe(true);
        for (const other of places) if (other !== from && other !== to) expect(enters(line, cellAt(...other)), `${from} to ${to}`).toBe(false);
      }
    }
  });
});

test("the line of a pod crosses no name in its own cells, not even its own", () => {
  for (const [from, to] of pairs) {
    const lines = linesOf(routeOf(named(...from), named(...to), GAP, 0));
    for (const [left, top] of [cellAt(...from), cellAt(...to)]) {
      const names = [0, 1, 2, 3, 4].map((row) => [left + 42, top + 18 + 15 * row, 90, 14] as const);
      for (const line of lines) for (const name of names) expect(enters(line, name), `${from} to ${to}`).toBe(false);
    }
  }
});

describe("a pod on its way", () => {
  test("goes from one end of a line to the other", () => {
    const path: readonly Point[] = [[0, 0], [10, 0], [10, 30]];
    expect(pointAt(path, 0)).toEqual([0, 0]);
    expect(pointAt(path, 0.5)).toEqual([10, 10]);
    expect(pointAt(path, 1)).toEqual([10, 30]);
  });

  test("begins and ends an arc at the middles of small cells", () => {
    const arc = arcOf([5, 5], [105, 45]);
    expect(arc[0]).toEqual([5, 5]);
    expect(arc.at(-1)).toEqual([105, 45]);
  });
});

import { describe, expect, test } from "vitest";
import { cellAt, layOut, neighbor } from "../src/grid/layout";
import { arrangePods, cellStyle, type GridNode, podArrangement, type Scene } from "../src/grid/painter";
import { FITTED, pan, reveal, zoomAt, type Extent } from "../src/grid/viewport";

const groups = (...sizes: number[]) => sizes.map((size, index) => ({ name: `zone-${index}`, size }));

test.each([
  [6, "color"],
  [20, "bar"],
  [44, "pods"],
])("a cell of %d pixels shows its %s", (height, style) => {
  expect(cellStyle(height)).toBe(style);
});

describe("the layout", () => {
  test.each([[1], [6], [40], [500], [5000]])("%d nodes fit into the frame", (size) => {
    const layout = layOut(groups(size), 1400, 640);
    expect(layout.height).toBeLessThanOrEqual(640);
    for (let index = 0; index < size; index++) expect(layout.positions[index * 2]! + layout.cellWidth).toBeLessThanOrEqual(1400);
  });

  test("fewer nodes have larger cells", () => {
    const heights = [6, 40, 500, 5000].map((size) => layOut(groups(size), 1400, 640).cellHeight);
    expect(heights).toEqual(heights.slice().sort((a, b) => b - a));
  });

  test.each([[[14, 13, 13]], [[2, 2, 2]], [[40]]])("cells with names fill the rows of groups of %j nodes", (sizes) => {
    const layout = layOut(groups(...sizes), 1400, 640);
    const right = Math.max(...sizes.map((_, group) => layout.groups[group]!.x + layout.groups[group]!.width));
    expect(layout.cellHeight).toBeGreaterThanOrEqual(44);
    expect(right).toBeGreaterThan(1400 - layout.columns);
  });

  test("narrow cells with names come before cells without", () => {
    const layout = layOut(groups(14, 13, 13), 562, 370);
    expect(layout.cellHeight).toBeGreaterThanOrEqual(44);
    expect(layout.height).toBeLessThanOrEqual(370);
  });

  test("no two cells overlap", () => {
    const layout = layOut(groups(3, 2, 70, 1), 900, 500);
    const count = layout.positions.length / 2;
    for (let a = 0; a < count; a++) {
      for (let b = a + 1; b < count; b++) {
        const dx = Math.abs(layout.positions[a * 2]! - layout.positions[b * 2]!);
        const dy = Math.abs(layout.positions[a * 2 + 1]! - layout.positions[b * 2 + 1]!);
        expect(dx >= layout.cellWidth || dy >= layout.cellHeight).toBe(true);
      }
    }
  });

  test("the cell at the middle of each cell is that cell", () => {
    const layout = layOut(groups(300, 7, 4, 900), 1200, 600);
    for (let index = 0; index < layout.positions.length / 2; index++) {
      const [x, y] = [layout.positions[index * 2]!, layout.positions[index * 2 + 1]!];
      expect(cellAt(layout, x + layout.cellWidth / 2, y + layout.cellHeight / 2)).toBe(index);
    }
    expect(cellAt(layout, -5, 10)).toBe(-1);
    expect(cellAt(layout, 10, 10_000)).toBe(-1);
  });

  test("arrow keys reach a neighbor and stop at the edges", () => {
    const layout = layOut(groups(40), 900, 500);
    expect(neighbor(layout, 0, -1, 0)).toBe(0);
    expect(neighbor(layout, 0, 1, 0)).toBe(1);
    const below = neighbor(layout, 0, 0, 1);
    expect(layout.positions[below * 2]).toBe(layout.positions[0]);
    expect(neighbor(layout, below, 0, -1)).toBe(0);
    expect(neighbor(layout, 39, 0, 1)).toBe(39);
  });
});

describe("pan and zoom", () => {
  const extent: Extent = { width: 1000, height: 500, contentWidth: 1000, contentHeight: 480, cellHeight: 10 };

  test("the point under the pointer stays where it is", () => {
    const view = zoomAt(FITTED, extent, 3, 400, 200);
    expect((400 - view.x) / view.scale).toBeCloseTo(400);
    expect((200 - view.y) / view.scale).toBeCloseTo(200);
  });

  test("the content can't be pushed out of sight, nor shrunk", () => {
    expect(pan(FITTED, extent, 500, 500)).toEqual(FITTED);
    expect(zoomAt(FITTED, extent, 0.1, 1, 1).scale).toBe(1);
  });

  test("a cell outside is brought inside", () => {
    const view = reveal(zoomAt(FITTED, extent, 10, 0, 0), extent, 900, 400, 10, 10);
    expect(900 * view.scale + view.x).toBeGreaterThanOrEqual(0);
    expect(910 * view.scale + view.x).toBeLessThanOrEqual(1000);
  });
});

test("pods have names where there is room, else squares, else nothing", () => {
  expect(arrangePods(5, 200, 100)?.named).toBe(true);
  expect(arrangePods(110, 120, 60)?.named).toBe(false);
  expect(arrangePods(110, 20, 10)).toBeNull();
  expect(arrangePods(0, 200, 100)).toBeNull();
});

test("squares have one size in all cells: that of the node with the most pods", () => {
  const node = (podCount: number, arriving: number) => ({ podCount, pods: null, arriving: Array<string>(arriving).fill("shop/web") }) as unknown as GridNode;
  const layout = { cellWidth: 150, cellHeight: 90 };
  const scene = (...nodes: GridNode[]) => ({ nodes, layout, view: { scale: 1, x: 0, y: 0 } }) as unknown as Scene;
  const few = podArrangement(scene(node(3, 0)))!;
  const many = podArrangement(scene(node(3, 0), node(60, 10)))!;
  expect(few.named).toBe(false);
  expect(many.side).toBeLessThan(few.side);
  expect(many).toEqual(podArrangement(scene(node(70, 0))));
});

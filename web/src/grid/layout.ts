/**
 * Where each node's cell is. Pure: nodes and a size go in, positions come out.
 *
 * Groups stand below each other, each with a heading; groups of less than a row stand beside each other. The cells are
 * as large as possible while everything fits.
 */

export interface LayoutGroup {
  readonly name: string;
  readonly size: number;
}

export interface GroupBox {
  readonly name: string;
  readonly size: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

export interface GridLayout {
  readonly cellWidth: number;
  readonly cellHeight: number;
  readonly gap: number;
  readonly width: number;
  readonly height: number;
  /** Left and top of each cell, in the order of the nodes: x0, y0, x1, y1, … */
  readonly positions: Float32Array;
  readonly groups: readonly GroupBox[];
}

const HEIGHTS = [280, 250, 220, 190, 165, 140, 120, 104, 92, 80, 70, 60, 52, 44, 38, 32, 27, 23, 20, 17, 15, 13, 11, 10, 9, 8, 7, 6] as const;
export const HEADING = 20;
const GROUP_GAP = 10;

/** Large cells are wide, for names and pods; small ones are square. */
function widthOf(height: number): number {
  return height >= 60 ? Math.round(height * 1.75) : height >= 38 ? Math.round(height * 1.4) : height;
}

function gapOf(height: number): number {
  return height >= 60 ? 8 : height >= 20 ? 4 : height >= 11 ? 2 : 1;
}

export function layOut(groups: readonly LayoutGroup[], width: number, height: number): GridLayout {
  let best: GridLayout | undefined;
  for (const cellHeight of HEIGHTS) {
    best = arrange(groups, width, cellHeight);
    if (best.height <= height) return best;
  }
  return best ?? arrange(groups, width, HEIGHTS[0]);
}

function arrange(groups: readonly LayoutGroup[], width: number, cellHeight: number): GridLayout {
  const gap = gapOf(cellHeight);
  const cellWidth = Math.min(widthOf(cellHeight), Math.max(6, width));
  const stepX = cellWidth + gap;
  const stepY = cellHeight + gap;
  const columns = Math.max(1, Math.floor((width + gap) / stepX));
  const heading = groups.length > 1 ? HEADING : 0;
  const total = groups.reduce((sum, group) => sum + group.size, 0);
  const positions = new Float32Array(total * 2);
  const boxes: GroupBox[] = [];
  let index = 0;
  let left = 0;
  let top = 0;
  let shelf = 0;
  for (const group of groups) {
    const used = Math.min(columns, group.size);
    const room = Math.max(used * stepX - gap, heading ? Math.min(width, 96) : 0);
    if (left > 0 && (group.size > columns || left + room > width)) {
      top += shelf + GROUP_GAP;
      left = 0;
      shelf = 0;
    }
    boxes.push({ name: group.name, size: group.size, x: left, y: top, width: room });
    for (let i = 0; i < group.size; i++, index++) {
      positions[index * 2] = left + (i % columns) * stepX;
      positions[index * 2 + 1] = top + heading + Math.floor(i / columns) * stepY;
    }
    shelf = Math.max(shelf, heading + Math.ceil(group.size / columns) * stepY - gap);
    left += room + GROUP_GAP * 2;
  }
  return { cellWidth, cellHeight, gap, width, height: top + shelf, positions, groups: boxes };
}

/** The cell at a point, or -1. Cells of a group are found by arithmetic, so the cost is one step per group. */
export function cellAt(layout: GridLayout, x: number, y: number): number {
  const stepX = layout.cellWidth + layout.gap;
  const stepY = layout.cellHeight + layout.gap;
  const heading = layout.groups.length > 1 ? HEADING : 0;
  const columns = Math.max(1, Math.floor((layout.width + layout.gap) / stepX));
  let first = 0;
  for (const group of layout.groups) {
    const column = Math.floor((x - group.x) / stepX);
    const row = Math.floor((y - group.y - heading) / stepY);
    const inside = column >= 0 && row >= 0 && column < Math.min(columns, group.size);
    const offset = row * columns + column;
    if (inside && offset < group.size) {
      const withinX = x - group.x - column * stepX <= layout.cellWidth;
      const withinY = y - group.y - heading - row * stepY <= layout.cellHeight;
      return withinX && withinY ? first + offset : -1;
    }
    first += group.size;
  }
  return -1;
}

/** The nearest cell in a direction, for the arrow keys. */
export function neighbor(layout: GridLayout, index: number, dx: -1 | 0 | 1, dy: -1 | 0 | 1): number {
  const count = layout.positions.length / 2;
  if (dx !== 0) return Math.min(count - 1, Math.max(0, index + dx));
  const x = layout.positions[index * 2]!;
  const y = layout.positions[index * 2 + 1]!;
  let best = index;
  let bestCost = Infinity;
  for (let other = 0; other < count; other++) {
    const down = (layout.positions[other * 2 + 1]! - y) * dy;
    if (down <= 0) continue;
    const cost = down * 4 + Math.abs(layout.positions[other * 2]! - x);
    if (cost < bestCost) {
      best = other;
      bestCost = cost;
    }
  }
  return best;
}

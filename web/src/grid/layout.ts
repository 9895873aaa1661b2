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
  /** Cells in a full row. */
  readonly columns: number;
  readonly width: number;
  readonly height: number;
  /** Left and top of each cell, in the order of the nodes: x0, y0, x1, y1, … */
  readonly positions: Float32Array;
  readonly groups: readonly GroupBox[];
}

const LARGEST = 280;
const SMALLEST = 6;
/** Cells from this height on have names and fill their row. */
const WITH_TEXT = 44;
const LARGE_GAP_FROM = 60;
/** Width by height. Narrower cells have room for a short name and one figure, which is better than none. */
const WIDE = 1.75;
const NARROW = 1.4;
/** Cells with text may be this much wider or higher than their shape asks for, so that the grid fills its frame. */
const WIDER = 1.6;
const HIGHER = 1.35;
export const HEADING = 20;
const GROUP_GAP = 10;

interface CellSize {
  readonly width: number;
  readonly height: number;
  readonly gap: number;
  readonly columns: number;
}

/** Cells with text are wide, for names and pods, and fill their row; small ones are square. */
function sizeOf(height: number, width: number, shape = height >= WITH_TEXT ? WIDE : 1): CellSize {
  const gap = height >= 120 ? 14 : height >= LARGE_GAP_FROM ? 8 : height >= 20 ? 4 : height >= 11 ? 2 : 1;
  const own = Math.min(Math.round(height * shape), Math.max(SMALLEST, width));
  const room = width + gap;
  const columns = Math.max(1, Math.floor(room / (own + gap)));
  return { width: height >= WITH_TEXT ? Math.max(SMALLEST, Math.floor(room / columns) - gap) : own, height, gap, columns };
}

/** As large as fits. */
export function layOut(groups: readonly LayoutGroup[], width: number, height: number): GridLayout {
  for (const candidate of sizes(width)) {
    if (boxesOf(groups, width, candidate).height <= height) return arrange(groups, width, stretched(groups, width, height, candidate));
  }
  return arrange(groups, width, sizeOf(SMALLEST, width));
}

/** The best first. */
function* sizes(width: number): Generator<CellSize> {
  for (let height = LARGEST; height >= WITH_TEXT; height--) yield sizeOf(height, width);
  for (let height = LARGE_GAP_FROM - 1; height >= WITH_TEXT; height--) yield sizeOf(height, width, NARROW);
  for (let height = WITH_TEXT - 1; height > SMALLEST; height--) yield sizeOf(height, width);
}

function stretched(groups: readonly LayoutGroup[], width: number, height: number, size: CellSize): CellSize {
  if (size.height < WITH_TEXT) return size;
  let best = widened(groups, width, size);
  for (let cellHeight = size.height + 1; cellHeight <= size.height * HIGHER; cellHeight++) {
    const candidate = { ...best, height: cellHeight };
    if (boxesOf(groups, width, candidate).height > height) break;
    best = candidate;
  }
  return best;
}

/** Groups that stand below each other and don't fill a row share it among fewer columns. */
function widened(groups: readonly LayoutGroup[], width: number, size: CellSize): CellSize {
  const columns = Math.min(size.columns, Math.max(1, ...groups.map((group) => group.size)));
  const stacked = boxesOf(groups, width, size).boxes.every(({ x }) => x === 0);
  if (!stacked || columns === size.columns) return size;
  return { ...size, columns, width: Math.min(Math.floor(size.width * WIDER), Math.floor((width + size.gap) / columns) - size.gap) };
}

function boxesOf(groups: readonly LayoutGroup[], width: number, size: CellSize): { readonly boxes: readonly GroupBox[]; readonly height: number } {
  const { gap, columns } = size;
  const heading = groups.length > 1 ? HEADING : 0;
  const boxes: GroupBox[] = [];
  let left = 0;
  let top = 0;
  let shelf = 0;
  for (const group of groups) {
    const room = Math.max(Math.min(columns, group.size) * (size.width + gap) - gap, heading ? Math.min(width, 96) : 0);
    if (left > 0 && (group.size > columns || left + room > width)) {
      top += shelf + GROUP_GAP;
      left = 0;
      shelf = 0;
    }
    boxes.push({ name: group.name, size: group.size, x: left, y: top, width: room });
    shelf = Math.max(shelf, heading + Math.ceil(group.size / columns) * (size.height + gap) - gap);
    // The columns of groups beside each other are in line where the gap is wide enough to tell groups apart.
    left += room + (gap >= 8 ? gap : GROUP_GAP * 2);
  }
  // Where there are names, lines of moves run through the gaps, also below the last row.
  return { boxes, height: top + shelf + (size.height >= WITH_TEXT ? gap : 0) };
}

function arrange(groups: readonly LayoutGroup[], width: number, size: CellSize): GridLayout {
  const { boxes, height } = boxesOf(groups, width, size);
  const heading = groups.length > 1 ? HEADING : 0;
  const positions = new Float32Array(groups.reduce((sum, group) => sum + group.size, 0) * 2);
  let index = 0;
  for (const box of boxes) {
    for (let i = 0; i < box.size; i++, index++) {
      positions[index * 2] = box.x + (i % size.columns) * (size.width + size.gap);
      positions[index * 2 + 1] = box.y + heading + Math.floor(i / size.columns) * (size.height + size.gap);
    }
  }
  return { cellWidth: size.width, cellHeight: size.height, gap: size.gap, columns: size.columns, width, height, positions, groups: boxes };
}

/** The cell at a point, or -1. Cells of a group are found by arithmetic, so the cost is one step per group. */
export function cellAt(layout: GridLayout, x: number, y: number): number {
  const stepX = layout.cellWidth + layout.gap;
  const stepY = layout.cellHeight + layout.gap;
  const heading = layout.groups.length > 1 ? HEADING : 0;
  const { columns } = layout;
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

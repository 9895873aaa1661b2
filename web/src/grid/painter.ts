/** Draws the cells of the node grid, with the pods of each node. They change with the data; see `overlay` for what lies above. */

import { printable } from "../lib/format";
import { loadColor, type Theme } from "../lib/load-scale";
import { HEADING, type GridLayout } from "./layout";
import type { Viewport } from "./viewport";

export interface GridPod {
  /** `namespace/name`. */
  readonly key: string;
  /** Whether the plan moves it. */
  readonly moving: boolean;
  /** Whether it takes the place of a pod that moves now. */
  readonly comes: boolean;
}

export interface GridNode {
  readonly name: string;
  /** Load in percent of allocatable; null where the resource doesn't exist on the node. */
  readonly load: number | null;
  /** The plan's ghost: the load after the shown wave. */
  readonly after: number | null;
  readonly podCount: number;
  /** Null until they are known; then `leaving` says how many of them the plan moves. */
  readonly pods: readonly GridPod[] | null;
  readonly leaving: number;
  /** Pods that come by the plan, up to the shown wave, or by moves that run. */
  readonly arriving: readonly string[];
  readonly ready: boolean;
  readonly schedulable: boolean;
  readonly warned: boolean;
  /** Why no new pods come to it, if so. */
  readonly note: string;
}

export interface Palette {
  readonly theme: Theme;
  readonly track: string;
  readonly text: string;
  readonly muted: string;
  readonly line: string;
  readonly accent: string;
  readonly danger: string;
  readonly surface: string;
  readonly font: string;
}

export const LARGE = 44;
const TINY = 17;
/** From this width on, the name and the load of a node stand in one line. */
const ONE_LINE = 200;

/** What a cell shows: only a color, a bar, or a bar with pods. */
export type CellStyle = "color" | "bar" | "pods";

export function cellStyle(height: number): CellStyle {
  return height >= LARGE ? "pods" : height >= TINY ? "bar" : "color";
}

function barWidth(height: number): number {
  return Math.round(Math.min(30, Math.max(12, height * 0.2)));
}

export function readPalette(element: Element, theme: Theme): Palette {
  const style = getComputedStyle(element);
  const token = (name: string) => style.getPropertyValue(name).trim();
  return {
    theme,
    track: token("--track"),
    text: token("--text"),
    muted: token("--muted"),
    line: token("--line-strong"),
    accent: token("--accent"),
    danger: token("--danger"),
    surface: token("--surface"),
    font: style.fontFamily,
  };
}

export interface Scene {
  readonly nodes: readonly GridNode[];
  readonly headings: readonly string[];
  readonly layout: GridLayout;
  readonly view: Viewport;
  readonly palette: Palette;
  readonly width: number;
  readonly height: number;
}

export function paintCells(context: CanvasRenderingContext2D, scene: Scene): void {
  const { layout, view, nodes, width, height } = scene;
  const { positions } = layout;
  const cellWidth = layout.cellWidth * view.scale;
  const cellHeight = layout.cellHeight * view.scale;
  context.clearRect(0, 0, width, height);
  const paint = cellHeight >= LARGE ? paintLargeCell : paintSmallCell;
  for (let index = 0; index < nodes.length; index++) {
    const x = positions[index * 2]! * view.scale + view.x;
    const y = positions[index * 2 + 1]! * view.scale + view.y;
    if (x > width || y > height || x + cellWidth < 0 || y + cellHeight < 0) continue;
    paint(context, scene, nodes[index]!, x, y, cellWidth, cellHeight);
  }
  if (layout.groups.length > 1) paintHeadings(context, scene);
}

function paintHeadings(context: CanvasRenderingContext2D, scene: Scene): void {
  context.font = headingFont(scene);
  context.textBaseline = "alphabetic";
  context.fillStyle = scene.palette.muted;
  scene.layout.groups.forEach((_, index) => {
    const { text, x, y } = headingAt(context, scene, index);
    context.fillText(text, x, y);
  });
}

function headingFont({ palette }: Scene): string {
  return `600 12px ${palette.font}`;
}

/** The text of a group's heading, and the left end of its baseline. */
function headingAt(context: CanvasRenderingContext2D, { layout, view, headings }: Scene, index: number): { text: string; x: number; y: number } {
  const group = layout.groups[index]!;
  return {
    text: shortened(context, headings[index] ?? group.name, group.width * view.scale),
    x: Math.max(0, group.x * view.scale + view.x),
    y: (group.y + HEADING) * view.scale + view.y - 6,
  };
}

/** Where the headings are, in screen coordinates: left, top, width, height. */
export function headingBoxes(context: CanvasRenderingContext2D, scene: Scene): readonly (readonly [number, number, number, number])[] {
  if (scene.layout.groups.length < 2) return [];
  context.font = headingFont(scene);
  return scene.layout.groups.map((_, index) => {
    const { text, x, y } = headingAt(context, scene, index);
    return [x - 2, y - 12, context.measureText(text).width + 4, 16];
  });
}

/** A cell without text: the bar is the cell. Where a bar would be a few pixels, the color alone tells the load. */
function paintSmallCell(
  context: CanvasRenderingContext2D,
  { palette }: Scene,
  node: GridNode,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  if (height >= TINY || !node.ready || node.load === null) paintBar(context, palette, node, x, y, width, height);
  else paintTinyCell(context, palette, node, node.load, x, y, width, height);
  if (node.warned && height >= 8) {
    context.fillStyle = palette.danger;
    context.beginPath();
    context.moveTo(x + width, y);
    context.lineTo(x + width, y + height * 0.45);
    context.lineTo(x + width - height * 0.45, y);
    context.fill();
  }
}

/** The ghost of a tiny cell is a triangle: up where the plan adds load, down where it takes load away. */
function paintTinyCell(
  context: CanvasRenderingContext2D,
  palette: Palette,
  node: GridNode,
  load: number,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  context.fillStyle = loadColor(load, palette.theme);
  context.fillRect(x, y, width, height);
  if (node.after === null || Math.abs(node.after - load) < 0.5) return;
  // In the smallest cells it is as large as the cell, and only its edge makes it visible on a high load.
  const inset = height < 9 ? 0 : 1;
  const [base, tip] = node.after > load ? [y + height - inset, y + inset] : [y + inset, y + height - inset];
  context.fillStyle = palette.accent;
  context.beginPath();
  context.moveTo(x + inset, base);
  context.lineTo(x + width - inset, base);
  context.lineTo(x + width / 2, tip);
  context.closePath();
  context.strokeStyle = palette.surface;
  context.lineWidth = inset ? 1 : 1.5;
  context.stroke();
  context.fill();
}

function paintBar(
  context: CanvasRenderingContext2D,
  palette: Palette,
  node: GridNode,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  context.fillStyle = palette.track;
  context.fillRect(x, y, width, height);
  if (!node.ready || node.load === null) {
    paintHatching(context, node.ready ? palette.line : palette.danger, x, y, width, height);
    return;
  }
  const level = Math.min(1, node.load / 100) * height;
  context.fillStyle = loadColor(node.load, palette.theme);
  context.fillRect(x, y + height - level, width, level);
  if (!node.schedulable) {
    context.strokeStyle = palette.muted;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  }
  if (node.after !== null && Math.abs(node.after - node.load) >= 0.5) {
    paintGhost(context, palette, y + height - level, y + height - Math.min(1, node.after / 100) * height, x, width);
  }
}

/** The ghost: a line where the load will be, and a stem from where it is. */
function paintGhost(context: CanvasRenderingContext2D, palette: Palette, now: number, then: number, x: number, width: number): void {
  const thickness = width >= 9 ? 2 : 1.5;
  const stem = width >= 26 ? 2 : width >= 6 ? 1 : 0;
  const left = x + Math.round((width - stem) / 2);
  const [top, length] = [Math.min(now, then), Math.abs(now - then)];
  // Where there is room, line and stem have an edge: the accent alone is hard to see on the color of a high load.
  context.fillStyle = palette.surface;
  context.fillRect(x, then - thickness / 2 - 1, width, thickness + 2);
  if (stem > 1) context.fillRect(left - 1, top, stem + 2, length);
  context.fillStyle = palette.accent;
  context.fillRect(x, then - thickness / 2, width, thickness);
  context.fillRect(left, top, stem, length);
}

function paintHatching(context: CanvasRenderingContext2D, color: string, x: number, y: number, width: number, height: number): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.beginPath();
  for (let offset = -height; offset < width; offset += 4) {
    context.moveTo(x + offset, y + height);
    context.lineTo(x + offset + height, y);
  }
  context.stroke();
  context.restore();
}

/** A cell with the node's name, load and pods beside its bar. */
function paintLargeCell(
  context: CanvasRenderingContext2D,
  scene: Scene,
  node: GridNode,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  const { palette } = scene;
  const bar = barWidth(height);
  context.fillStyle = palette.surface;
  context.fillRect(x, y, width, height);
  paintBar(context, palette, node, x, y, bar, height);
  context.strokeStyle = node.warned ? palette.danger : palette.line;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  const left = x + bar + 8;
  const room = x + width - 6 - left;
  const oneLine = width >= ONE_LINE;
  context.textBaseline = "top";
  context.font = `12px ${palette.font}`;
  const figures = loadText(context, node, oneLine ? room - 80 : room);
  const figuresWidth = oneLine ? context.measureText(figures).width + 8 : 0;
  context.fillStyle = palette.text;
  context.font = `500 12px ${palette.font}`;
  context.fillText(shortened(context, printable(node.name), room - figuresWidth), left, y + 7);
  context.fillStyle = palette.muted;
  context.font = `12px ${palette.font}`;
  context.textAlign = oneLine ? "right" : "left";
  context.fillText(figures, oneLine ? x + width - 6 : left, y + (oneLine ? 7 : 22));
  context.textAlign = "left";
  paintPods(context, scene, node, podArea(x, y, width, height));
}

/** The load now and after the plan, with the node's note: as much as there is room for. */
function loadText(context: CanvasRenderingContext2D, node: GridNode, room: number): string {
  const fits = (text: string) => context.measureText(text).width <= room;
  if (node.load === null || !node.ready) return fits(node.note) ? node.note : "";
  const now = `${Math.round(node.load)}%`;
  const both = node.after === null || Math.abs(node.after - node.load) < 0.5 ? now : `${now} → ${Math.round(node.after)}%`;
  const noted = node.note ? `${both}  ${node.note}` : both;
  return fits(noted) ? noted : fits(both) ? both : now;
}

/** How the pods of a cell are arranged: squares in rows, and whether each row is one pod with its name. */
export interface PodArrangement {
  readonly side: number;
  readonly columns: number;
  readonly step: number;
  readonly named: boolean;
  /** Of the names, in pixels. */
  readonly fontSize: number;
}

/** Heights of rows with names, the best first, and the size of the names in them. */
const NAMED_ROWS = [
  [18, 12],
  [15, 11],
] as const;
const LARGEST_SQUARE = 13;

const mostPods = new WeakMap<readonly GridNode[], number>();

/** The arrangement in all cells: the size of a square means nothing, so it is the same in all. Null where there is no room. */
export function podArrangement({ nodes, layout, view }: Scene): PodArrangement | null {
  let most = mostPods.get(nodes);
  if (most === undefined) mostPods.set(nodes, (most = nodes.reduce((found, node) => Math.max(found, podsHere(node) + node.arriving.length), 0)));
  const [, , width, height] = podArea(0, 0, layout.cellWidth * view.scale, layout.cellHeight * view.scale);
  return arrangePods(most, width, height);
}

export function arrangePods(count: number, width: number, height: number): PodArrangement | null {
  // With less room, pods would be specks.
  if (count === 0 || width < 8 || height < 14) return null;
  const row = NAMED_ROWS.find(([step]) => count * step <= height);
  if (row && width >= 110) return { side: row[1] - 2, columns: 1, step: row[0], named: true, fontSize: row[1] };
  for (let side = LARGEST_SQUARE; side >= 3; side--) {
    const columns = Math.floor((width + 2) / (side + 2));
    if (columns > 0 && Math.ceil(count / columns) * (side + 2) - 2 <= height) return { side, columns, step: side + 2, named: false, fontSize: 11 };
  }
  return null;
}

/** Where the pods of a large cell are, in screen coordinates: left, top, width, height. */
export function podArea(x: number, y: number, width: number, height: number): readonly [number, number, number, number] {
  const left = x + barWidth(height) + 8;
  const top = y + (width >= ONE_LINE ? 27 : height >= 80 ? 42 : 40);
  return [left, top, x + width - 6 - left, y + height - 4 - top];
}

function paintPods(
  context: CanvasRenderingContext2D,
  scene: Scene,
  node: GridNode,
  [x, y, width]: readonly [number, number, number, number],
): void {
  const { palette } = scene;
  const count = podsHere(node);
  const arrangement = podArrangement(scene);
  if (!arrangement) return;
  const { side, columns, step, named, fontSize } = arrangement;
  context.font = `${fontSize}px ${palette.font}`;
  context.lineWidth = 1;
  for (let index = 0; index < count + node.arriving.length; index++) {
    const pod = index < count ? node.pods?.[index] : undefined;
    const comes = index >= count || pod?.comes === true;
    const left = x + (index % columns) * step;
    const top = y + Math.floor(index / columns) * step;
    const moving = comes || (pod ? pod.moving : index >= count - node.leaving);
    context.fillStyle = context.strokeStyle = moving ? palette.accent : palette.line;
    if (comes) context.strokeRect(left + 0.5, top + 0.5, side - 1, side - 1);
    else context.fillRect(left, top, side, side);
    const key = index >= count ? node.arriving[index - count] : pod?.key;
    if (!named || key === undefined) continue;
    context.fillStyle = moving ? palette.accent : palette.muted;
    context.fillText(shortened(context, printable(key.split("/")[1] ?? key), width - side - 6), left + side + 6, top - 1 + (side + 2 - fontSize) / 2);
  }
}

export function podsHere(node: GridNode): number {
  return node.pods?.length ?? node.podCount;
}

/** The pod at a point of a large cell; null if there is none. */
export function podAt(scene: Scene, index: number, x: number, y: number): string | null {
  const node = scene.nodes[index];
  const cell = cellBox(scene, index);
  if (!node?.pods || cell[3] < 60) return null;
  const [left, top] = podArea(...cell);
  const arrangement = podArrangement(scene);
  if (!arrangement) return null;
  const column = arrangement.named ? 0 : Math.floor((x - left) / arrangement.step);
  const row = Math.floor((y - top) / arrangement.step);
  if (x < left || column < 0 || row < 0 || column >= arrangement.columns) return null;
  return node.pods[row * arrangement.columns + column]?.key ?? null;
}

/** Left, top, width and height of a cell, in screen coordinates. */
export function cellBox({ layout, view }: Scene, index: number): readonly [number, number, number, number] {
  return [
    layout.positions[index * 2]! * view.scale + view.x,
    layout.positions[index * 2 + 1]! * view.scale + view.y,
    layout.cellWidth * view.scale,
    layout.cellHeight * view.scale,
  ];
}

const shortNames = new Map<string, string>();

/** Names of nodes differ at the end, so the beginning goes first. */
export function shortened(context: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${context.font}/${Math.round(width)}/${text}`;
  let short = shortNames.get(key);
  if (short === undefined) {
    if (shortNames.size > 20000) shortNames.clear();
    short = text;
    for (let keep = text.length; keep > 2 && context.measureText(short).width > width; keep--) {
      const head = width < 90 ? 0 : Math.floor(keep / 3);
      short = `${text.slice(0, head)}…${text.slice(text.length - (keep - head))}`;
    }
    shortNames.set(key, short);
  }
  return short;
}

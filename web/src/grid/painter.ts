/** Draws the node grid. Two canvases: cells change with the data, the overlay with the pointer and with moving pods. */

import { loadColor, type Theme } from "../lib/load-scale";
import { HEADING, type GridLayout } from "./layout";
import type { Viewport } from "./viewport";

export interface GridPod {
  readonly key: string;
  /** Share of the node's allocatable, in percent; the square's size doesn't depend on it. */
  readonly moving: boolean;
}

export interface GridNode {
  readonly name: string;
  /** Load in percent of allocatable; null where the resource doesn't exist on the node. */
  readonly load: number | null;
  /** The plan's ghost: the load after the shown wave. */
  readonly after: number | null;
  readonly podCount: number;
  readonly pods: readonly GridPod[] | null;
  readonly ready: boolean;
  readonly schedulable: boolean;
  readonly warned: boolean;
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

export interface Flight {
  readonly from: number;
  readonly to: number;
  /** 0 at the source node, 1 at the target node. */
  readonly progress: number;
}

const LARGE = 44;

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

function paintHeadings(context: CanvasRenderingContext2D, { layout, view, headings, palette }: Scene): void {
  context.font = `600 12px ${palette.font}`;
  context.textBaseline = "alphabetic";
  context.fillStyle = palette.muted;
  layout.groups.forEach((group, index) => {
    const x = Math.max(0, group.x * view.scale + view.x);
    const y = (group.y + HEADING) * view.scale + view.y;
    context.fillText(shortened(context, headings[index] ?? group.name, group.width * view.scale), x, y - 6);
  });
}

/** A cell without text: the bar is the cell. */
function paintSmallCell(
  context: CanvasRenderingContext2D,
  { palette }: Scene,
  node: GridNode,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  paintBar(context, palette, node, x, y, width, height);
  if (node.warned && height >= 8) {
    context.fillStyle = palette.danger;
    context.beginPath();
    context.moveTo(x + width, y);
    context.lineTo(x + width, y + height * 0.45);
    context.lineTo(x + width - height * 0.45, y);
    context.fill();
  }
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
  context.fillStyle = palette.accent;
  const thickness = width >= 9 ? 2 : 1.5;
  context.fillRect(x - 1, then - thickness / 2, width + 2, thickness);
  if (width >= 6) context.fillRect(x + width / 2 - 0.5, Math.min(now, then), 1, Math.abs(now - then));
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
  { palette }: Scene,
  node: GridNode,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  const bar = barWidth(height);
  context.fillStyle = palette.surface;
  context.fillRect(x, y, width, height);
  paintBar(context, palette, node, x, y, bar, height);
  context.strokeStyle = node.warned ? palette.danger : palette.line;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  const size = height >= 70 ? 12 : 11;
  const left = x + bar + 8;
  const room = width - bar - 14;
  const figures = node.load === null || !node.ready ? "" : loadText(node);
  context.textBaseline = "top";
  context.font = `${size}px ${palette.font}`;
  const figuresWidth = context.measureText(figures).width;
  const oneLine = room - figuresWidth > 76;
  context.fillStyle = palette.text;
  context.fillText(shortened(context, node.name, oneLine ? room - figuresWidth - 8 : room), left, y + 7);
  context.fillStyle = palette.muted;
  if (oneLine) {
    context.textAlign = "right";
    context.fillText(figures, x + width - 6, y + 7);
    context.textAlign = "left";
  } else if (height >= 44) {
    context.fillText(figures, left, y + 7 + size + 3);
  }
  const top = y + 7 + size + (oneLine ? 8 : size + 9);
  paintPods(context, palette, node, left, top, room, y + height - 6 - top);
}

function loadText(node: GridNode): string {
  const now = `${Math.round(node.load ?? 0)}%`;
  const changes = node.after !== null && Math.abs(node.after - (node.load ?? 0)) >= 0.5;
  return changes ? `${now} → ${Math.round(node.after ?? 0)}%` : now;
}

/** How the pods of a cell are arranged: the side of a square, and squares in a row. Null where there is no room. */
export function podSquares(count: number, width: number, height: number): { side: number; columns: number } | null {
  if (count === 0 || width < 8 || height < 5) return null;
  for (let side = 12; side >= 3; side--) {
    const columns = Math.floor((width + 2) / (side + 2));
    if (columns > 0 && Math.ceil(count / columns) * (side + 2) - 2 <= height) return { side, columns };
  }
  return null;
}

/** Where the pods of a large cell are, in screen coordinates; the same arithmetic as in the painting. */
export function podArea(x: number, y: number, width: number, height: number): readonly [number, number, number, number] {
  const bar = barWidth(height);
  const size = height >= 70 ? 12 : 11;
  const top = y + 7 + size + 8;
  return [x + bar + 8, top, width - bar - 14, y + height - 6 - top];
}

function paintPods(
  context: CanvasRenderingContext2D,
  palette: Palette,
  node: GridNode,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  const count = node.pods?.length ?? node.podCount;
  const squares = podSquares(count, width, height);
  if (!squares) return;
  const step = squares.side + 2;
  context.fillStyle = palette.line;
  for (let index = 0; index < count; index++) {
    const moving = node.pods?.[index]?.moving ?? false;
    context.fillStyle = moving ? palette.accent : palette.line;
    context.fillRect(x + (index % squares.columns) * step, y + Math.floor(index / squares.columns) * step, squares.side, squares.side);
  }
}

const shortNames = new Map<string, string>();

/** Names of nodes often differ at the end, so the middle is left out. */
function shortened(context: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${context.font}/${Math.round(width)}/${text}`;
  let short = shortNames.get(key);
  if (short === undefined) {
    if (shortNames.size > 20000) shortNames.clear();
    short = text;
    for (let keep = text.length; keep > 2 && context.measureText(short).width > width; keep--) {
      short = `${text.slice(0, Math.ceil(keep / 2))}…${text.slice(text.length - Math.floor(keep / 2))}`;
    }
    shortNames.set(key, short);
  }
  return short;
}

export interface OverlayState {
  readonly hovered: number;
  readonly selected: number;
  readonly focused: number;
  readonly flights: readonly Flight[];
  readonly drag: { readonly x: number; readonly y: number; readonly target: number } | null;
}

export function paintOverlay(context: CanvasRenderingContext2D, scene: Scene, overlay: OverlayState): void {
  const { layout, view, palette } = scene;
  context.clearRect(0, 0, scene.width, scene.height);
  const outline = (index: number, color: string, thickness: number) => {
    if (index < 0 || index * 2 >= layout.positions.length) return;
    const x = layout.positions[index * 2]! * view.scale + view.x;
    const y = layout.positions[index * 2 + 1]! * view.scale + view.y;
    context.strokeStyle = color;
    context.lineWidth = thickness;
    context.strokeRect(x - 1.5, y - 1.5, layout.cellWidth * view.scale + 3, layout.cellHeight * view.scale + 3);
  };
  outline(overlay.hovered, palette.text, 1.5);
  outline(overlay.selected, palette.accent, 2);
  outline(overlay.focused, palette.accent, 2);
  for (const flight of overlay.flights) paintFlight(context, scene, flight);
  if (overlay.drag) {
    outline(overlay.drag.target, palette.accent, 2);
    context.fillStyle = palette.accent;
    context.fillRect(overlay.drag.x - 6, overlay.drag.y - 6, 12, 12);
  }
}

/** A pod on its way: a square on a shallow arc, with a line to where it goes. */
function paintFlight(context: CanvasRenderingContext2D, { layout, view, palette }: Scene, flight: Flight): void {
  const center = (index: number): readonly [number, number] => [
    (layout.positions[index * 2]! + layout.cellWidth / 2) * view.scale + view.x,
    (layout.positions[index * 2 + 1]! + layout.cellHeight / 2) * view.scale + view.y,
  ];
  const [fromX, fromY] = center(flight.from);
  const [toX, toY] = center(flight.to);
  const middleX = (fromX + toX) / 2;
  const middleY = (fromY + toY) / 2 - Math.min(60, Math.hypot(toX - fromX, toY - fromY) * 0.2);
  const t = flight.progress < 0.5 ? 2 * flight.progress ** 2 : 1 - (2 - 2 * flight.progress) ** 2 / 2;
  const x = (1 - t) ** 2 * fromX + 2 * (1 - t) * t * middleX + t ** 2 * toX;
  const y = (1 - t) ** 2 * fromY + 2 * (1 - t) * t * middleY + t ** 2 * toY;
  context.strokeStyle = palette.accent;
  context.globalAlpha = 0.45;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(fromX, fromY);
  context.quadraticCurveTo(middleX, middleY, toX, toY);
  context.stroke();
  context.globalAlpha = 1;
  const side = Math.max(6, Math.min(12, layout.cellHeight * view.scale * 0.5));
  context.fillStyle = palette.accent;
  context.fillRect(x - side / 2, y - side / 2, side, side);
}

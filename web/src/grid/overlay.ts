/** Draws what lies above the cells of the node grid: marks of the pointer, moves that run, and pods on their way. */

import { printable } from "../lib/format";
import { arcOf, pointAt, type Point, type RouteEnd, routeOf } from "./move-routes";
import { cellBox, headingBoxes, LARGE, podArea, podArrangement, podsHere, type Scene, shortened } from "./painter";

/** A pod between two cells. */
export interface Link {
  readonly from: number;
  readonly to: number;
  readonly pod: string;
  /** The pod that takes its place, if there is one already. */
  readonly newPod: string | null;
}

export interface Flight extends Link {
  /** 0 at the source node, 1 at the target node. */
  readonly progress: number;
}

export interface OverlayState {
  readonly hovered: number;
  readonly selected: number;
  readonly focused: number;
  readonly flights: readonly Flight[];
  /** Moves that run now. */
  readonly links: readonly Link[];
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
    // Around small cells, inside of large ones: at the edge, the outside of a cell is cut off.
    const offset = layout.cellHeight * view.scale < 20 ? 1.5 : -1;
    context.strokeRect(
      x - offset,
      y - offset,
      layout.cellWidth * view.scale + 2 * offset,
      layout.cellHeight * view.scale + 2 * offset,
    );
  };
  outline(overlay.hovered, palette.text, 1.5);
  outline(overlay.selected, palette.accent, 2);
  outline(overlay.focused, palette.accent, 2);
  if (overlay.links.length || overlay.flights.length) {
    const free = freeArea(context, scene);
    overlay.links.forEach((link, index) => paintLink(context, scene, free, link, index));
    overlay.flights.forEach((flight, index) => paintFlight(context, scene, free, flight, index));
  }
  if (overlay.drag) {
    outline(overlay.drag.target, palette.accent, 2);
    context.fillStyle = palette.accent;
    context.fillRect(overlay.drag.x - 6, overlay.drag.y - 6, 12, 12);
  }
}

interface MovePath {
  readonly points: readonly Point[];
  /** The middle of the square at the target. */
  readonly square: Point;
}

const LANES = [0, -0.25, 0.25, -0.12, 0.12];

function hasNames({ layout, view }: Scene): boolean {
  return layout.cellHeight * view.scale >= LARGE;
}

/** From a pod to its place in another cell; between the middles of the cells where pods have no squares. */
function pathOf(context: CanvasRenderingContext2D, scene: Scene, { from, to, pod, newPod }: Link, index: number): MovePath {
  const middle = (cell: number): Point => {
    const [left, top, width, height] = cellBox(scene, cell);
    return [left + width / 2, top + height / 2];
  };
  if (!hasNames(scene)) return { points: arcOf(middle(from), middle(to)), square: middle(to) };
  const source = endOf(context, scene, from, pod, squareOf(scene, from, pod, false));
  const target = squareOf(scene, to, newPod, false) ?? squareOf(scene, to, pod, true);
  const gap = scene.layout.gap * scene.view.scale;
  const points = routeOf(source, endOf(context, scene, to, newPod ?? pod, target), gap, Math.min(16, gap) * LANES[index % LANES.length]!);
  return { points, square: target ?? points.at(-1)! };
}

function endOf(context: CanvasRenderingContext2D, scene: Scene, index: number, pod: string, square: Point | null): RouteEnd {
  return { cell: cellBox(scene, index), square, half: 5, behindName: square ? besideName(context, scene, index, square, pod) : null };
}

function strokePath(context: CanvasRenderingContext2D, points: readonly Point[]): void {
  context.beginPath();
  points.forEach((point, index) => {
    const next = points[index + 1];
    if (index === 0) context.moveTo(...point);
    else if (!next) context.lineTo(...point);
    else {
      const before = points[index - 1]!;
      const shorter = Math.min(Math.hypot(point[0] - before[0], point[1] - before[1]), Math.hypot(next[0] - point[0], next[1] - point[1]));
      context.arcTo(...point, ...next, Math.min(6, shorter / 2));
    }
  });
  context.stroke();
}

/** Where lines may be: not on headings, and not on cells with names. It is meant for the rule `evenodd`. */
function freeArea(context: CanvasRenderingContext2D, scene: Scene): Path2D {
  const free = new Path2D();
  free.rect(0, 0, scene.width, scene.height);
  for (const box of headingBoxes(context, scene)) free.rect(...box);
  if (!hasNames(scene)) return free;
  for (let index = 0; index < scene.nodes.length; index++) {
    const [left, top, width, height] = cellBox(scene, index);
    if (left < scene.width && top < scene.height && left + width > 0 && top + height > 0) free.rect(left, top, width, height);
  }
  return free;
}

/** Paint a line that passes behind all cells but its own. */
function behindNames(context: CanvasRenderingContext2D, scene: Scene, free: Path2D, { from, to }: Link, paint: () => void): void {
  const area = new Path2D(free);
  if (hasNames(scene)) for (const index of [from, to]) area.rect(...cellBox(scene, index));
  context.save();
  context.clip(area, "evenodd");
  paint();
  context.restore();
}

/** A move that runs: a dashed line that ends in an arrow, with a square at its target. */
function paintLink(context: CanvasRenderingContext2D, scene: Scene, free: Path2D, link: Link, index: number): void {
  const { points, square } = pathOf(context, scene, link, index);
  context.strokeStyle = context.fillStyle = scene.palette.accent;
  behindNames(context, scene, free, link, () => {
    context.lineWidth = 1.5;
    context.setLineDash([5, 4]);
    strokePath(context, points);
    context.setLineDash([]);
    if (hasNames(scene)) paintArrow(context, points);
  });
  context.lineWidth = 2;
  context.strokeRect(square[0] - 5, square[1] - 5, 10, 10);
}

function paintArrow(context: CanvasRenderingContext2D, points: readonly Point[]): void {
  const [before, end] = [points.at(-2), points.at(-1)];
  if (!before || !end) return;
  const angle = Math.atan2(end[1] - before[1], end[0] - before[0]);
  context.beginPath();
  context.moveTo(...end);
  for (const side of [-1, 1]) context.lineTo(end[0] - 7 * Math.cos(angle + side * 0.45), end[1] - 7 * Math.sin(angle + side * 0.45));
  context.fill();
}

/** A pod on its way: a square on the line, slow at both ends. */
function paintFlight(context: CanvasRenderingContext2D, scene: Scene, free: Path2D, flight: Flight, index: number): void {
  const { points } = pathOf(context, scene, flight, index);
  context.strokeStyle = scene.palette.accent;
  context.globalAlpha = 0.45;
  context.lineWidth = 1;
  behindNames(context, scene, free, flight, () => strokePath(context, points));
  context.globalAlpha = 1;
  const share = flight.progress < 0.5 ? 2 * flight.progress ** 2 : 1 - (2 - 2 * flight.progress) ** 2 / 2;
  const [x, y] = pointAt(points, share);
  const side = Math.max(6, Math.min(12, scene.layout.cellHeight * scene.view.scale * 0.5));
  context.fillStyle = scene.palette.accent;
  context.fillRect(x - side / 2, y - side / 2, side, side);
}

/** The middle of the square of a pod that is in a cell or comes to it; null where pods have no squares of their own. */
function squareOf(scene: Scene, index: number, key: string | null, comes: boolean): Point | null {
  const node = scene.nodes[index];
  const cell = cellBox(scene, index);
  if (!node || key === null || cell[3] < LARGE) return null;
  const here = comes ? node.arriving.indexOf(key) : (node.pods?.findIndex((pod) => pod.key === key) ?? -1);
  const [left, top] = podArea(...cell);
  const arrangement = podArrangement(scene);
  if (!arrangement || here < 0) return null;
  const place = comes ? podsHere(node) + here : here;
  const { side, columns, step } = arrangement;
  return [left + (place % columns) * step + side / 2, top + Math.floor(place / columns) * step + side / 2];
}

/** The right of the name of a pod, where pods are named; else null. */
function besideName(context: CanvasRenderingContext2D, scene: Scene, index: number, square: Point, key: string): number | null {
  const [, , width] = podArea(...cellBox(scene, index));
  const arrangement = podArrangement(scene);
  if (!arrangement?.named) return null;
  context.font = `${arrangement.fontSize}px ${scene.palette.font}`;
  const name = shortened(context, printable(key.split("/")[1] ?? key), width - arrangement.side - 6);
  return square[0] + arrangement.side / 2 + 10 + context.measureText(name).width;
}

/** Draws what lies above the cells of the node grid: marks of the pointer, moves that run, and pods on their way. */

import { printable } from "../lib/format";
import { arrangePods, cellBox, LARGE, podArea, type Scene, shortened } from "./painter";

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
  for (const link of overlay.links) paintLink(context, scene, link);
  for (const flight of overlay.flights) paintFlight(context, scene, flight);
  if (overlay.drag) {
    outline(overlay.drag.target, palette.accent, 2);
    context.fillStyle = palette.accent;
    context.fillRect(overlay.drag.x - 6, overlay.drag.y - 6, 12, 12);
  }
}

interface Curve {
  readonly from: readonly [number, number];
  readonly middle: readonly [number, number];
  readonly to: readonly [number, number];
  /** The middle of the square at the target. */
  readonly square: readonly [number, number];
}

/** A shallow arc from a pod to its place in another cell; between the middles of the cells where pods have no squares. */
function curveOf(context: CanvasRenderingContext2D, scene: Scene, { from, to, pod, newPod }: Link): Curve {
  const middle = (index: number): readonly [number, number] => {
    const [left, top, width, height] = cellBox(scene, index);
    return [left + width / 2, top + height / 2];
  };
  const source = squareOf(scene, from, pod, false);
  const target = squareOf(scene, to, newPod, false) ?? squareOf(scene, to, pod, true);
  const right = Math.sign(cellBox(scene, to)[0] - cellBox(scene, from)[0]);
  // It begins and ends behind the names of pods, unless it comes from the other side: so names stay readable.
  const start = source && right >= 0 ? besideName(context, scene, from, source, pod) : (source ?? middle(from));
  const end = target && right <= 0 ? besideName(context, scene, to, target, newPod ?? pod) : (target ?? middle(to));
  const halfway = [(start[0] + end[0]) / 2, (start[1] + end[1]) / 2] as const;
  const lift = Math.min(60, Math.hypot(end[0] - start[0], end[1] - start[1]) * 0.2);
  // Within a column, the arc keeps to the right edge of the cells, past the names of other pods.
  const [left, , width] = cellBox(scene, from);
  const isWithinColumn = right === 0 && source !== null && target !== null;
  const bend = isWithinColumn ? [2 * (left + width - 12) - halfway[0], halfway[1]] as const : [halfway[0], halfway[1] - lift] as const;
  return { from: start, middle: bend, to: end, square: target ?? end };
}

function strokeCurve(context: CanvasRenderingContext2D, curve: Curve): void {
  context.beginPath();
  context.moveTo(...curve.from);
  context.quadraticCurveTo(...curve.middle, ...curve.to);
  context.stroke();
}

/** A move that runs: a dashed line with a square at its target. */
function paintLink(context: CanvasRenderingContext2D, scene: Scene, link: Link): void {
  const curve = curveOf(context, scene, link);
  context.strokeStyle = scene.palette.accent;
  context.lineWidth = 1.5;
  context.setLineDash([5, 4]);
  strokeCurve(context, curve);
  context.setLineDash([]);
  context.lineWidth = 2;
  context.strokeRect(curve.square[0] - 5, curve.square[1] - 5, 10, 10);
}

/** A pod on its way: a square on the arc, slow at both ends. */
function paintFlight(context: CanvasRenderingContext2D, scene: Scene, flight: Flight): void {
  const curve = curveOf(context, scene, flight);
  context.strokeStyle = scene.palette.accent;
  context.globalAlpha = 0.45;
  context.lineWidth = 1;
  strokeCurve(context, curve);
  context.globalAlpha = 1;
  const t = flight.progress < 0.5 ? 2 * flight.progress ** 2 : 1 - (2 - 2 * flight.progress) ** 2 / 2;
  const at = (axis: 0 | 1) => (1 - t) ** 2 * curve.from[axis] + 2 * (1 - t) * t * curve.middle[axis] + t ** 2 * curve.to[axis];
  const side = Math.max(6, Math.min(12, scene.layout.cellHeight * scene.view.scale * 0.5));
  context.fillStyle = scene.palette.accent;
  context.fillRect(at(0) - side / 2, at(1) - side / 2, side, side);
}

/** The middle of the square of a pod that is in a cell or comes to it; null where pods have no squares of their own. */
function squareOf(scene: Scene, index: number, key: string | null, comes: boolean): readonly [number, number] | null {
  const node = scene.nodes[index];
  const cell = cellBox(scene, index);
  if (!node?.pods || key === null || cell[3] < LARGE) return null;
  const here = comes ? node.arriving.indexOf(key) : node.pods.findIndex((pod) => pod.key === key);
  const [left, top, width, height] = podArea(...cell);
  const arrangement = arrangePods(node.pods.length + node.arriving.length, width, height);
  if (!arrangement || here < 0) return null;
  const place = comes ? node.pods.length + here : here;
  const { side, columns, step } = arrangement;
  return [left + (place % columns) * step + side / 2, top + Math.floor(place / columns) * step + side / 2];
}

/** A point behind the name of a pod, where pods are named; else the middle of its square. */
function besideName(
  context: CanvasRenderingContext2D,
  scene: Scene,
  index: number,
  square: readonly [number, number],
  key: string,
): readonly [number, number] {
  const { pods, arriving } = scene.nodes[index]!;
  const [, , width, height] = podArea(...cellBox(scene, index));
  const arrangement = arrangePods((pods?.length ?? 0) + arriving.length, width, height);
  if (!arrangement?.named) return square;
  context.font = `11px ${scene.palette.font}`;
  const name = shortened(context, printable(key.split("/")[1] ?? key), width - arrangement.side - 6);
  return [square[0] + arrangement.side / 2 + 10 + context.measureText(name).width, square[1]];
}

/**
 * Where the line of a move runs: from a pod to its new place, through the gaps between cells, so that it crosses no name.
 *
 * Pure: boxes and points go in, a path comes out.
 */

export type Point = readonly [number, number];

/** Left, top, width, height. */
export type Box = readonly [number, number, number, number];

/** One end of a move. */
export interface RouteEnd {
  readonly cell: Box;
  /** The middle of the pod's square; null where it has none. */
  readonly square: Point | null;
  /** Half of the square's side. */
  readonly half: number;
  /** Right of the pod's name; null where pods have no names. */
  readonly behindName: number | null;
}

/** The corners of the line. `gap` is between cells, and `lane` shifts the line within it, so that several can be told apart. */
export function routeOf(from: RouteEnd, to: RouteEnd, gap: number, lane: number): readonly Point[] {
  const goesRight = to.cell[0] > from.cell[0];
  const sourceX = rightOf(from.cell, gap) + lane;
  const targetX = (goesRight ? to.cell[0] - gap / 2 : rightOf(to.cell, gap)) + lane;
  const goesUp = to.cell[1] < from.cell[1];
  const between = belowOf(goesUp ? to.cell : from.cell, gap) + lane;
  const leave = leaving(from, gap, sourceX, lane);
  const arrive = arriving(to, gap, targetX, lane, goesRight);
  const turn: readonly Point[] =
    Math.abs(sourceX - targetX) < 1
      ? []
      : [
          [sourceX, between],
          [targetX, between],
        ];
  return withoutRepeats([...leave, ...turn, ...arrive]);
}

function rightOf([left, , width]: Box, gap: number): number {
  return left + width + gap / 2;
}

function belowOf([, top, , height]: Box, gap: number): number {
  return top + height + gap / 2;
}

/** A pod with a name is left behind the name; one without goes down to the gap below its cell. */
function leaving({ cell, square, half, behindName }: RouteEnd, gap: number, x: number, lane: number): readonly Point[] {
  const middle = cell[1] + cell[3] / 2;
  if (!square) return [[cell[0] + cell[2], middle], [x, middle]];
  if (behindName !== null) return [[behindName, square[1]], [x, square[1]]];
  const below = belowOf(cell, gap) + lane;
  return [[square[0], square[1] + half], [square[0], below], [x, below]];
}

function arriving(end: RouteEnd, gap: number, x: number, lane: number, fromLeft: boolean): readonly Point[] {
  const { cell, square, half, behindName } = end;
  if (square && fromLeft && behindName !== null) return [[x, square[1]], [square[0] - half - 3, square[1]]];
  if (!square && fromLeft) {
    const middle = cell[1] + cell[3] / 2;
    return [[x, middle], [cell[0], middle]];
  }
  const points = leaving({ ...end, half: half + 3 }, gap, x, lane);
  return points.slice().reverse();
}

function withoutRepeats(points: readonly Point[]): readonly Point[] {
  return points.filter(([x, y], index) => index === 0 || Math.hypot(x - points[index - 1]![0], y - points[index - 1]![1]) > 0.5);
}

/** A shallow arc between two points, for cells that are too small for gaps. */
export function arcOf(from: Point, to: Point): readonly Point[] {
  const lift = Math.min(60, Math.hypot(to[0] - from[0], to[1] - from[1]) * 0.2);
  const middle: Point = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2 - lift];
  return Array.from({ length: 17 }, (_, step) => {
    const t = step / 16;
    const at = (axis: 0 | 1) => (1 - t) ** 2 * from[axis] + 2 * (1 - t) * t * middle[axis] + t ** 2 * to[axis];
    return [at(0), at(1)] as const;
  });
}

/** The point of a path after a share of its length. */
export function pointAt(path: readonly Point[], share: number): Point {
  const lengths = path.slice(1).map(([x, y], index) => Math.hypot(x - path[index]![0], y - path[index]![1]));
  let left = share * lengths.reduce((sum, length) => sum + length, 0);
  for (const [index, length] of lengths.entries()) {
    if (left <= length && length > 0) {
      const [a, b] = [path[index]!, path[index + 1]!];
      return [a[0] + ((b[0] - a[0]) * left) / length, a[1] + ((b[1] - a[1]) * left) / length];
    }
    left -= length;
  }
  return path.at(-1) ?? [0, 0];
}

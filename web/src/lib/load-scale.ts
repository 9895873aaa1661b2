/**
 * The one color scale for load: warm, so that it can't be mistaken for the blue accent, which always means
 * "what rescheduler does".
 *
 * The scale is a path through OKLab with monotone lightness, walked at constant speed: equal differences of load
 * are equal differences of perceived color, and the order survives every kind of color blindness and a printout.
 * High load contrasts most with the background, so the path runs light to dark on light and dark to light on dark.
 */

export type Theme = "light" | "dark";

type Lab = readonly [number, number, number];

/** Lightness, chroma and hue (degrees) of the points that the path passes. */
const PATHS: Record<Theme, readonly Lab[]> = {
  light: [
    [0.93, 0.018, 85],
    [0.83, 0.075, 78],
    [0.66, 0.135, 55],
    [0.5, 0.145, 38],
    [0.33, 0.1, 22],
  ],
  dark: [
    [0.4, 0.02, 60],
    [0.48, 0.065, 48],
    [0.6, 0.125, 48],
    [0.75, 0.135, 65],
    [0.93, 0.105, 95],
  ],
};

const STEPS = 256;

function polarToLab([lightness, chroma, degrees]: Lab): Lab {
  const hue = (degrees * Math.PI) / 180;
  return [lightness, chroma * Math.cos(hue), chroma * Math.sin(hue)];
}

export function labDistance(a: Lab, b: Lab): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

/** Points at equal distances along the path. */
function walk(points: readonly Lab[], steps: number): Lab[] {
  const corners = points.map(polarToLab);
  const lengths = corners.slice(1).map((corner, i) => labDistance(corner, corners[i]!));
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const result: Lab[] = [];
  for (let step = 0; step < steps; step++) {
    let rest = (total * step) / (steps - 1);
    let segment = 0;
    while (segment < lengths.length - 1 && rest > lengths[segment]!) rest -= lengths[segment++]!;
    const share = Math.min(1, rest / lengths[segment]!);
    const [from, to] = [corners[segment]!, corners[segment + 1]!];
    result.push([0, 1, 2].map((i) => from[i]! + share * (to[i]! - from[i]!)) as unknown as Lab);
  }
  return result;
}

function channel(linear: number): number {
  const clipped = Math.min(1, Math.max(0, linear));
  const encoded = clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055;
  return Math.round(encoded * 255);
}

export function labToRgb([lightness, a, b]: Lab): [number, number, number] {
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    channel(4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short),
    channel(-1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short),
    channel(-0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short),
  ];
}

export const SCALE: Record<Theme, readonly Lab[]> = {
  light: walk(PATHS.light, STEPS),
  dark: walk(PATHS.dark, STEPS),
};

const CSS: Record<Theme, readonly string[]> = {
  light: SCALE.light.map((lab) => `rgb(${labToRgb(lab).join(" ")})`),
  dark: SCALE.dark.map((lab) => `rgb(${labToRgb(lab).join(" ")})`),
};

/** The color of a load in percent. Above 100 % stays at the end of the scale. */
export function loadColor(percent: number, theme: Theme): string {
  const step = Math.round((Math.min(100, Math.max(0, percent)) / 100) * (STEPS - 1));
  return CSS[theme][Number.isFinite(step) ? step : 0]!;
}

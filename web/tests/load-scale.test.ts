import { describe, expect, test } from "vitest";
import { labDistance, labToRgb, loadColor, SCALE, type Theme } from "../src/lib/load-scale";

const THEMES: readonly Theme[] = ["light", "dark"];

/** How strongly each kind of color blindness mixes the channels (Machado 2009, severity 1), on linear light. */
const BLINDNESS = {
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
} as const;

function linear(channel: number): number {
  const value = channel / 255;
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
}

function luminance([red, green, blue]: readonly number[]): number {
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

describe.each(THEMES)("the load scale, %s", (theme) => {
  test("equal differences of load are equal differences of perceived color", () => {
    const steps = SCALE[theme].slice(1).map((color, index) => labDistance(color, SCALE[theme][index]!));
    expect(Math.max(...steps) / Math.min(...steps)).toBeLessThan(1.25);
  });

  test("more load is always darker on light, and lighter on dark", () => {
    const direction = theme === "light" ? -1 : 1;
    SCALE[theme].slice(1).forEach((color, index) => expect((color[0] - SCALE[theme][index]![0]) * direction).toBeGreaterThan(0));
  });

  test.each(Object.entries(BLINDNESS))("the order survives %s", (_name, matrix) => {
    const seen = SCALE[theme]
      .filter((_, index) => index % 16 === 0)
      .map(labToRgb)
      .map((color) => color.map(linear))
      .map(([r, g, b]) => [0, 3, 6].map((row) => matrix[row]! * r! + matrix[row + 1]! * g! + matrix[row + 2]! * b!))
      .map(luminance);
    const sorted = seen.slice().sort((a, b) => (theme === "light" ? b - a : a - b));
    expect(seen).toEqual(sorted);
  });

  test("loads outside of 0 to 100 take the color of the end", () => {
    expect(loadColor(250, theme)).toBe(loadColor(100, theme));
    expect(loadColor(-1, theme)).toBe(loadColor(0, theme));
    expect(loadColor(Number.NaN, theme)).toBe(loadColor(0, theme));
  });
});

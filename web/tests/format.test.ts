import { expect, test } from "vitest";
import { bytes, cores, count, duration, exactTime, percent, printable, relativeTime } from "../src/lib/format";

const NOW = Date.UTC(2026, 0, 1, 12);

test("quantities read as Kubernetes writes them", () => {
  expect([cores(250), cores(1500), cores(2000)]).toEqual(["250m", "1.5", "2"]);
  expect([bytes(512), bytes(1536 * 2 ** 20), bytes(64 * 2 ** 30)]).toEqual(["512", "1.5Gi", "64Gi"]);
});

test("times are relative, in both languages and directions", () => {
  expect(relativeTime(NOW - 3 * 60_000, NOW, "en")).toMatch(/3 min/);
  expect(relativeTime(NOW + 2 * 3_600_000, NOW, "en")).toMatch(/in 2/);
  expect(relativeTime(NOW - 3 * 60_000, NOW, "zh")).toMatch(/3.*分钟前/);
  expect(exactTime(NOW, "en", "UTC")).toContain("12:00:00 UTC");
});

test.each([
  [0, "0s"],
  [0.01, "0s"],
  [4.25, "4.3s"],
  [59, "59s"],
  [185, "3m 5s"],
  [7200, "2h"],
  [100_000, "1d 3h"],
  [-3, "0s"],
])("%d seconds read %s", (seconds, text) => expect(duration(seconds)).toBe(text));

test("numbers are grouped, and missing ones are a dash", () => {
  expect(count(150_000, "en")).toBe("150,000");
  expect([percent(12.4, "en"), percent(null, "en"), percent(Number.NaN, "en")]).toEqual(["12%", "–", "–"]);
});

test("names can't reorder or hide other text", () => {
  expect(printable("a\u202eb\u0007c\nd")).toBe("a\ufffdb\ufffdc\ufffdd");
  // The marks of Arabic and Mongolian, a soft hyphen, tags, and half of a surrogate pair.
  expect(printable("a\u061cb\u180ec\u00add\u{e0041}e\ud800")).toBe("a\ufffdb\ufffdc\ufffdd\ufffde\ufffd");
  expect(printable("<b>结构</b>")).toBe("<b>结构</b>");
});

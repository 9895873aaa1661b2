/** Numbers, quantities and times as text. Pure: the time and the language are arguments. */

export type Language = "en" | "zh";

export const LOCALES: Record<Language, string> = { en: "en-GB", zh: "zh-CN" };

const memo = new Map<string, Intl.NumberFormat>();

function numberFormat(language: Language, digits: number): Intl.NumberFormat {
  const key = `${language}/${digits}`;
  let format = memo.get(key);
  if (!format) {
    format = new Intl.NumberFormat(LOCALES[language], { maximumFractionDigits: digits, minimumFractionDigits: digits });
    memo.set(key, format);
  }
  return format;
}

export function count(value: number, language: Language): string {
  return numberFormat(language, 0).format(value);
}

export function decimal(value: number, digits: number, language: Language): string {
  return numberFormat(language, digits).format(value);
}

export function percent(value: number | null | undefined, language: Language, digits = 0): string {
  return value === null || value === undefined || !Number.isFinite(value)
    ? "–"
    : `${numberFormat(language, digits).format(value)}%`;
}

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"] as const;

/** Bytes as Kubernetes writes them: 1.5Gi. */
export function bytes(value: number): string {
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= 1024 && unit < BINARY.length - 1) {
    rest /= 1024;
    unit++;
  }
  return `${trimmed(rest)}${BINARY[unit]}`;
}

/** Millicores as Kubernetes writes them: 250m, 1.5. */
export function cores(millis: number): string {
  return Math.abs(millis) < 1000 ? `${Math.round(millis)}m` : trimmed(millis / 1000);
}

function trimmed(value: number): string {
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : 1;
  return value.toFixed(digits).replace(/\.0$/, "");
}

const UNITS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

/** "3 min. ago", "in 2 hr.": relative to `now`, in milliseconds. */
export function relativeTime(at: number, now: number, language: Language): string {
  const seconds = Math.round((at - now) / 1000);
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? UNITS[3]!;
  const format = new Intl.RelativeTimeFormat(LOCALES[language], { numeric: "auto", style: "short" });
  return format.format(Math.trunc(seconds / size), unit);
}

/** The exact time with its zone, for the tooltip of a relative one. */
export function exactTime(at: number, language: Language, timeZone?: string): string {
  return new Intl.DateTimeFormat(LOCALES[language], {
    dateStyle: "medium",
    timeStyle: "long",
    ...(timeZone ? { timeZone } : {}),
  }).format(at);
}

/** A length of time: 42s, 3m 5s, 2h 10m, 4d 3h. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return seconds >= 0.05 && seconds < 9.95 && !Number.isInteger(seconds) ? `${seconds.toFixed(1)}s` : `${whole}s`;
  const parts: readonly [number, string][] = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "m"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value}${unit}`)
    .join(" ");
}

/** Text from the cluster without what could reorder, hide or imitate other text: control, formatting and bidirectional characters. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu, "\ufffd");
}

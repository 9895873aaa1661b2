/** Texts of the page in the viewer's language. `{name}` in a text is replaced. */

import { language } from "../store";
import codes from "./codes.zh.json";
import { en } from "./en";
import { zh } from "./zh";

export type Text = keyof typeof en;

export const TABLES = { en, zh } as const;

export function fill(text: string, values: Readonly<Record<string, string | number>>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}

export function t(key: Text, values: Readonly<Record<string, string | number>> = {}): string {
  return fill(TABLES[language.value][key], values);
}

/** For numbers of things: `key.one` for exactly one, else `key.other`. */
export function plural(key: PluralText, n: number, values: Readonly<Record<string, string | number>> = {}): string {
  const text = TABLES[language.value][`${key}.${n === 1 ? "one" : "other"}`];
  return fill(text, { n: n.toLocaleString(language.value === "zh" ? "zh-CN" : "en-GB"), ...values });
}

type PluralText = Text extends infer Key ? (Key extends `${infer Stem}.other` ? Stem : never) : never;

/** Maps, so that no code from a file is taken for a method of an object. */
const CODES = new Map(Object.entries(codes).map(([kind, texts]) => [kind, new Map<string, readonly string[]>(Object.entries(texts))]));

/**
 * The texts for a code of the server, if the viewer's language is not English: what it means; then, for a reason, what would help, and for a halt,
 * how it ends. Empty for codes that this page doesn't know: the server's own words say it.
 */
export function translatedCode(kind: keyof typeof codes, code: string): readonly string[] {
  return (language.value === "zh" ? CODES.get(kind)?.get(code) : undefined) ?? [];
}

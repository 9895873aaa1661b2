/** Texts of the page in the viewer's language. `{name}` in a text is replaced. */

import { language } from "../store";
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

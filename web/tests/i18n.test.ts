import { describe, expect, test } from "vitest";
import { en } from "../src/i18n/en";
import { zh } from "../src/i18n/zh";

const placeholders = (text: string) => [...new Set(text.match(/\{\w+\}/g) ?? [])].sort();

describe("the tables of texts", () => {
  test("have the same keys", () => expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort()));

  test.each(Object.keys(en) as (keyof typeof en)[])("%s has the same placeholders and is not empty", (key) => {
    expect(placeholders(zh[key])).toEqual(placeholders(en[key]));
    expect(zh[key].trim()).not.toBe("");
  });

  test("Chinese is not English", () => {
    const same = (Object.keys(en) as (keyof typeof en)[]).filter((key) => en[key] === zh[key]);
    expect(same).toEqual(["column.pod"]);
  });
});

/** Writes src/api/types.gen.ts from openapi.json: one interface per schema. `--check` only compares. */

import { readFileSync, writeFileSync } from "node:fs";

const TARGET = new URL("../src/api/types.gen.ts", import.meta.url);
const { components } = JSON.parse(readFileSync(new URL("../openapi.json", import.meta.url), "utf8"));

function typeOf(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map(typeOf).join(" | ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type })).join(" | ");
  switch (schema.type) {
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "integer":
    case "number":
      return "number";
    case "array":
      return `readonly (${typeOf(schema.items ?? {})})[]`;
    case "object":
      return schema.properties ? fieldsOf(schema) : `Readonly<Record<string, ${typeOf(schema.additionalProperties || {})}>>`;
    default:
      return "unknown";
  }
}

function fieldsOf(schema, isInput = false) {
  const required = new Set(schema.required ?? []);
  const lines = Object.entries(schema.properties).map(([name, field]) => {
    // The server always sends fields that have a default; only what the page sends may leave them out.
    const optional = isInput && !required.has(name) ? "?" : "";
    const comment = field.description ? `  /** ${field.description} */\n` : "";
    return `${comment}  readonly ${JSON.stringify(name).replace(/^"(\w+)"$/, "$1")}${optional}: ${typeOf(field)};`;
  });
  return `{\n${lines.join("\n")}\n}`;
}

function declaration([name, schema]) {
  const comment = schema.description ? `/** ${schema.description.replace(/\s+/g, " ")} */\n` : "";
  const isInput = /(Action|Request|Query|PinnedPod|SimilarNodes)$/.test(name);
  return schema.type === "object" && schema.properties
    ? `${comment}export interface ${name} ${fieldsOf(schema, isInput)}\n`
    : `${comment}export type ${name} = ${typeOf(schema)};\n`;
}

const text = `// Generated from openapi.json by scripts/api-types.mjs.\n\n${Object.entries(components.schemas).map(declaration).join("\n")}`;
if (process.argv.includes("--check")) {
  if (readFileSync(TARGET, "utf8") !== text) {
    console.error("src/api/types.gen.ts is out of date: run `make web`.");
    process.exit(1);
  }
} else {
  writeFileSync(TARGET, text);
}

/** One hash of everything that the built page depends on. tools/web_page_check.py computes the same without Node. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const INPUTS = ["index.html", "openapi.json", "package-lock.json", "package.json", "public", "scripts", "src", "tsconfig.json", "vite.config.ts"];

function files(path) {
  return statSync(ROOT + path).isDirectory() ? readdirSync(ROOT + path).flatMap((name) => files(`${path}/${name}`)) : [path];
}

export function sourcesHash() {
  const hash = createHash("sha256");
  const sorted = INPUTS.flatMap(files).sort((a, b) => (a < b ? -1 : 1));
  for (const path of sorted) {
    const content = createHash("sha256").update(readFileSync(ROOT + path)).digest("hex");
    hash.update(`${content}  ${path}\n`);
  }
  return hash.digest("hex");
}

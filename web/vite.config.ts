import { defineConfig } from "vite";
import { sourcesHash } from "./scripts/sources-hash.mjs";

export default defineConfig({
  // Relative addresses: the page works below any path, and as a file.
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/rescheduler/web/static",
    emptyOutDir: true,
    target: "es2022",
    // One script and one style sheet: `plan --html` puts both into the document.
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: { output: { codeSplitting: false } },
    reportCompressedSize: false,
  },
  plugins: [
    {
      name: "sources-hash",
      generateBundle() {
        this.emitFile({ type: "asset", fileName: "sources.sha256", source: `${sourcesHash()}\n` });
      },
    },
  ],
  test: { include: ["tests/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);

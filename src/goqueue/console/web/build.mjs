// Makes ../static (or the folder that --out names) from src: one script, one style sheet, the page
// and its icon. The same sources give the same bytes, so that a test can compare.
import { cp, mkdir, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({
  options: { out: { type: "string" }, watch: { type: "boolean", default: false } },
});
const out = values.out ? resolve(values.out) : join(here, "..", "static");

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await cp(join(here, "public"), out, { recursive: true });

const options = {
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: out,
  bundle: true,
  minify: !values.watch,
  sourcemap: false,
  format: "iife",
  target: ["chrome111", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};

if (values.watch) {
  const context = await esbuild.context(options);
  await context.watch();
} else {
  await esbuild.build(options);
}

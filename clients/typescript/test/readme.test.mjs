// The snippets of a page, in their order, are one program: it is compiled against the built package
// and run against the live broker.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

import { KEY, URL_OF_SERVER } from "./support/live.mjs";

const ROOT = new URL("../", import.meta.url);
/** Each page, and what its program prints; it is asked to stop after the first of these. */
const PAGES = {
  readme: {
    page: new URL("README.md", ROOT),
    printed: ["charged every good order", "stored at offset", "consumed", "dead letters: 1", "status: ok"],
  },
};
if (process.env.GOQUEUE_TEST_PAGE) {
  PAGES.docs = { page: process.env.GOQUEUE_TEST_PAGE, printed: ["resized cat.png", "lag: 0"] };
}

function programOf(page) {
  const snippets = [...readFileSync(page, "utf8").matchAll(/^```ts\n(.*?)^```$/gms)].map((match) => match[1]);
  assert.ok(snippets.length > 0, `${page} has no snippet`);
  return snippets.join("\n").replaceAll("http://127.0.0.1:8080", URL_OF_SERVER);
}

/** Run a program; it is asked to stop once it has printed `mark`. */
function run(file, mark) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [file], { env: { ...process.env, GOQUEUE_API_KEY: KEY } });
    let output = "";
    const hear = (chunk) => {
      const before = output.includes(mark);
      output += chunk;
      if (!before && output.includes(mark)) child.kill("SIGTERM");
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("close", (code) => resolve({ code, output }));
  });
}

for (const [name, { page, printed }] of Object.entries(PAGES)) {
  test(`the snippets of the ${name} page compile and run`, async () => {
    const source = fileURLToPath(new URL(`dist/${name}-snippets.ts`, ROOT));
    writeFileSync(source, programOf(page));
    const tsc = fileURLToPath(new URL("node_modules/typescript/bin/tsc", ROOT));
    const flags = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "--skipLibCheck", "--ignoreConfig"];
    const compiled = spawnSync(process.execPath, [tsc, ...flags, source], { cwd: fileURLToPath(ROOT), encoding: "utf8" });
    assert.equal(compiled.status, 0, compiled.stdout + compiled.stderr);
    const { code, output } = await run(source.replace(/ts$/, "js"), printed[0]);
    assert.equal(code, 0, output);
    for (const expected of printed) {
      assert.ok(output.includes(expected), `${expected} is missing in:\n${output}`);
    }
  });
}

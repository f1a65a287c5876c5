// The live broker that the tests talk to, as its starter describes it in the environment.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { GoQueue } from "../../dist/index.js";

export const URL_OF_SERVER = required("GOQUEUE_TEST_URL");
export const KEY = required("GOQUEUE_TEST_KEY");

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: expected the address and the key of a running broker`);
  return value;
}

export function client(options = {}) {
  return new GoQueue({ addresses: URL_OF_SERVER, apiKey: KEY, ...options });
}

export function name(stem) {
  return `${stem}-${randomUUID()}`;
}

/** A topic of its own. */
export async function topic(goqueue, options = {}) {
  const made = name("topic");
  await goqueue.topics.create(made, { partitions: 1, ...options });
  return made;
}

/** Wait for what must happen. */
export async function until(condition, what) {
  for (const end = Date.now() + 60_000; Date.now() < end; await sleep(20)) {
    const found = await condition();
    if (found) return found;
  }
  throw new Error(`waited for a minute: ${what}`);
}

// The broker is killed with kill -9 and started again under a running worker and a running consumer.
// Whoever starts the tests does that when GOQUEUE_TEST_CONTROL is asked to.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ConnectionError, UnavailableError } from "../../dist/index.js";
import { client, name, topic, until } from "../support/live.mjs";

const RESTART = process.env.GOQUEUE_TEST_CONTROL;
const COUNT = 60;
const goqueue = client({ retry: { maxBackoffMs: 500 } });

async function publishAll(orders, from) {
  for (let n = from; n < from + COUNT; n += 1) await goqueue.publish(orders, { value: `${n}` });
}

test("every published message is processed across a kill and a restart", async () => {
  const orders = await topic(goqueue, { partitions: 2 });
  const stop = new AbortController();
  const worked = new Set();
  const consumed = new Set();
  const errors = [];
  const worker = goqueue.worker(
    { group: name("worker"), topics: [orders], concurrency: 5, visibilityMs: 2000, pollMs: 1000, onError: (error) => errors.push(error) },
    (delivery) => worked.add(delivery.text()),
  );
  const working = worker.run(stop.signal);
  const consuming = (async () => {
    const options = { group: name("consumer"), topics: [orders], signal: stop.signal, pollMs: 1000 };
    for await (const message of goqueue.consume(options)) consumed.add(message.text());
  })();

  await publishAll(orders, 0);
  await until(() => worked.size > 0 && consumed.size > 0, "the first messages");
  const restarted = await fetch(RESTART, { method: "POST" });
  assert.equal(restarted.status, 204);
  await publishAll(orders, COUNT);

  await until(() => worked.size === 2 * COUNT && consumed.size === 2 * COUNT, "every message in both groups");
  stop.abort();
  await Promise.all([working, consuming]);
  const lost = errors.filter((each) => each instanceof ConnectionError || each instanceof UnavailableError);
  assert.ok(lost.length > 0, "the worker never noticed the kill");
});

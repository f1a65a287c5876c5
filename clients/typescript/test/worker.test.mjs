import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { NotFoundError, RejectMessage, RetryMessage } from "../dist/index.js";
import { client, name, topic, until } from "./support/live.mjs";

const goqueue = client();
const QUICK = { backoffMs: 10, maxBackoffMs: 10 };

/** A worker that runs until the test stops it. */
function running(options, handler) {
  const stop = new AbortController();
  const errors = [];
  const worker = goqueue.worker({ pollMs: 500, onError: (error) => errors.push(error), ...options }, handler);
  const ended = worker.run(stop.signal);
  return {
    errors,
    stop: () => {
      stop.abort();
      return ended;
    },
  };
}

test("poll, ack, nack, reject and extend by hand", async () => {
  const orders = await topic(goqueue);
  const group = name("group");
  await goqueue.publishMany(orders, ["acked", "nacked", "rejected"].map((value) => ({ value })));
  const queue = goqueue.queue({ group, topics: [orders], settings: QUICK });
  const [acked, nacked, rejected] = await queue.poll({ waitMs: 30_000, visibilityMs: 60_000 });
  assert.deepEqual([acked.text(), acked.deliveryCount], ["acked", 1]);
  await queue.extend(acked, 120_000);
  await queue.ack(acked);
  await assert.rejects(queue.ack(acked), NotFoundError);
  await queue.nack(nacked, { reason: "not yet", delayMs: 0 });
  await queue.reject(rejected, "never");
  const again = await until(async () => (await queue.poll({ waitMs: 1000 }))[0], "the redelivery");
  assert.deepEqual([again.text(), again.deliveryCount], ["nacked", 2]);
  assert.deepEqual(await queue.extendAll([again.receipt, acked.receipt], 60_000), [acked.receipt]);
  await queue.ack(again.receipt);
  await queue.close();
  assert.equal((await goqueue.offsets(group)).total_lag, 0);
});

test("returning acknowledges, throwing retries, RejectMessage and too many failures dead-letter", async () => {
  const orders = await topic(goqueue);
  const group = name("group");
  const deliveries = {};
  await goqueue.publishMany(orders, ["good", "once", "later", "never", "broken"].map((value) => ({ value })));
  const worker = running({ group, topics: [orders], settings: { ...QUICK, maxDeliveries: 2 } }, (delivery) => {
    const text = delivery.text();
    deliveries[text] = delivery.deliveryCount;
    if (text === "broken") throw new Error("cannot charge");
    if (text === "never") throw new RejectMessage("no such customer");
    if (text === "once" && delivery.deliveryCount === 1) throw new Error("try again");
    if (text === "later" && delivery.deliveryCount === 1) throw new RetryMessage("busy", 20);
  });
  await until(async () => (await goqueue.deadLetters.list(orders)).total === 2, "two dead letters");
  await until(async () => (await goqueue.offsets(group)).total_lag === 0, "the end of the queue");
  await worker.stop();
  assert.deepEqual(deliveries, { good: 1, once: 2, later: 2, never: 1, broken: 2 });
  const { letters } = await goqueue.deadLetters.list(orders, { group });
  assert.deepEqual(letters.map((each) => each.error).sort(), ["cannot charge", "no such customer"]);
  assert.ok(worker.errors.some((each) => each.message === "try again"));
});

test("as many handlers as concurrency says run at once, and no more", async () => {
  const orders = await topic(goqueue);
  const group = name("group");
  await goqueue.publishMany(orders, Array.from({ length: 20 }, (_, n) => ({ value: `${n}` })));
  let now = 0;
  let most = 0;
  let done = 0;
  const worker = running({ group, topics: [orders], concurrency: 4 }, async () => {
    most = Math.max(most, (now += 1));
    await sleep(20);
    now -= 1;
    done += 1;
  });
  await until(() => done === 20, "twenty messages");
  await worker.stop();
  assert.equal(most, 4);
});

test("a handler may take longer than the visibility timeout", async () => {
  const orders = await topic(goqueue);
  const group = name("group");
  await goqueue.publish(orders, { value: "slow" });
  const counts = [];
  let aborted;
  const worker = running({ group, topics: [orders], visibilityMs: 1500 }, async (delivery, { signal }) => {
    counts.push(delivery.deliveryCount);
    await sleep(3500);
    aborted = signal.aborted;
  });
  await until(() => aborted !== undefined, "the handler");
  await until(async () => (await goqueue.offsets(group)).total_lag === 0, "the acknowledgement");
  await worker.stop();
  assert.deepEqual([counts, aborted], [[1], false]);
});

test("a stop waits for running handlers, and their messages are acknowledged", async () => {
  const orders = await topic(goqueue);
  const group = name("group");
  await goqueue.publishMany(orders, [{ value: "1" }, { value: "2" }]);
  let started = 0;
  let finished = 0;
  const worker = running({ group, topics: [orders], pollMs: 30_000 }, async () => {
    started += 1;
    await sleep(500);
    finished += 1;
  });
  await until(() => started === 2, "the handlers");
  await worker.stop();
  assert.equal(finished, 2);
  assert.equal((await goqueue.offsets(group)).total_lag, 0);
});

test("a handler that outlasts the stop timeout is aborted, and its message goes to others at once", async () => {
  const orders = await topic(goqueue);
  const group = name("group");
  await goqueue.publish(orders, { value: "stuck" });
  let reason;
  const worker = running({ group, topics: [orders], stopTimeoutMs: 50, visibilityMs: 600_000 }, (_, { signal }) => {
    return new Promise((resolve) => {
      reason = "started";
      signal.addEventListener("abort", () => {
        reason = signal.reason.message;
        setTimeout(resolve, 1000);
      });
    });
  });
  await until(() => reason === "started", "the handler");
  await worker.stop();
  assert.equal(reason, "the worker stops");
  const queue = goqueue.queue({ group, topics: [orders] });
  const [again] = await queue.poll({ waitMs: 30_000 });
  assert.equal(again.text(), "stuck");
  await queue.ack(again);
  await queue.close();
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { ConflictError, InvalidArgumentError, InvalidRequestError, NotFoundError, PublishError } from "../dist/index.js";
import { client, name, topic, until } from "./support/live.mjs";

const goqueue = client();

async function all(of, options = {}) {
  const found = [];
  for await (const each of goqueue.readToEnd(of, options)) found.push(each);
  return found;
}

test("a message comes back as it was published", async () => {
  const orders = await topic(goqueue);
  const published = await goqueue.publish(orders, {
    value: JSON.stringify({ id: 7 }),
    key: "customer-7",
    headers: { source: "web", raw: new Uint8Array([0xff, 0]), empty: null },
    priority: "high",
  });
  assert.deepEqual([published.partition, published.offset, published.isDelayed], [0, 0, false]);
  const { messages, nextOffset, highWatermark } = await goqueue.read(orders);
  assert.equal(messages.length, 1);
  const [message] = messages;
  assert.deepEqual(message.json(), { id: 7 });
  assert.equal(message.keyText(), "customer-7");
  assert.equal(message.header("source"), "web");
  assert.deepEqual([...message.headers[1].value], [0xff, 0]);
  assert.equal(message.headers[2].value, null);
  assert.equal(message.header("no such"), undefined);
  assert.equal(message.priority, "high");
  assert.equal(message.timestamp, published.timestamp);
  assert.deepEqual([nextOffset, highWatermark], [1, 1]);
});

test("bytes, empty values and tombstones stay what they are", async () => {
  const orders = await topic(goqueue);
  const view = new Uint8Array([9, 0, 255, 254, 9]).subarray(1, 4);
  await goqueue.publishMany(orders, [{ value: view, key: view }, { value: "" }, { value: null, key: "gone" }]);
  const [bytes, empty, tombstone] = await all(orders);
  assert.deepEqual([...bytes.value], [0, 255, 254]);
  assert.deepEqual([...bytes.key], [0, 255, 254]);
  assert.deepEqual([empty.text(), empty.value.length, empty.key], ["", 0, null]);
  assert.equal(tombstone.value, null);
});

test("many messages keep their order, a key keeps its partition, reads go on page by page", async () => {
  const orders = await topic(goqueue, { partitions: 3 });
  const results = await goqueue.publishMany(orders, Array.from({ length: 250 }, (_, n) => ({ value: `${n}`, key: "same" })));
  const { partition } = results[0];
  assert.ok(results.every((each) => each.partition === partition));
  const texts = (await all(orders, { partition, limit: 100 })).map((each) => each.text());
  assert.deepEqual(texts, Array.from({ length: 250 }, (_, n) => `${n}`));
  assert.equal((await goqueue.read(orders, { partition, offset: 240 })).messages[0].text(), "240");
  assert.equal((await goqueue.read(orders, { partition, offset: "latest" })).messages.length, 0);
  const since = new Date(results[0].timestamp);
  assert.equal((await goqueue.read(orders, { partition, since, limit: 1 })).messages[0].text(), "0");
  const placed = await goqueue.publish(orders, { value: "x", partition: 2, ttlMs: 60_000 });
  assert.equal(placed.partition, 2);
});

test("a delayed message is delivered when it is due", async () => {
  const orders = await topic(goqueue);
  const published = await goqueue.publish(orders, { value: "later", delayMs: 300 });
  const past = await goqueue.publish(orders, { value: "now", deliverAt: new Date(0) });
  assert.deepEqual([published.isDelayed, past.isDelayed], [true, false]);
  await until(async () => (await all(orders)).some((each) => each.text() === "later"), "the delayed message");
});

test("refused messages are named one by one, the others are stored", async () => {
  const orders = await topic(goqueue);
  const publishing = goqueue.publishMany(orders, [{ value: "good" }, { value: "bad", partition: 9 }, { value: "also good" }]);
  const error = await publishing.then(assert.fail, (each) => each);
  assert.ok(error instanceof PublishError);
  assert.equal(error.results[0].offset, 0);
  assert.ok(error.results[1] instanceof NotFoundError);
  assert.deepEqual([error.results[1].status, error.results[1].code], [404, "unknown_partition"]);
  assert.equal(error.results[2].offset, 1);
  await assert.rejects(goqueue.publish(orders, { value: "bad", partition: 9 }), NotFoundError);
});

test("bad input is refused with what was expected", async () => {
  const orders = await topic(goqueue);
  await assert.rejects(goqueue.publish(orders, { value: { id: 1 } }), InvalidArgumentError);
  await assert.rejects(goqueue.publish(orders, {}), InvalidArgumentError);
  await assert.rejects(goqueue.publishMany(orders, []), InvalidArgumentError);
  await assert.rejects(goqueue.publish(orders, { value: "x", delayMs: -1 }), InvalidRequestError);
  await assert.rejects(goqueue.publish(orders, { value: "x", priority: "urgent" }), InvalidRequestError);
  await assert.rejects(goqueue.read(orders, { limit: 0 }), (error) => {
    assert.ok(error instanceof InvalidRequestError);
    assert.deepEqual([error.status, error.code, error.field], [400, "invalid_field", "limit"]);
    return error.requestId !== undefined && error.message.includes("limit");
  });
  await assert.rejects(goqueue.read(name("no-such")), NotFoundError);
  await assert.rejects(goqueue.topics.create(orders), ConflictError);
});

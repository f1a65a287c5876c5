import assert from "node:assert/strict";
import { test } from "node:test";

import { NotFoundError } from "../dist/index.js";
import { gate } from "./support/gate.mjs";
import { client, name, topic, until, URL_OF_SERVER } from "./support/live.mjs";

const goqueue = client();

async function filled(count) {
  const orders = await topic(goqueue);
  await goqueue.publishMany(orders, Array.from({ length: count }, (_, n) => ({ value: `${n}` })));
  return orders;
}

/** The texts of so many messages. */
async function take(consumer, count) {
  const texts = [];
  for await (const message of consumer) {
    texts.push(message.text());
    if (texts.length === count) break;
  }
  return texts;
}

test("a group goes on where it has committed; the message in hand at a break is redelivered", async () => {
  const orders = await filled(6);
  const group = name("group");
  assert.deepEqual(await take(goqueue.consume({ group, topics: [orders], limit: 2 }), 3), ["0", "1", "2"]);
  assert.equal((await goqueue.offsets(group)).offsets[orders]["0"], 2);
  assert.deepEqual(await take(goqueue.consume({ group, topics: [orders] }), 4), ["2", "3", "4", "5"]);
});

test("commit covers the message in hand, and without autoCommit nothing else commits", async () => {
  const orders = await filled(5);
  const group = name("group");
  const consumer = goqueue.consume({ group, topics: [orders], autoCommit: false });
  for await (const message of consumer) {
    if (message.offset === 1) await consumer.commit();
    if (message.offset === 3) break;
  }
  assert.equal((await goqueue.offsets(group)).offsets[orders]["0"], 2);
});

test("a signal ends the iteration with everything committed, also while a poll waits", async () => {
  const orders = await filled(3);
  const group = name("group");
  const stop = new AbortController();
  const texts = [];
  for await (const message of goqueue.consume({ group, topics: [orders], signal: stop.signal, pollMs: 30_000 })) {
    texts.push(message.text());
    if (texts.length === 3) setTimeout(() => stop.abort(), 200);
  }
  assert.deepEqual(texts, ["0", "1", "2"]);
  assert.equal((await goqueue.offsets(group)).total_lag, 0);
});

test("two members share the partitions", async () => {
  const orders = await topic(goqueue, { partitions: 2 });
  const group = name("group");
  const stop = new AbortController();
  const seen = [new Map(), new Map()];
  const members = seen.map(async (mine, index) => {
    const options = { group, topics: [orders], signal: stop.signal, pollMs: 500, clientId: `member-${index}` };
    for await (const message of goqueue.consume(options)) mine.set(message.text(), message.partition);
  });
  const both = () => seen.every((mine) => mine.size > 0);
  let count = 0;
  await until(async () => {
    await goqueue.publishMany(orders, [0, 1].map((partition) => ({ value: `${(count += 1)}`, partition })));
    return both();
  }, "both members to get messages");
  await until(() => new Set([...seen[0].keys(), ...seen[1].keys()]).size === count, "every message to be seen");
  stop.abort();
  await Promise.all(members);
  assert.equal((await goqueue.offsets(group)).total_lag, 0);
});

test("a poll whose answer was lost loses no message", async (t) => {
  const orders = await filled(4);
  const faulty = await gate(URL_OF_SERVER, [undefined, "lose answer", { status: 503 }]); // join, two polls
  t.after(faulty.close);
  const through = client({ addresses: faulty.url, retry: { backoffMs: 5 } });
  assert.deepEqual(await take(through.consume({ group: name("group"), topics: [orders] }), 4), ["0", "1", "2", "3"]);
  assert.ok(faulty.seen.some((each) => each.path.includes("rewind=true")));
});

test("a topic that does not exist is refused", async () => {
  const consumer = goqueue.consume({ group: name("group"), topics: [name("no-such")] });
  await assert.rejects(take(consumer, 1), NotFoundError);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { InvalidRequestError, NotFoundError } from "../dist/index.js";
import { client, name, topic, until } from "./support/live.mjs";

const goqueue = client();

test("topics are created, listed, configured, grown and deleted", async () => {
  const orders = name("orders");
  const made = await goqueue.topics.create(orders, { partitions: 2, settings: { "retention.ms": 3_600_000 } });
  assert.deepEqual([made.num_partitions, made.settings["retention.ms"]], [2, "3600000"]);
  assert.ok((await goqueue.topics.list()).includes(orders));
  assert.equal((await goqueue.topics.ensure(orders, { partitions: 9 })).num_partitions, 2);
  const changed = await goqueue.topics.configure(orders, { "retention.ms": null, "cleanup.policy": "compact" });
  assert.deepEqual(changed.settings, { "cleanup.policy": "compact" });
  assert.equal((await goqueue.topics.grow(orders, 4)).num_partitions, 4);
  await goqueue.topics.delete(orders);
  await assert.rejects(goqueue.topics.get(orders), NotFoundError);
  await assert.rejects(goqueue.topics.create("no/name"), InvalidRequestError);
});

test("dead letters are listed, read, redriven and purged", async () => {
  const orders = await topic(goqueue);
  const group = name("group");
  await goqueue.publishMany(orders, [1, 2, 3].map((n) => ({ value: `letter ${n}`, key: `k${n}` })));
  const queue = goqueue.queue({ group, topics: [orders] });
  let rejected = 0;
  while (rejected < 3) {
    for (const each of await queue.poll({ waitMs: 30_000 })) {
      await queue.reject(each, "unreadable");
      rejected += 1;
    }
  }
  await until(async () => (await goqueue.deadLetters.list(orders)).total === 3, "three dead letters");
  const { letters } = await goqueue.deadLetters.list(orders, { limit: 2 });
  assert.equal(letters.length, 2);
  assert.ok((await goqueue.deadLetters.topics()).some((each) => each.topic === orders));
  const whole = await goqueue.deadLetters.get(orders, letters[0].partition, letters[0].offset);
  assert.match(whole.value, /^letter \d$/);
  assert.equal((await goqueue.deadLetters.redriveAll(orders, { dryRun: true })).total, 3);

  const started = await goqueue.deadLetters.redriveAll(orders, { filter: { key: "k2" } });
  const ended = await goqueue.deadLetters.finished(started.id);
  assert.deepEqual([ended.done, ended.failed], [1, 0]);
  const [again] = await queue.poll({ waitMs: 30_000 });
  assert.equal(again.text(), "letter 2");
  await queue.ack(again);
  await queue.close();

  assert.equal(await goqueue.deadLetters.purge(orders), 2);
  assert.equal((await goqueue.deadLetters.list(orders)).total, 0);
  await assert.rejects(goqueue.deadLetters.redrive(999_999), NotFoundError);
});

test("health and version", async () => {
  assert.equal((await goqueue.health()).status, "ok");
  assert.match((await goqueue.version()).version, /^\d+\./);
});

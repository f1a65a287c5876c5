import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";

import {
  AuthenticationError, ConnectionError, GoQueue, InvalidArgumentError, mayBeStored, NotFoundError, RateLimitError, UnavailableError,
} from "../dist/index.js";
import { backoffMs, retryAfterMs } from "../dist/retry.js";
import { gate } from "./support/gate.mjs";
import { client, KEY, topic, URL_OF_SERVER } from "./support/live.mjs";

const goqueue = client();
const FAST = { attempts: 3, backoffMs: 5 };

/** What the broker has stored after a publish through a gate with these faults. */
async function published(t, faults, options = {}) {
  const orders = await topic(goqueue);
  const faulty = await gate(URL_OF_SERVER, faults);
  t.after(faulty.close);
  const through = client({ addresses: faulty.url, retry: FAST, ...options });
  const error = await through.publish(orders, { value: "x" }).then(() => undefined, (each) => each);
  const stored = (await goqueue.read(orders)).messages.length;
  return { error, stored, sent: faulty.seen };
}

test("a publish that was refused is sent again", async (t) => {
  const { error, stored, sent } = await published(t, [{ status: 429 }, { status: 503 }]);
  assert.deepEqual([error, stored, sent.length], [undefined, 1, 3]);
});

test("Retry-After is waited for", async (t) => {
  const { error, sent } = await published(t, [{ status: 429, headers: { "retry-after": "1" } }]);
  assert.equal(error, undefined);
  assert.ok(sent[1].at - sent[0].at >= 990);
});

test("attempts are bounded, and the last error is thrown", async (t) => {
  const { error, stored, sent } = await published(t, Array(5).fill({ status: 429 }));
  assert.ok(error instanceof RateLimitError);
  assert.deepEqual([stored, sent.length, mayBeStored(error)], [0, 3, false]);
});

test("a publish whose answer was lost is not sent again", async (t) => {
  const { error, stored, sent } = await published(t, ["lose answer"]);
  assert.ok(error instanceof ConnectionError);
  assert.deepEqual([error.maybeSent, stored, sent.length, mayBeStored(error)], [true, 1, 1, true]);
});

test("a publish whose outcome the server does not know is not sent again", async (t) => {
  const { error, sent } = await published(t, [{ status: 503, code: "handover_unknown" }]);
  assert.ok(error instanceof UnavailableError);
  assert.deepEqual([sent.length, mayBeStored(error)], [1, true]);
});

test("other refusals are not sent again", async (t) => {
  const { error, sent } = await published(t, [{ status: 404 }]);
  assert.ok(error instanceof NotFoundError);
  assert.equal(sent.length, 1);
});

test("a read whose answer was lost is sent again", async (t) => {
  const orders = await topic(goqueue);
  const faulty = await gate(URL_OF_SERVER, ["lose request", "lose answer"]);
  t.after(faulty.close);
  const { messages } = await client({ addresses: faulty.url, retry: FAST }).read(orders);
  assert.deepEqual([messages.length, faulty.seen.length], [0, 3]);
});

test("an address without a server is passed over, for a publish too", async () => {
  const orders = await topic(goqueue);
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const dead = `http://127.0.0.1:${taken.address().port}`;
  await new Promise((resolve) => taken.close(resolve));
  const several = client({ addresses: [dead, URL_OF_SERVER], retry: FAST });
  assert.equal((await several.publish(orders, { value: "x" })).offset, 0);
  assert.equal((await several.publish(orders, { value: "y" })).offset, 1);
  const alone = client({ addresses: dead, retry: FAST });
  const error = await alone.publish(orders, { value: "z" }).then(assert.fail, (each) => each);
  assert.ok(error instanceof ConnectionError);
  assert.deepEqual([error.maybeSent, error.message.includes(dead)], [false, true]);
});

test("a wrong key, and no key, are refused", async () => {
  const wrong = client({ apiKey: `${KEY}x` });
  await assert.rejects(wrong.topics.list(), (error) => {
    assert.ok(error instanceof AuthenticationError);
    return error.status === 401 && error.code === "authentication_failed";
  });
  await assert.rejects(new GoQueue({ addresses: URL_OF_SERVER }).topics.list(), AuthenticationError);
  const stop = new AbortController();
  const worker = wrong.worker({ group: "g", topics: ["t"] }, () => undefined);
  await assert.rejects(worker.run(stop.signal), AuthenticationError);
});

test("options are checked before anything is sent", () => {
  for (const options of [
    { addresses: [] },
    { addresses: "127.0.0.1:8080" },
    { addresses: "ftp://127.0.0.1" },
    { addresses: URL_OF_SERVER, apiKey: "two words" },
    { addresses: URL_OF_SERVER, retry: { attempts: 0 } },
    { addresses: URL_OF_SERVER, requestTimeoutMs: Number.NaN },
  ]) {
    assert.throws(() => new GoQueue(options), InvalidArgumentError);
  }
  assert.throws(() => goqueue.worker({ group: "g", topics: [] }, () => undefined), InvalidArgumentError);
  assert.throws(() => goqueue.worker({ group: "g", topics: ["t"], concurrency: 0 }, () => undefined), InvalidArgumentError);
});

test("an aborted request rejects with the signal's reason", async () => {
  const orders = await topic(goqueue);
  const reason = new Error("enough");
  const reading = goqueue.read(orders, { waitMs: 20_000, signal: AbortSignal.abort(reason) });
  await assert.rejects(reading, (error) => error === reason);
});

test("the back-off doubles up to its bound, and Retry-After is seconds or a date", () => {
  const options = { attempts: 9, backoffMs: 100, maxBackoffMs: 1000 };
  assert.deepEqual([1, 2, 3, 4, 5, 6].map((n) => backoffMs(n, undefined, options, 1)), [100, 200, 400, 800, 1000, 1000]);
  assert.equal(backoffMs(1, undefined, options, 0), 50);
  assert.equal(retryAfterMs("2", 0), 2000);
  assert.equal(retryAfterMs("Thu, 01 Jan 1970 00:00:05 GMT", 1000), 4000);
  assert.deepEqual([retryAfterMs(null, 0), retryAfterMs("soon", 0)], [undefined, undefined]);
});

// What the profiles share: where the broker is, its topic, and the requests of producers and consumers.
import http from 'k6/http';
import { Counter, Rate, Trend } from 'k6/metrics';
import exec from 'k6/execution';

export const SERVER = (__ENV.GOQUEUE_SERVER || 'http://127.0.0.1:8080').replace(/\/$/, '');
export const TOPIC = __ENV.LOAD_TOPIC || 'load';
const PARTITIONS = Number(__ENV.LOAD_PARTITIONS || 6);
const HEADERS = { 'Content-Type': 'application/json' };
if (__ENV.GOQUEUE_API_KEY) {
  HEADERS['X-API-Key'] = __ENV.GOQUEUE_API_KEY;
}

export const produceLatency = new Trend('produce_latency', true);
export const consumeLatency = new Trend('consume_latency', true);
export const endToEnd = new Trend('end_to_end_latency', true);
export const produced = new Counter('messages_produced');
export const consumed = new Counter('messages_acknowledged');
export const failed = new Rate('failed');

function ask(method, path, body, tags) {
  const text = body === undefined ? null : JSON.stringify(body);
  return http.request(method, `${SERVER}${path}`, text, { headers: HEADERS, tags, timeout: '30s' });
}

// Called once, before the load. Its result is handed to each iteration: a group of this run, which starts at the end of the
// topic, so that what earlier runs left is not consumed and does not count as latency.
export function makeTopic() {
  const answer = ask('POST', '/topics', { name: TOPIC, num_partitions: PARTITIONS });
  if (answer.status !== 201 && answer.status !== 200 && answer.status !== 409) {
    exec.test.abort(`${SERVER} did not make the topic ${TOPIC}: ${answer.status} ${answer.body || answer.error}`);
  }
  return { group: `${TOPIC}-${Date.now()}` };
}

// One message of so many bytes, with the time at which it was sent in front.
export function produce(bytes) {
  const value = `${Date.now()} `.padEnd(bytes, '.');
  const answer = ask('POST', `/topics/${TOPIC}/messages`, { messages: [{ value }] }, { kind: 'produce' });
  const stored = answer.status === 200 && answer.json('results.0.status') === 200;
  failed.add(!stored);
  if (stored) {
    produced.add(1);
    produceLatency.add(answer.timings.duration);
  }
}

let member = null; // of this virtual user

// Takes what is there and acknowledges it. Waiting for messages is no latency: only polls that wait for none are measured.
export function consume({ group }) {
  if (member === null) {
    const asked = { topics: [TOPIC], assignment: 'shared', start: 'latest' };
    const joined = ask('POST', `/groups/${group}/join`, asked, { kind: 'join' });
    failed.add(joined.status >= 300);
    if (joined.status >= 300) return;
    member = joined.json('member_id');
  }
  const answer = ask('GET', `/groups/${group}/poll?member_id=${member}&timeout=0s&limit=100`, undefined, { kind: 'poll' });
  failed.add(answer.status !== 200);
  if (answer.status !== 200) {
    member = null; // the session timed out: join anew
    return;
  }
  const messages = answer.json('messages');
  const now = Date.now();
  for (const message of messages) {
    endToEnd.add(now - Number(message.value.split(' ', 1)[0]));
    const done = ask('POST', '/messages/ack', { receipt_handle: message.receipt_handle }, { kind: 'ack' });
    failed.add(done.status >= 300);
    if (done.status < 300) consumed.add(1);
  }
  if (messages.length > 0) consumeLatency.add(answer.timings.duration);
}

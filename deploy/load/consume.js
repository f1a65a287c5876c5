// Ten members of a queue group that acknowledge each message, and two producers that feed them.
import { sleep } from 'k6';
import { consume, makeTopic, produce } from './broker.js';

const duration = `${Number(__ENV.LOAD_SECONDS || 300)}s`;

export const options = {
  scenarios: {
    consumers: { executor: 'constant-vus', vus: 10, duration, gracefulStop: '5s', exec: 'consumer' },
    producers: { executor: 'constant-vus', vus: 2, duration, gracefulStop: '5s', exec: 'producer' },
  },
  thresholds: { consume_latency: ['p(99)<50'], failed: ['rate<0.001'] },
};

export const setup = makeTopic;

export function consumer(data) {
  consume(data);
  sleep(0.01);
}

export function producer() {
  produce(100);
  sleep(0.005);
}

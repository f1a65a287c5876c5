// Up to 150 producers (or LOAD_PRODUCERS) and 30 consumers; seven messages in ten have 100 bytes, one in twenty 10 KB.
import { sleep } from 'k6';
import { consume, makeTopic, produce } from './broker.js';

const LENGTH = Number(__ENV.LOAD_SECONDS || 900);
const PRODUCERS = Number(__ENV.LOAD_PRODUCERS || 150);
const CONSUMERS = Math.max(Math.round(PRODUCERS / 5), 1);
const ramp = (most) => [
  { duration: `${Math.max(Math.round(LENGTH / 3), 1)}s`, target: Math.ceil(most / 3) },
  { duration: `${Math.max(Math.round(LENGTH / 3), 1)}s`, target: most },
  { duration: `${Math.max(Math.round(LENGTH / 3), 1)}s`, target: 0 },
];

export const options = {
  scenarios: {
    producers: { executor: 'ramping-vus', startVUs: 1, gracefulStop: '5s', stages: ramp(PRODUCERS), exec: 'producer' },
    consumers: { executor: 'ramping-vus', startVUs: 1, gracefulStop: '5s', stages: ramp(CONSUMERS), exec: 'consumer' },
  },
  thresholds: {
    produce_latency: ['p(95)<20', 'p(99)<50'],
    consume_latency: ['p(95)<50', 'p(99)<100'],
    end_to_end_latency: ['p(95)<100', 'p(99)<200'],
    failed: ['rate<0.001'],
  },
};

export const setup = makeTopic;

export function producer() {
  const chance = Math.random();
  produce(chance < 0.7 ? 100 : chance < 0.95 ? 1024 : 10 * 1024);
}

export function consumer(data) {
  consume(data);
  sleep(0.01);
}

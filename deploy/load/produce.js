// Producers alone: 10, 50, 100, 50 and no virtual users. `deploy/load/run` says how to run it.
import { makeTopic, produce } from './broker.js';

const LENGTH = Number(__ENV.LOAD_SECONDS || 300);
const stage = (target) => ({ duration: `${Math.max(Math.round(LENGTH / 5), 1)}s`, target });

export const options = {
  scenarios: {
    producers: { executor: 'ramping-vus', startVUs: 1, gracefulStop: '5s', stages: [10, 50, 100, 50, 0].map(stage) },
  },
  thresholds: { produce_latency: ['p(99)<10'], failed: ['rate<0.0001'] },
};

export const setup = makeTopic;

export default function () {
  produce(100);
}

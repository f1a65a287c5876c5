// Dead letters: messages that a queue group has given up, by the topic that they were read from.

import { setTimeout as sleep } from "node:timers/promises";

import type { BoxLine, FilterBody, LetterDetail, LetterLine, RedriveAnswer } from "./api.js";
import type { Transport } from "./transport.js";

export interface LetterQuery {
  /** The most letters, up to 1000. Default 100. */
  limit?: number;
  skip?: number;
  /** Only those of this reason. */
  reason?: string;
  /** Only those of this group. */
  group?: string;
}

export interface RedriveOptions {
  /** Another target topic; the original topic if omitted. */
  to?: string;
  /** Which letters; all if omitted. */
  filter?: FilterBody;
  limit?: number;
  /** Messages per second. */
  rate?: number;
  /** Count the letters and redrive none. */
  dryRun?: boolean;
}

const POLL_MS = 50;

export class DeadLetters {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Every topic with dead letters, and their number. */
  async topics(): Promise<BoxLine[]> {
    return (await this.#transport.call("GET /dlq", {})).topics;
  }

  /** The letters of a topic that were not redriven, and how many there are in all. */
  async list(topic: string, query: LetterQuery = {}): Promise<{ total: number; letters: LetterLine[] }> {
    const { total, letters } = await this.#transport.call("GET /topics/{topic}/dlq", { path: { topic }, query });
    return { total, letters };
  }

  /** One letter with its value and headers. */
  async get(topic: string, partition: number, offset: number): Promise<LetterDetail> {
    return this.#transport.call("GET /topics/{topic}/dlq/{partition}/{offset}", { path: { topic, partition, offset } });
  }

  /** Start a redrive. `redrive(id)` tells how far it is, `finished(id)` waits for its end. */
  async redriveAll(topic: string, { to, filter, limit, rate, dryRun = false }: RedriveOptions = {}): Promise<RedriveAnswer> {
    const body = {
      dry_run: dryRun,
      ...(to === undefined ? {} : { to }),
      ...(filter === undefined ? {} : { filter }),
      ...(limit === undefined ? {} : { limit }),
      ...(rate === undefined ? {} : { rate }),
    };
    return this.#transport.call("POST /topics/{topic}/dlq/redrive", { path: { topic }, body });
  }

  /** The progress of a redrive. */
  async redrive(id: number): Promise<RedriveAnswer> {
    return this.#transport.call("GET /redrives/{id}", { path: { id } });
  }

  /** The redrive, once it has ended. */
  async finished(id: number, signal?: AbortSignal): Promise<RedriveAnswer> {
    for (;;) {
      const found = await this.redrive(id);
      if (found.ended_at !== null) return found;
      await sleep(POLL_MS, undefined, signal ? { signal } : {});
    }
  }

  /** Stop a redrive; what was redriven stays redriven. */
  async cancel(id: number): Promise<RedriveAnswer> {
    return this.#transport.call("DELETE /redrives/{id}", { path: { id } });
  }

  /** Delete all dead letters of a topic for good; returns their number. */
  async purge(topic: string): Promise<number> {
    const query = { confirm: true };
    return (await this.#transport.call("DELETE /topics/{topic}/dlq", { path: { topic }, query })).purged;
  }
}

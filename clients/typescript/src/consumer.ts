// A member of a log group: messages in the order of their partitions, offsets committed.

import { Message } from "./messages.js";
import { Membership } from "./membership.js";
import { atLeast, type Transport } from "./transport.js";

export interface ConsumeOptions {
  group: string;
  topics: readonly string[];
  /** Ends the iteration; what was processed is committed first. */
  signal?: AbortSignal;
  /** Where to start in partitions without a committed offset. Default "earliest". */
  start?: "earliest" | "latest";
  /** Commit what was processed before each poll and at the end. Default true. */
  autoCommit?: boolean;
  /** The most messages of one poll, up to 1000. Default 100. */
  limit?: number;
  /** How long one poll waits, up to 60000. Default 10000. */
  pollMs?: number;
  /** A member without a heartbeat for this long is removed. Default 45000. */
  sessionTimeoutMs?: number;
  /** The beginning of the member's id. */
  clientId?: string;
}

type Offsets = Record<string, Record<string, number>>;

/**
 * Iterate over it once. Delivery is at least once: the message in hand is processed when the next
 * one is asked for, or when `commit` is called.
 */
export class Consumer implements AsyncIterable<Message> {
  readonly #transport: Transport;
  readonly #options: ConsumeOptions;
  readonly #member: Membership;
  #processed: Offsets = {};
  #inHand: Message | undefined;
  /** After a lost answer the next poll reads again from the committed offsets. */
  #mustRewind = false;

  constructor(transport: Transport, options: ConsumeOptions) {
    this.#transport = transport;
    this.#options = options;
    atLeast(1, options.limit ?? 100, "limit");
    atLeast(0, options.pollMs ?? 10_000, "pollMs");
    this.#member = new Membership(transport, options.group, {
      topics: [...options.topics],
      assignment: "log",
      start: options.start ?? "earliest",
      client_id: options.clientId ?? "",
      ...(options.sessionTimeoutMs === undefined ? {} : { session_timeout: options.sessionTimeoutMs }),
    });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Message> {
    const { signal, autoCommit = true } = this.#options;
    try {
      while (!signal?.aborted) {
        for (const message of await this.#nextBatch()) {
          if (signal?.aborted) break;
          if (!this.#member.owns(message.topic, message.partition)) continue;
          this.#inHand = message;
          yield message;
          this.#settleInHand();
        }
        if (autoCommit) await this.#commitProcessed();
      }
    } finally {
      this.#inHand = undefined;
      if (autoCommit) await this.#commitProcessed();
      await this.#member.leave();
    }
  }

  /** Commit everything up to and with the message in hand. */
  async commit(): Promise<void> {
    this.#settleInHand();
    await this.#commitProcessed();
  }

  #settleInHand(): void {
    if (this.#inHand === undefined) return;
    const { topic, partition, offset } = this.#inHand;
    (this.#processed[topic] ??= {})[partition] = offset + 1;
    this.#inHand = undefined;
  }

  /** The messages of the next poll; none when the time is over or the signal is aborted. */
  async #nextBatch(): Promise<Message[]> {
    const { signal, limit = 100, pollMs = 10_000, autoCommit = true } = this.#options;
    for (let failures = 1; ; failures += 1) {
      try {
        await this.#member.join(signal);
        if (this.#mustRewind && autoCommit) await this.#commitProcessed();
        const answer = await this.#member.poll({ timeout: pollMs, limit, rewind: this.#mustRewind }, signal);
        this.#mustRewind = false;
        return answer.messages.map((each) => new Message(each));
      } catch (error) {
        if (signal?.aborted) return [];
        if (!this.#member.survives(error)) throw error;
        this.#mustRewind = true;
        await this.#transport.pause(failures, error, signal).catch(() => undefined);
        if (signal?.aborted) return [];
      }
    }
  }

  async #commitProcessed(): Promise<void> {
    const offsets = this.#owned(this.#processed);
    if (Object.keys(offsets).length === 0) return;
    const body = { offsets, member_id: this.#member.memberId };
    try {
      await this.#transport.call(
        "POST /groups/{group}/offsets",
        { path: { group: this.#member.group }, body },
        { repeat: "repeatable" },
      );
      this.#processed = {};
    } catch (error) {
      if (!this.#member.survives(error)) throw error; // committed with the next ones, if still ours
    }
  }

  /** Without the partitions that went to others: they start at what was committed last. */
  #owned(offsets: Offsets): Offsets {
    const kept: Offsets = {};
    for (const [topic, partitions] of Object.entries(offsets)) {
      for (const [partition, offset] of Object.entries(partitions)) {
        if (this.#member.owns(topic, Number(partition))) (kept[topic] ??= {})[partition] = offset;
      }
    }
    return kept;
  }
}

// A queue worker: polls, runs the handler on several messages at once, acknowledges, stops in order.

import type { Delivery } from "./messages.js";
import { Queue, type QueueOptions } from "./queue.js";
import { atLeast, type Transport } from "./transport.js";

export interface WorkerOptions extends QueueOptions {
  /** How many messages are processed at once. Default 10. */
  concurrency?: number;
  /** The visibility timeout of a delivery; it is extended while the handler runs. Default 30000. */
  visibilityMs?: number;
  /** A handler that takes longer loses its message: it is no longer extended. Default 3600000. */
  maxProcessingMs?: number;
  /** How long one poll waits, up to 60000. Default 10000. */
  pollMs?: number;
  /** How long a stop waits for running handlers before it aborts them. Default 30000. */
  stopTimeoutMs?: number;
  /** Told of errors that the worker survives: a lost connection, a refused acknowledgement, a failed handler. */
  onError?: (error: unknown, delivery?: Delivery) => void;
}

export interface HandlerContext {
  /** Aborted when another member may have the message, or the stop timeout is over. */
  signal: AbortSignal;
}

/** Returning acknowledges the message, throwing nacks it; see RejectMessage and RetryMessage. */
export type Handler = (delivery: Delivery, context: HandlerContext) => unknown;

/** Thrown by a handler: move the message to the dead-letter queue, a retry cannot help. */
export class RejectMessage extends Error {}

/** Thrown by a handler: redeliver the message after `delayMs`. */
export class RetryMessage extends Error {
  constructor(message: string, readonly delayMs: number) {
    super(message);
  }
}

interface Running {
  delivery: Delivery;
  abort: AbortController;
  since: number;
}

export class Worker {
  readonly #transport: Transport;
  readonly #queue: Queue;
  readonly #handler: Handler;
  readonly #settings: Required<Pick<WorkerOptions, "concurrency" | "visibilityMs" | "maxProcessingMs" | "pollMs" | "stopTimeoutMs">>;
  readonly #onError: (error: unknown, delivery?: Delivery) => void;
  readonly #running = new Map<string, Running>();
  /** Wakes who waits for a handler to end. */
  #wake: () => void = () => undefined;

  constructor(transport: Transport, options: WorkerOptions, handler: Handler) {
    this.#transport = transport;
    this.#queue = new Queue(transport, options);
    this.#handler = handler;
    this.#onError = options.onError ?? (() => undefined);
    this.#settings = {
      concurrency: atLeast(1, options.concurrency ?? 10, "concurrency"),
      visibilityMs: atLeast(1000, options.visibilityMs ?? 30_000, "visibilityMs"),
      maxProcessingMs: atLeast(1, options.maxProcessingMs ?? 3_600_000, "maxProcessingMs"),
      pollMs: atLeast(0, options.pollMs ?? 10_000, "pollMs"),
      stopTimeoutMs: atLeast(0, options.stopTimeoutMs ?? 30_000, "stopTimeoutMs"),
    };
  }

  /** Work until the signal is aborted; then finish what runs, leave the group, and resolve. */
  async run(signal: AbortSignal): Promise<void> {
    const extensions = setInterval(() => void this.#extend(), this.#settings.visibilityMs / 3);
    try {
      await this.#pollUntil(signal);
    } finally {
      await this.#drain();
      clearInterval(extensions);
      await this.#queue.close();
    }
  }

  async #pollUntil(signal: AbortSignal): Promise<void> {
    const { concurrency, visibilityMs, pollMs } = this.#settings;
    let failures = 0;
    while (!signal.aborted) {
      const free = concurrency - this.#running.size;
      if (free <= 0) {
        await this.#oneEnds(signal);
        continue;
      }
      try {
        const found = await this.#queue.poll({ limit: free, waitMs: pollMs, visibilityMs, signal });
        failures = 0;
        for (const delivery of found) void this.#process(delivery);
      } catch (error) {
        if (signal.aborted) return;
        if (!this.#queue.survives(error)) throw error;
        failures += 1;
        this.#onError(error);
        await this.#transport.pause(failures, error, signal).catch(() => undefined);
      }
    }
  }

  async #process(delivery: Delivery): Promise<void> {
    const running = { delivery, abort: new AbortController(), since: Date.now() };
    this.#running.set(delivery.receipt, running);
    try {
      await this.#handle(running);
    } catch (error) {
      // The acknowledgement failed: the message is redelivered after its visibility timeout.
      this.#onError(error, delivery);
    } finally {
      this.#running.delete(delivery.receipt);
      this.#wake();
    }
  }

  async #handle({ delivery, abort }: Running): Promise<void> {
    try {
      await this.#handler(delivery, { signal: abort.signal });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#onError(error, delivery);
      if (error instanceof RejectMessage) return this.#queue.reject(delivery, reason || "rejected");
      const delay = error instanceof RetryMessage ? { delayMs: error.delayMs } : {};
      return this.#queue.nack(delivery, { reason, ...delay });
    }
    await this.#queue.ack(delivery);
  }

  /** Extend what runs; tell the handlers whose messages others may have. */
  async #extend(): Promise<void> {
    const now = Date.now();
    const all = [...this.#running.values()];
    const late = all.filter((each) => now - each.since > this.#settings.maxProcessingMs);
    for (const each of late) each.abort.abort(new Error("the handler took longer than maxProcessingMs"));
    const receipts = all.filter((each) => !late.includes(each)).map((each) => each.delivery);
    try {
      for (const lost of await this.#queue.extendAll(receipts, this.#settings.visibilityMs)) {
        this.#running.get(lost)?.abort.abort(new Error("the visibility timeout has expired"));
      }
    } catch (error) {
      this.#onError(error);
    }
  }

  /** Wait for the handlers that run; abort their signals when the stop timeout is over. */
  async #drain(): Promise<void> {
    const late = AbortSignal.timeout(this.#settings.stopTimeoutMs);
    while (this.#running.size > 0 && !late.aborted) await this.#oneEnds(late);
    for (const each of this.#running.values()) each.abort.abort(new Error("the worker stops"));
  }

  /** Wait until a handler has ended, or the signal is aborted, which it is not yet. */
  #oneEnds(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        signal.removeEventListener("abort", wake);
        resolve();
      };
      signal.addEventListener("abort", wake);
      this.#wake = wake;
    });
  }
}

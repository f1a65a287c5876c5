// The client: one object for a server or a cluster. It holds no connection that must be closed.

import type { Health, OffsetsAnswer, Version } from "./api.js";
import { Consumer, type ConsumeOptions } from "./consumer.js";
import { DeadLetters } from "./dead-letters.js";
import type { Message, NewMessage } from "./messages.js";
import { publishAll, type Published, type PublishOptions } from "./publishing.js";
import { Queue, type QueueOptions } from "./queue.js";
import { read, readToEnd, type ReadOptions, type ReadResult } from "./reading.js";
import { Topics } from "./topics.js";
import { Transport, type ClientOptions } from "./transport.js";
import { Worker, type Handler, type WorkerOptions } from "./worker.js";

export class GoQueue {
  readonly #transport: Transport;
  readonly topics: Topics;
  readonly deadLetters: DeadLetters;

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
    this.topics = new Topics(this.#transport);
    this.deadLetters = new DeadLetters(this.#transport);
  }

  /** Publish a message; resolves when it is as durable as its topic requires. */
  async publish(topic: string, message: NewMessage, options: PublishOptions = {}): Promise<Published> {
    const [published] = await publishAll(this.#transport, topic, [message], options);
    return published as Published;
  }

  /** Publish up to 10000 messages in one request; rejects with a PublishError if some are refused. */
  async publishMany(topic: string, messages: readonly NewMessage[], options: PublishOptions = {}): Promise<Published[]> {
    return publishAll(this.#transport, topic, messages, options);
  }

  /** Read a partition once, without a group. */
  async read(topic: string, options: ReadOptions = {}): Promise<ReadResult> {
    return read(this.#transport, topic, options);
  }

  /** Every message of a partition up to its present end, without a group. */
  readToEnd(topic: string, options: ReadOptions = {}): AsyncGenerator<Message> {
    return readToEnd(this.#transport, topic, options);
  }

  /** Consume as a member of a log group: iterate over what this returns. */
  consume(options: ConsumeOptions): Consumer {
    return new Consumer(this.#transport, options);
  }

  /** A member of a queue group that polls and acknowledges by hand. */
  queue(options: QueueOptions): Queue {
    return new Queue(this.#transport, options);
  }

  /** A worker that calls the handler for every message of a queue group; start it with `run`. */
  worker(options: WorkerOptions, handler: Handler): Worker {
    return new Worker(this.#transport, options, handler);
  }

  /** Committed offsets and lag of a group. */
  async offsets(group: string): Promise<OffsetsAnswer> {
    return this.#transport.call("GET /groups/{group}/offsets", { path: { group } });
  }

  /** Whether the server stores messages; rejects with an UnavailableError if it cannot. */
  async health(): Promise<Health> {
    return this.#transport.call("GET /health", {}, { repeat: "never" });
  }

  async version(): Promise<Version> {
    return this.#transport.call("GET /version", {});
  }
}

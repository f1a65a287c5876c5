// A member of a queue group: every message is acknowledged by itself.

import type { JoinBody, SettleResult } from "./api.js";
import { InvalidArgumentError } from "./errors.js";
import { Membership } from "./membership.js";
import { Delivery } from "./messages.js";
import { atLeast, type Transport } from "./transport.js";

/** Settings of the group; they apply if the group is new. */
export interface QueueSettings {
  /** An unacknowledged message is redelivered after this time. Server's default 30000. */
  visibilityTimeoutMs?: number;
  /** After so many failed deliveries a message is dead-lettered. Server's default 3. */
  maxDeliveries?: number;
  /** Before the first redelivery of a nacked message; doubles each time. Server's default 1000. */
  backoffMs?: number;
  maxBackoffMs?: number;
}

export interface QueueOptions {
  group: string;
  topics: readonly string[];
  /** "shared": members take from all partitions. "exclusive": a partition has one owner, order is kept. Default "shared". */
  assignment?: "shared" | "exclusive";
  settings?: QueueSettings;
  sessionTimeoutMs?: number;
  clientId?: string;
}

export interface PollOptions {
  /** The most messages, up to 1000. Default 100. */
  limit?: number;
  /** How long to wait for the first message, up to 60000. Default 10000. */
  waitMs?: number;
  /** The visibility timeout of these deliveries; the group's if omitted. */
  visibilityMs?: number;
  signal?: AbortSignal;
}

/** A receipt, or the delivery that has it. */
export type Receipt = string | Pick<Delivery, "receipt">;

/** Polls and acknowledges. `poll` joins the group when that is needed; call `close` at the end. */
export class Queue {
  readonly #transport: Transport;
  readonly #member: Membership;

  constructor(transport: Transport, options: QueueOptions) {
    if (options.topics.length === 0) {
      throw new InvalidArgumentError(`no topic for group ${options.group}: expected at least one in topics`);
    }
    this.#transport = transport;
    this.#member = new Membership(transport, options.group, joinBody(options));
  }

  /** Messages for this member: they are invisible to others until their visibility timeout. */
  async poll({ limit = 100, waitMs = 10_000, visibilityMs, signal }: PollOptions = {}): Promise<Delivery[]> {
    await this.#member.join(signal);
    const query = { timeout: atLeast(0, waitMs, "waitMs"), limit, ...(visibilityMs === undefined ? {} : { visibility: visibilityMs }) };
    try {
      const answer = await this.#member.poll(query, signal);
      return answer.messages.map((each) => new Delivery(each));
    } catch (error) {
      this.#member.survives(error); // the next poll joins again if the member is gone
      throw error;
    }
  }

  /** Whether polling on may help after an error of `poll`. */
  survives(error: unknown): boolean {
    return this.#member.survives(error);
  }

  /** Processed: it is not delivered in this group again. */
  async ack(receipt: Receipt): Promise<void> {
    await this.#transport.call("POST /messages/ack", { body: this.#body(receipt) }, { repeat: "repeatable" });
  }

  /** Failed: redeliver it after the group's back-off, or after `delayMs`. */
  async nack(receipt: Receipt, { reason = "", delayMs }: { reason?: string; delayMs?: number } = {}): Promise<void> {
    const body = { ...this.#body(receipt), reason, ...(delayMs === undefined ? {} : { delay: delayMs }) };
    await this.#transport.call("POST /messages/nack", { body }, { repeat: "repeatable" });
  }

  /** Cannot be processed: move it to the dead-letter queue. */
  async reject(receipt: Receipt, reason: string): Promise<void> {
    const body = { ...this.#body(receipt), reason };
    await this.#transport.call("POST /messages/reject", { body }, { repeat: "repeatable" });
  }

  /** Set a new visibility timeout, counted from now. */
  async extend(receipt: Receipt, ms: number): Promise<void> {
    const body = { ...this.#body(receipt), extension: ms };
    await this.#transport.call("POST /messages/visibility", { body }, { repeat: "repeatable" });
  }

  /** The same for many: the receipts that were refused, because others have the messages by now. */
  async extendAll(receipts: readonly Receipt[], ms: number): Promise<string[]> {
    if (receipts.length === 0) return [];
    const body = { receipt_handles: receipts.map(handleOf), group: this.#member.group, extension: ms };
    const answer = await this.#transport.call("POST /messages/visibility/batch", { body }, { repeat: "repeatable" });
    return answer.results.filter((each: SettleResult) => each.status === 404 || each.status === 409).map((each) => each.receipt_handle);
  }

  /** Leave the group: messages that are not acknowledged go to other members at once. */
  async close(): Promise<void> {
    await this.#member.leave();
  }

  #body(receipt: Receipt): { receipt_handle: string; group: string } {
    return { receipt_handle: handleOf(receipt), group: this.#member.group };
  }
}

function handleOf(receipt: Receipt): string {
  return typeof receipt === "string" ? receipt : receipt.receipt;
}

function joinBody({ topics, assignment = "shared", settings = {}, sessionTimeoutMs, clientId = "" }: QueueOptions): JoinBody {
  const body: JoinBody = { topics: [...topics], assignment, client_id: clientId };
  if (sessionTimeoutMs !== undefined) body.session_timeout = sessionTimeoutMs;
  if (settings.visibilityTimeoutMs !== undefined) body.visibility_timeout = settings.visibilityTimeoutMs;
  if (settings.maxDeliveries !== undefined) body.max_deliveries = settings.maxDeliveries;
  if (settings.backoffMs !== undefined) body.backoff = settings.backoffMs;
  if (settings.maxBackoffMs !== undefined) body.max_backoff = settings.maxBackoffMs;
  return body;
}

// Messages as programs see them, and as the API writes them.

import type { HeaderOut, MessageIn, MessageOut, PolledMessage } from "./api.js";
import { InvalidArgumentError } from "./errors.js";

export type Priority = "critical" | "high" | "normal" | "low" | "background";

/** Text, bytes, or null: a tombstone, or no key. */
export type Content = string | Uint8Array | null;

/** A message to be published. */
export interface NewMessage {
  value: Content;
  /** Messages with the same key go to one partition, in order. */
  key?: Content;
  headers?: Readonly<Record<string, Content>>;
  partition?: number;
  /** Deliver it after so many milliseconds. */
  delayMs?: number;
  /** Deliver it at this time. */
  deliverAt?: Date;
  priority?: Priority;
  /** Queue groups do not deliver it after so many milliseconds. */
  ttlMs?: number;
}

/** A stored message. */
export class Message {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  /** The bytes; null for a tombstone. */
  readonly value: Uint8Array | null;
  readonly key: Uint8Array | null;
  readonly headers: readonly { readonly name: string; readonly value: Uint8Array | null }[];
  readonly priority: string;

  constructor(stored: MessageOut) {
    this.topic = stored.topic;
    this.partition = stored.partition;
    this.offset = stored.offset;
    this.timestamp = stored.timestamp;
    this.value = bytesOf(stored.value, stored.encoding);
    this.key = bytesOf(stored.key, stored.key_encoding);
    this.headers = stored.headers.map((each: HeaderOut) => ({
      name: each.name,
      value: bytesOf(each.value, each.encoding),
    }));
    this.priority = stored.priority ?? "normal";
  }

  /** The value as text; empty for a tombstone. */
  text(): string {
    return textOf(this.value) ?? "";
  }

  /** The value, parsed as JSON. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }

  /** The key as text; undefined if there is none. */
  keyText(): string | undefined {
    return textOf(this.key);
  }

  /** The last header of this name as text. */
  header(name: string): string | undefined {
    const found = this.headers.findLast((each) => each.name === name);
    return found === undefined ? undefined : textOf(found.value);
  }
}

/** A message that a queue group has delivered. */
export class Delivery extends Message {
  /** Identifies this delivery in acknowledgements. */
  readonly receipt: string;
  /** 1 for the first delivery. */
  readonly deliveryCount: number;

  constructor(delivered: PolledMessage) {
    super(delivered);
    this.receipt = delivered.receipt_handle ?? "";
    this.deliveryCount = delivered.delivery_count ?? 1;
  }
}

/** A message as the API takes it. */
export function messageIn(message: NewMessage): MessageIn {
  const { value, key = null, headers = {} } = message;
  if (value === undefined) {
    throw new InvalidArgumentError("a message has no value: expected text, bytes, or null for a tombstone");
  }
  const written: MessageIn = {
    ...content("value", "encoding", value),
    ...(key === null ? {} : content("key", "key_encoding", key)),
    headers: Object.entries(headers).map(([name, each]) => ({ name, ...content("value", "encoding", each) })),
  } as MessageIn;
  if (message.partition !== undefined) written.partition = message.partition;
  if (message.delayMs !== undefined) written.delay = message.delayMs;
  if (message.deliverAt !== undefined) written.deliver_at = message.deliverAt.getTime();
  if (message.priority !== undefined) written.priority = message.priority;
  if (message.ttlMs !== undefined) written.ttl = message.ttlMs;
  return written;
}

function content(field: string, encoding: string, given: Content): Record<string, string | null> {
  if (given === null || typeof given === "string") return { [field]: given };
  if (given instanceof Uint8Array) {
    const bytes = Buffer.from(given.buffer, given.byteOffset, given.byteLength);
    return { [field]: bytes.toString("base64"), [encoding]: "base64" };
  }
  throw new InvalidArgumentError(`${field} is of type ${typeof given}: expected text, bytes or null; write objects with JSON.stringify`);
}

function bytesOf(text: string | null, encoding: "base64" | "text" | undefined): Uint8Array | null {
  return text === null ? null : Buffer.from(text, encoding === "base64" ? "base64" : "utf8");
}

function textOf(bytes: Uint8Array | null): string | undefined {
  return bytes === null ? undefined : new TextDecoder().decode(bytes);
}

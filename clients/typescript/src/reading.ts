// Reading a partition by offset, without a group. Nothing is stored on the server.

import { Message } from "./messages.js";
import type { Transport } from "./transport.js";

export interface ReadOptions {
  partition?: number;
  /** Where to start. Default "earliest". */
  offset?: number | "earliest" | "latest";
  /** Start at the first message of this time or a later one, in place of an offset. */
  since?: Date;
  /** The most messages of one request, up to 1000. Default 100. */
  limit?: number;
  /** How long to wait for the first message, up to 20000. Default 0. */
  waitMs?: number;
  signal?: AbortSignal;
}

export interface ReadResult {
  messages: Message[];
  /** The offset of the next read. */
  nextOffset: number;
  /** The end of what can be read. */
  highWatermark: number;
  earliestOffset: number;
}

/** One read. */
export async function read(transport: Transport, topic: string, options: ReadOptions): Promise<ReadResult> {
  const { partition = 0, offset, since, limit = 100, waitMs = 0, signal } = options;
  const query = {
    limit,
    wait: waitMs,
    ...(offset === undefined ? {} : { offset }),
    ...(since === undefined ? {} : { time: since.getTime() }),
  };
  const found = await transport.call(
    "GET /topics/{topic}/partitions/{partition}/messages",
    { path: { topic, partition }, query },
    { waitMs, signal },
  );
  return {
    messages: found.messages.map((each) => new Message(each)),
    nextOffset: found.next_offset,
    highWatermark: found.high_watermark,
    earliestOffset: found.earliest_offset,
  };
}

/** Every message from there to the present end of the partition. */
export async function* readToEnd(transport: Transport, topic: string, options: ReadOptions): AsyncGenerator<Message> {
  const { since: _, ...onwards } = options;
  let page = await read(transport, topic, options);
  const end = page.highWatermark;
  for (;;) {
    for (const message of page.messages) {
      if (message.offset >= end) return;
      yield message;
    }
    if (page.nextOffset >= end) return;
    page = await read(transport, topic, { ...onwards, offset: page.nextOffset });
  }
}

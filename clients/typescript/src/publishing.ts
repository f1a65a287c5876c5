// Publishing: one message or many, sent again only when none of them can have been stored.

import type { PublishResult } from "./api.js";
import { ApiError, apiError, ConnectionError, InvalidArgumentError, PublishError } from "./errors.js";
import { messageIn, type NewMessage } from "./messages.js";
import { mayRetry } from "./retry.js";
import type { Transport } from "./transport.js";

/** The most messages of one request; more are refused before anything is sent. */
const MAX_MESSAGES = 10_000;

export interface PublishOptions {
  /** Which replicas must store a message before the answer. Default "all". */
  acks?: "all" | "leader" | "none";
  signal?: AbortSignal;
}

/** Where a message is stored. */
export interface Published {
  partition: number;
  /** The offset; of a delayed message, its id until it is due. */
  offset: number;
  timestamp: number;
  isDelayed: boolean;
}

/** Publish messages in one request: one result per message, in order, or an error. */
export async function publishAll(
  transport: Transport,
  topic: string,
  messages: readonly NewMessage[],
  { acks = "all", signal }: PublishOptions,
): Promise<Published[]> {
  if (messages.length === 0 || messages.length > MAX_MESSAGES) {
    throw new InvalidArgumentError(`${messages.length} messages in one publish: expected 1 to ${MAX_MESSAGES}`);
  }
  const body = { messages: messages.map(messageIn), acks };
  for (let failures = 1; ; failures += 1) {
    const answer = await transport.call("POST /topics/{topic}/messages", { path: { topic }, body }, { signal });
    const results = answer.results.map(resultOf);
    const refused = results.filter((each) => each instanceof ApiError);
    if (refused.length === 0) return results as Published[];
    // Sending some of them again would put them behind those that are stored: only all or none.
    const mayAll = refused.length === results.length && refused.every((each) => mayRetry(each, "once"));
    if (!mayAll || failures >= transport.retry.attempts) throw publishError(topic, results, refused);
    await transport.pause(failures, refused[0], signal);
  }
}

function resultOf(result: PublishResult): Published | ApiError {
  if (result.status !== 200) {
    const { status, code = null, error = null, field = null, retriable } = result;
    const detail = error ?? `the message was refused with ${status}`;
    return apiError({ status, code: code ?? `http_${status}`, detail, field, retriable: retriable ?? false });
  }
  return {
    partition: result.partition ?? -1,
    offset: result.offset ?? -1,
    timestamp: result.timestamp ?? -1,
    isDelayed: result.delayed ?? false,
  };
}

function publishError(topic: string, results: (Published | ApiError)[], refused: ApiError[]): Error {
  const [first] = refused;
  if (results.length === 1 && first !== undefined) return first;
  const text = `${refused.length} of ${results.length} messages for ${topic} were refused, the others are stored; `;
  return new PublishError(`${text}the first refusal: ${first?.message}; see results`, results);
}

/** Whether a failed publish may have stored messages all the same. */
export function mayBeStored(error: unknown): boolean {
  if (error instanceof PublishError) return true;
  if (error instanceof ConnectionError) return error.maybeSent;
  if (error instanceof ApiError) return error.status >= 500 && !mayRetry(error, "once");
  return false;
}

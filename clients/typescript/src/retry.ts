// Which failed requests are sent again, and when. No clock and no socket in here.

import { ApiError, ConnectionError } from "./errors.js";

/** Whether a request may be carried out twice. */
export type Repeat =
  /** Twice is as good as once: it is sent again whenever that may help. */
  | "repeatable"
  /** It is sent again only if it was certainly not carried out. */
  | "once"
  /** It is never sent again. */
  | "never";

export interface RetryOptions {
  /** How often a request is sent, the first time included; 1 turns retries off. Default 5. */
  attempts?: number;
  /** The back-off before the first retry; it doubles each time. Default 100. */
  backoffMs?: number;
  /** The longest back-off, and the longest Retry-After that is waited for. Default 10000. */
  maxBackoffMs?: number;
}

/** Codes of a 503 after which the request may have been carried out all the same. */
const OUTCOME_UNKNOWN: ReadonlySet<string> = new Set([
  "handover_unknown",
  "leadership_lost",
  "not_enough_replicas_after_append",
  "peer_unavailable",
]);

/** Whether a request that failed with this error may be sent again. */
export function mayRetry(error: unknown, repeat: Repeat): boolean {
  if (repeat === "never") return false;
  if (error instanceof ConnectionError) return repeat === "repeatable" || !error.maybeSent;
  if (!(error instanceof ApiError)) return false;
  if (error.status === 429) return true;
  return error.status === 503 && (repeat === "repeatable" || !OUTCOME_UNKNOWN.has(error.code));
}

/**
 * How long to wait after so many failures; at least what the server asks for. `luck` is 0 to 1 and
 * keeps clients that failed together from retrying together.
 */
export function backoffMs(failures: number, error: unknown, options: Required<RetryOptions>, luck: number): number {
  const asked = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
  const grown = Math.min(options.maxBackoffMs, options.backoffMs * 2 ** (failures - 1));
  return Math.max(grown * (0.5 + luck / 2), Math.min(asked, options.maxBackoffMs));
}

/** The milliseconds of a Retry-After header: seconds, or a date. */
export function retryAfterMs(header: string | null, nowMs: number): number | undefined {
  if (header === null || header.trim() === "") return undefined;
  const seconds = Number(header);
  const found = Number.isNaN(seconds) ? Date.parse(header) - nowMs : seconds * 1000;
  return Number.isFinite(found) ? Math.max(0, found) : undefined;
}

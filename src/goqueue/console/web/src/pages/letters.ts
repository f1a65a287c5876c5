// Dead letters as the API answers them, and which of them are meant.
import { api, path, withQuery } from "../lib/api";
import type { Encoding, Header } from "../lib/types";

export type Letter = {
  partition: number;
  offset: number;
  key: string | null;
  key_encoding: Encoding;
  preview: string | null;
  preview_encoding: Encoding;
  size_bytes: number;
  source_topic: string | null;
  source_partition: number | null;
  source_offset: number | null;
  source_timestamp: number | null;
  group: string | null;
  member: string | null;
  reason: string | null;
  error: string | null;
  deliveries: number | null;
  first_delivery: number | null;
  last_delivery: number | null;
  died_at: number;
  redriven_count: number;
  priority: string;
};

export type LetterDetail = Letter & { value: string | null; encoding: Encoding; headers: Header[]; is_redriven: boolean };

export type Letters = { topic: string; dead_letter_topic: string | null; total: number; letters: Letter[]; next: string | null };

export type ErrorLine = {
  reason: string | null;
  error: string;
  count: number;
  oldest_at: number;
  newest_at: number;
  groups: string[];
  example: Letter;
};

export type Errors = { errors: ErrorLine[]; letters: number; others: number; next: string | null };

/** The filter of a request; all that is said must match. An empty error means letters without one. */
export type LetterFilter = {
  reason?: string;
  error?: string;
  group?: string;
  key?: string;
  offsets?: Record<string, number[]>;
};

/** Which letters an action is for, and how many they are, if that is known. */
export type Choice = { filter: LetterFilter; count: number | null };

/** Requests that one list of errors makes; 20 000 letters each. The rest is not counted. */
const MOST_REQUESTS = 25;

export function placeOf(letter: { partition: number; offset: number }): string {
  return `${letter.partition}/${letter.offset}`;
}

/** `withQuery` leaves empty fields out; here an empty error says something. */
export function lettersPath(topic: string, filter: LetterFilter, query: Record<string, string | number>, part = ""): string {
  const { error, reason } = filter;
  const at = withQuery(path("topics", topic, "dlq") + part, { ...query, reason });
  if (error === undefined) return at;
  return `${at}${at.includes("?") ? "&" : "?"}error=${encodeURIComponent(error)}`;
}

/** All errors of a topic, however many requests that takes, up to a bound. */
export async function errorsOf(topic: string, filter: LetterFilter, signal: AbortSignal): Promise<Errors> {
  const found: Errors = { errors: [], letters: 0, others: 0, next: null };
  const known = new Map<string, ErrorLine>();
  let cursor = "";
  for (let turn = 0; turn < MOST_REQUESTS; turn += 1) {
    const part = await api.get<Errors>(lettersPath(topic, filter, { cursor }, "/errors"), { signal });
    for (const line of part.errors) {
      const name = JSON.stringify([line.reason, line.error]);
      const before = known.get(name);
      known.set(name, before ? joined(before, line) : line);
    }
    found.letters += part.letters;
    found.others += part.others;
    found.next = part.next;
    if (part.next === null) break;
    cursor = part.next;
  }
  found.errors = [...known.values()].sort((one, other) => other.count - one.count);
  return found;
}

function joined(one: ErrorLine, other: ErrorLine): ErrorLine {
  const newer = other.newest_at >= one.newest_at ? other : one;
  return {
    ...newer,
    count: one.count + other.count,
    oldest_at: Math.min(one.oldest_at, other.oldest_at),
    groups: [...new Set([...one.groups, ...other.groups])],
  };
}

export function offsetsOf(letters: Iterable<{ partition: number; offset: number }>): Record<string, number[]> {
  const found: Record<string, number[]> = {};
  for (const each of letters) (found[String(each.partition)] ??= []).push(each.offset);
  return found;
}

// Searching a topic: what is asked, and reading on until there is a page full of answers.
//
// The broker looks through a bounded amount per request and says how to go on. Here one search makes
// many such requests, tells how far it is, and can be stopped.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, asProblem, isAbort, path, type Problem } from "../lib/api";
import type { Message } from "../lib/types";

export type Search = {
  partition: string;
  order: "newest" | "oldest";
  offset: string;
  start: string;
  end: string;
  key: string;
  text: string;
  /** A condition on JSON values: `$.amount > 100`. */
  json: string;
};

type Answer = { messages: Message[]; cursor: string | null; complete: boolean; scanned: number };

export type Found = {
  messages: readonly Message[];
  /** How many messages were looked at for it. */
  scanned: number;
  /** There is more to be looked at. */
  hasMore: boolean;
  busy: boolean;
  problem: Problem | null;
};

const PAGE = 50;
const MOST_SHOWN = 2000;
const NOTHING: Found = { messages: [], scanned: 0, hasMore: false, busy: true, problem: null };

/** The state of a search; it starts anew when `search` or `turn` changes. */
export function useSearch(topic: string, search: Search, turn: number) {
  const [found, setFound] = useState<Found>(NOTHING);
  const cursor = useRef<string | null>(null);
  const running = useRef<AbortController | null>(null);

  const run = async (isNew: boolean) => {
    running.current?.abort();
    const aborter = new AbortController();
    running.current = aborter;
    let state = isNew ? NOTHING : { ...found, busy: true, problem: null };
    if (isNew) cursor.current = null;
    if (!isNew) setFound(state);
    const wanted = Math.min(MOST_SHOWN, state.messages.length + PAGE);
    try {
      do {
        const query = { ...searchFields(search), limit: wanted - state.messages.length, cursor: cursor.current };
        const answer = await api.get<Answer>(path("topics", topic, "search"), { query, signal: aborter.signal });
        cursor.current = answer.cursor;
        const isDone = answer.complete || answer.cursor === null;
        state = {
          messages: [...state.messages, ...answer.messages],
          scanned: state.scanned + answer.scanned,
          hasMore: !isDone,
          busy: !isDone && state.messages.length + answer.messages.length < wanted,
          problem: null,
        };
        setFound(state);
      } while (state.busy);
    } catch (error) {
      if (isAbort(error)) return;
      setFound({ ...state, busy: false, problem: asProblem(error) });
    }
  };

  useEffect(() => {
    void run(true);
    return () => running.current?.abort();
  }, [topic, turn, ...Object.values(search)]);

  const stop = () => {
    running.current?.abort();
    setFound((was) => ({ ...was, busy: false }));
  };
  return { found, more: () => void run(false), stop };
}

export function searchFields(search: Search) {
  return {
    partition: search.partition,
    offset: search.offset,
    start: moment(search.start),
    end: moment(search.end),
    key: search.key,
    text: search.text,
    json: search.json,
    direction: search.order,
  };
}

/** What <input type="datetime-local"> holds, in milliseconds; a number stays what it is. */
function moment(text: string): string {
  if (!text || /^\d+$/.test(text)) return text;
  const at = new Date(text).getTime();
  return Number.isNaN(at) ? text : String(at);
}

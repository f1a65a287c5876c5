// What can be gone to or done from anywhere: which entries fit what somebody has typed.

export type Kind = "Page" | "Action" | "Topic" | "Group" | "Queue" | "Key" | "Trace";

export type Entry = {
  kind: Kind;
  title: string;
  /** Said beside the title. */
  hint?: string;
  /** Below /console. */
  to?: string;
  run?: () => void;
  /** Asks for a topic next, and goes on with it. */
  withTopic?: (topic: string) => void;
};

const MOST_SHOWN = 40;
const TRACE_ID = /^[0-9a-f]{32}$/i;

/** Whether it has the form of a W3C trace id. */
export function isTraceId(text: string): boolean {
  return TRACE_ID.test(text);
}

/** Entries with every typed word in them, the best first, at most `MOST_SHOWN`. */
export function matching(entries: readonly Entry[], typed: string): Entry[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return entries
    .map((entry, at) => ({ entry, at, rank: rank(entry, words) }))
    .filter((each) => each.rank >= 0)
    .sort((one, other) => one.rank - other.rank || one.at - other.at)
    .slice(0, MOST_SHOWN)
    .map((each) => each.entry);
}

/** 0 for a title that begins with the text, then titles that contain it, then kinds; -1 for none. */
function rank(entry: Entry, words: readonly string[]): number {
  const title = entry.title.toLowerCase();
  const all = `${title} ${entry.kind.toLowerCase()} ${entry.hint?.toLowerCase() ?? ""}`;
  if (!words.every((word) => all.includes(word))) return -1;
  const first = words[0];
  if (first === undefined || title.startsWith(words.join(" "))) return 0;
  return title.includes(first) ? 1 : 2;
}

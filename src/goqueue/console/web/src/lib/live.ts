// What the broker tells by itself: one stream of server-sent events for the whole page.
//
// The stream is closed while the tab is hidden (a browser has only six connections to a host), and
// opened again when it is looked at. When the broker answers but gives no stream (it has a bound),
// the overview is asked for every few seconds instead. When it does not answer, the state is `away`
// until it does; each time it comes back `arrivals` grows, and whatever shows data asks anew.
import { useEffect } from "preact/hooks";
import { api, Problem } from "./api";
import { Store } from "./store";
import type { Overview } from "./types";

export type Connection = "connecting" | "live" | "polling" | "away" | "paused";

export const connection = new Store<Connection>("connecting");
export const awaySince = new Store<number | null>(null);
export const arrivals = new Store<number>(0);
export const overview = new Store<Overview | null>(null);

/** What can change behind a page's back, as `event: changed` names it. */
export type Kind = 
  | "topic"
  | "group"
  | "schema"
  | "pipeline"
  | "transaction"
  | "delayed"
  | "dead_letter";

const RETRY_MS = 1500;
const POLL_MS = 4000;
const STREAM_AGAIN_MS = 30_000;

const changeListeners = new Set<(kind: Kind) => void>();
let source: EventSource | null = null;
let timer: number | undefined;
let pollingUntil = 0;
let wasOpened = false; // the newest stream: whether it ever came to be
let hasMissed = false; // what changed since the last stream was not heard

export function startLive(): () => void {
  const look = () => {
    if (document.hidden) pause();
    else if (connection.value === "paused") open();
  };
  document.addEventListener("visibilitychange", look);
  open();
  return () => {
    document.removeEventListener("visibilitychange", look);
    stop();
    overview.set(null);
  };
}

function open(): void {
  stop();
  if (document.hidden) {
    connection.set("paused");
    return;
  }
  if (connection.value === "paused") connection.set("connecting");
  source = new EventSource("/events");
  wasOpened = false;
  source.addEventListener("open", () => {
    wasOpened = true;
    here("live");
  });
  source.addEventListener("overview", (event) => {
    here("live");
    overview.set(JSON.parse((event as MessageEvent<string>).data) as Overview);
  });
  source.addEventListener("changed", (event) => {
    const { kind } = JSON.parse((event as MessageEvent<string>).data) as { kind: Kind };
    for (const listener of [...changeListeners]) listener(kind);
  });
  source.addEventListener("error", () => void lost());
}

function stop(): void {
  window.clearTimeout(timer);
  source?.close();
  source = null;
}

function pause(): void {
  stop();
  hasMissed = true;
  connection.set("paused");
}

/** The stream ended: find out whether the broker is gone, or only the stream. */
async function lost(): Promise<void> {
  stop();
  hasMissed = true;
  pollingUntil = wasOpened ? 0 : Date.now() + STREAM_AGAIN_MS;
  await probe();
}

async function probe(): Promise<void> {
  let answered = false;
  try {
    overview.set(await api.get<Overview>("/overview"));
    answered = true;
  } catch (error) {
    // Who may not see the overview is told so by the pages; the broker is there.
    answered = error instanceof Problem && !error.isAway && error.status < 500;
    if (error instanceof Problem && error.status === 401) return;
  }
  if (document.hidden) {
    connection.set("paused");
    return;
  }
  if (!answered) {
    if (connection.value !== "away") awaySince.set(Date.now());
    connection.set("away");
    timer = window.setTimeout(() => void probe(), RETRY_MS);
    return;
  }
  const wasAway = connection.value === "away";
  here("polling");
  if (wasAway || Date.now() > pollingUntil) open();
  else timer = window.setTimeout(() => void probe(), POLL_MS);
}

function here(state: "live" | "polling"): void {
  if (connection.value === state) return;
  const isBack = hasMissed || connection.value === "away";
  hasMissed = false;
  awaySince.set(null);
  connection.set(state);
  if (isBack) arrivals.set(arrivals.value + 1);
}

/** Runs when the broker says that things of one of these kinds have changed. */
export function useChanges(kinds: readonly Kind[], run: () => void): void {
  useEffect(() => {
    const listener = (kind: Kind) => {
      if (kinds.includes(kind)) run();
    };
    changeListeners.add(listener);
    return () => {
      changeListeners.delete(listener);
    };
  }, [kinds.join(), run]);
}

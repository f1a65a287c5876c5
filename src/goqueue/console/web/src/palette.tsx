// Ctrl-K: one box from which every topic, group, queue, key, trace, page and action can be reached.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Dialog } from "./kit/dialog";
import { Icon, type IconName } from "./kit/icons";
import { api, path, withQuery } from "./lib/api";
import { oneLine } from "./lib/content";
import { type Entry, isTraceId, type Kind, matching } from "./lib/palette";
import { useResource } from "./lib/resource";
import { go, usePlace } from "./lib/router";
import { type Session, session, signOut } from "./lib/session";
import { Store, useStore } from "./lib/store";
import { clock, theme } from "./lib/theme";
import { toast } from "./kit/toasts";
import { PAGES } from "./pages";
import type { GroupLine } from "./pages/groups";
import { NewTopic } from "./pages/new-topic";

type Opened = "palette" | "new-topic" | null;

const opened = new Store<Opened>(null);

export function openPalette(): void {
  opened.set("palette");
}

const ICONS: Record<Kind, IconName> = {
  Page: "right",
  Action: "send",
  Topic: "topics",
  Group: "groups",
  Queue: "queues",
  Key: "search",
  Trace: "traces",
};

/** Part of the shell: listens for the keys, and is the place where the palette appears. */
export function Palette() {
  const what = useStore(opened);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      if (opened.value === "palette") opened.set(null);
      else if (!document.querySelector("dialog[open]")) openPalette();
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, []);
  if (what === "new-topic") return <NewTopic onClose={() => opened.set(null)} />;
  return what && <Searching onClose={() => opened.set(null)} />;
}

function Searching({ onClose }: { onClose: () => void }) {
  const who = useStore(session);
  const { path: at } = usePlace();
  const [typed, setTyped] = useState("");
  const [current, setCurrent] = useState(0);
  const [asking, setAsking] = useState<Entry | null>(null);
  const list = useRef<HTMLUListElement>(null);
  const names = useResource(readNames, []);
  const topics = names.data?.topics ?? [];
  const entries = useMemo(
    () =>
      asking?.withTopic
        ? matching(topics.map((topic) => topicEntry(topic, asking.withTopic)), typed)
        : found(typed, topics, names.data?.groups ?? [], who, at),
    [typed, names.data, who, at, asking],
  );
  const chosen = entries[Math.min(current, entries.length - 1)];
  useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [current, entries]);
  const type = (text: string) => {
    setTyped(text);
    setCurrent(0);
  };
  const take = (entry: Entry | undefined) => {
    if (!entry) return;
    if (entry.withTopic) {
      setAsking(entry);
      type("");
      return;
    }
    onClose();
    if (entry.to) go(entry.to);
    entry.run?.();
  };
  const press = (event: KeyboardEvent) => {
    const last = entries.length - 1;
    const next: Record<string, number> = { ArrowDown: current >= last ? 0 : current + 1, ArrowUp: current <= 0 ? last : current - 1 };
    const to = next[event.key];
    if (to !== undefined) setCurrent(Math.max(0, to));
    else if (event.key === "Enter") take(chosen);
    else if (event.key === "Backspace" && !typed && asking) setAsking(null);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={asking ? asking.title : "Go to"} onClose={onClose}>
      <div class="palette">
        <input
          type="text"
          role="combobox"
          autofocus
          autocomplete="off"
          spellcheck={false}
          aria-label={asking ? "Topic" : "Topic, group, queue, key, trace id, page or action"}
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={chosen && `palette-${entries.indexOf(chosen)}`}
          placeholder={asking ? "In which topic?" : "Topic, group, queue, key, trace id, page or action"}
          value={typed}
          onInput={(event) => type(event.currentTarget.value)}
          onKeyDown={press}
        />
        <ul id="palette-list" role="listbox" aria-label="Results" ref={list}>
          {entries.map((entry, index) => (
            <li
              key={`${entry.kind}/${entry.title}`}
              id={`palette-${index}`}
              role="option"
              aria-selected={entry === chosen}
              onClick={() => take(entry)}
              onMouseMove={() => setCurrent(index)}
            >
              <Icon name={ICONS[entry.kind]} />
              <span class="palette-title">{oneLine(entry.title, 120)}</span>
              <span class="muted">{entry.hint ?? entry.kind}</span>
            </li>
          ))}
        </ul>
        <p class="muted small" role="status">
          {entries.length ? "↑ ↓ choose, Enter opens, Escape closes" : names.loading ? "Loading…" : "No matches."}
        </p>
      </div>
    </Dialog>
  );
}

type Names = { topics: string[]; groups: GroupLine[] };

/** What may not be listed is left out: pages and actions are there anyway. */
async function readNames(signal: AbortSignal): Promise<Names> {
  const [topics, groups] = await Promise.allSettled([
    api.get<{ topics: string[] }>("/topics", { signal }),
    api.get<{ groups: GroupLine[] }>("/groups", { signal }),
  ]);
  return {
    topics: topics.status === "fulfilled" ? topics.value.topics : [],
    groups: groups.status === "fulfilled" ? groups.value.groups : [],
  };
}

function topicEntry(topic: string, then?: (topic: string) => void): Entry {
  return then ? { kind: "Topic", title: topic, run: () => then(topic) } : { kind: "Topic", title: topic, to: path("topics", topic) };
}

function found(typed: string, topics: readonly string[], groups: readonly GroupLine[], who: Session | null, at: string): Entry[] {
  const text = typed.trim();
  const fixed: Entry[] = [
    ...topics.map((topic) => topicEntry(topic)),
    ...groups.map((each): Entry => ({ kind: "Group", title: each.group, to: path("groups", each.group) })),
    ...groups
      .filter((each) => each.mode)
      .map((each): Entry => ({ kind: "Queue", title: each.group, to: withQuery("/queues", { group: each.group }) })),
  ];
  const commands = [...pageEntries(who), ...actions(who)];
  const shown = matching(text ? [...fixed, ...commands] : [...commands, ...fixed], text);
  return text ? [...(isTraceId(text) ? [traceEntry(text)] : []), ...shown, ...keyEntries(text, at)] : shown;
}

function pageEntries(who: Session | null): Entry[] {
  return PAGES.flatMap((page): Entry[] =>
    page.nav && (!page.needs || who?.allowed[page.needs]) ? [{ kind: "Page", title: page.nav.label, to: page.path }] : [],
  );
}

function actions(who: Session | null): Entry[] {
  const publish = (topic: string) => go(withQuery(path("topics", topic), { publish: "yes" }));
  const found: Entry[] = [
    { kind: "Action", title: "Publish a message…", withTopic: publish },
    { kind: "Action", title: "Change colour scheme", hint: `now ${theme.value}`, run: () => theme.next() },
    { kind: "Action", title: "Change time zone", hint: `now ${clock.value === "utc" ? "UTC" : "local"}`, run: () => clock.next() },
  ];
  if (who?.allowed.create_topics) found.unshift({ kind: "Action", title: "New topic", run: () => opened.set("new-topic") });
  if (who?.csrf_token) found.push({ kind: "Action", title: "Sign out", run: () => void signOut().catch(toast.problem) });
  return found;
}

function traceEntry(id: string): Entry {
  return { kind: "Trace", title: id.toLowerCase(), to: path("traces", id.toLowerCase()) };
}

/** Looking a key up: in the topic that is open, and in any other. */
function keyEntries(key: string, at: string): Entry[] {
  const search = (topic: string) => go(withQuery(path("topics", topic), { key }));
  const here = /^\/topics\/([^/]+)$/.exec(at)?.[1];
  const any: Entry = { kind: "Key", title: `Find key ${key} in…`, hint: "a topic", withTopic: search };
  if (!here) return [any];
  const topic = decodeURIComponent(here);
  return [{ kind: "Key", title: `Find key ${key} in ${topic}`, run: () => search(topic) }, any];
}

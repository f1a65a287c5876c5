// The small parts that every page is made of.
import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { asProblem, type Problem } from "../lib/api";
import { ago, bothTimes, time } from "../lib/format";
import { copied } from "../lib/clipboard";
import { oneLine, visible } from "../lib/content";
import type { Resource } from "../lib/resource";
import { Link } from "../lib/router";
import { useStore } from "../lib/store";
import { clock } from "../lib/theme";
import { Icon, type IconName } from "./icons";

export type Tone = "neutral" | "accent" | "good" | "warn" | "bad";

type ButtonProps = Omit<ButtonHTMLAttributes<HTMLButtonElement>, "icon"> & {
  kind?: "plain" | "primary" | "danger" | "ghost";
  icon?: IconName;
  busy?: boolean;
};

export function Button({ kind = "plain", icon, busy, children, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest} class={`button ${kind}`} disabled={rest.disabled || busy}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A button that is only an icon; `label` is its name for those who do not see it, and its tooltip. */
export function IconButton({
  label,
  icon,
  ...rest
}: Omit<ButtonHTMLAttributes<HTMLButtonElement>, "icon" | "label"> & {
  label: string;
  icon: IconName;
}) {
  return (
    <button type="button" {...rest} class="icon-button" aria-label={label} title={label}>
      <Icon name={icon} />
    </button>
  );
}

export function Badge({ tone = "neutral", children }: { tone?: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

/** A coloured dot with its meaning beside it: never colour alone. */
export function Status({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <span class="status">
      <span class={`dot ${tone}`} aria-hidden="true" />
      {children}
    </span>
  );
}

/** The top of a page: its name, what belongs to it, and what can be done. Sets the tab's title. */
export function PageHead({
  title,
  above,
  lead,
  actions,
}: {
  title: string;
  /** Where the page belongs: `<Link to="/topics">Topics</Link>`. */
  above?: ComponentChildren;
  lead?: ComponentChildren;
  actions?: ComponentChildren;
}) {
  useEffect(() => {
    document.title = `${oneLine(title, 80)} · GoQueue`;
  }, [title]);
  return (
    <header class="page-head">
      <div class="page-title">
        {above && <div class="crumbs">{above}</div>}
        <h1 tabIndex={-1}>{oneLine(title, 300)}</h1>
        {lead && <p class="lead">{lead}</p>}
      </div>
      {actions && <div class="actions">{actions}</div>}
    </header>
  );
}

export function Card({
  title,
  actions,
  children,
  flush = false,
}: {
  title?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
  /** No inner margin: for tables. */
  flush?: boolean;
}) {
  return (
    <section class={flush ? "card flush" : "card"}>
      {(title || actions) && (
        <header class="card-head">
          {title && <h2>{title}</h2>}
          {actions && <div class="actions">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

/** One number with its name; `extra` says more in small. */
export function Stat({
  label,
  value,
  extra,
  to,
  tone = "neutral",
}: {
  label: string;
  value: ComponentChildren;
  extra?: ComponentChildren;
  to?: string;
  tone?: Tone;
}) {
  const inner = (
    <>
      <span class="stat-label">{label}</span>
      <span class={`stat-value ${tone}`}>{value}</span>
      {extra !== undefined && <span class="stat-extra">{extra}</span>}
    </>
  );
  return to ? (
    <Link to={to} class="stat">
      {inner}
    </Link>
  ) : (
    <div class="stat">{inner}</div>
  );
}

/** Names and values, two columns. */
export function Facts({ items }: { items: [ComponentChildren, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {items.map(([name, value], at) => (
        <div key={at}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export type Tab = { id: string; label: ComponentChildren };

/** Which part of a page is shown; keep `current` in the address (`useQueryField("tab")`). */
export function Tabs({
  label,
  tabs,
  current,
  onChoose,
}: {
  label: string;
  tabs: Tab[];
  current: string;
  onChoose: (id: string) => void;
}) {
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === current);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    onChoose(next.id);
    const list = event.currentTarget as HTMLElement;
    requestAnimationFrame(() =>
      list.querySelector<HTMLElement>('[aria-selected="true"]')?.focus(),
    );
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          aria-selected={tab.id === current}
          tabIndex={tab.id === current ? 0 : -1}
          onClick={() => onChoose(tab.id)}
        >
          {tab.label}
        </button>
      ))}
    </div>
  );
}

/** A moment: on the clock that the user prefers, on both in the tooltip. */
export function Time({ ms, millis = true }: { ms: number; millis?: boolean }) {
  const zone = useStore(clock);
  return (
    <time dateTime={isoOf(ms)} title={bothTimes(ms)} class="num">
      {time(ms, zone, { millis })}
    </time>
  );
}

/** How long ago or ahead, kept up to date. */
export function Ago({ ms }: { ms: number }) {
  const now = useNow(ms > Date.now() - 120_000 ? 1000 : 15_000);
  return (
    <time dateTime={isoOf(ms)} title={bothTimes(ms)} class="num">
      {ago(ms, now)}
    </time>
  );
}

/** For what opens below a list: brought into sight whenever one of `changes` does. */
export function useInSight<E extends HTMLElement>(...changes: unknown[]) {
  const element = useRef<E>(null);
  useEffect(() => element.current?.scrollIntoView({ block: "nearest" }), changes);
  return element;
}

export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), everyMs);
    return () => window.clearInterval(timer);
  }, [everyMs]);
  return now;
}

function isoOf(ms: number): string {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

/** Text of strangers, on one line; `mono` for keys and names. */
export function Plain({ text, most = 200, mono }: { text: string; most?: number; mono?: boolean }) {
  return <span class={mono ? "plain mono" : "plain"}>{oneLine(text, most)}</span>;
}

/** The same over as many lines as it has: errors, with what called what. */
export function Lines({ text, most = 4000 }: { text: string; most?: number }) {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return <span class="lines">{visible(cut.trimEnd())}</span>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

/** What went wrong, in the broker's words. */
export function ProblemNote({ problem, onRetry }: { problem: unknown; onRetry?: () => void }) {
  const found: Problem = asProblem(problem);
  return (
    <div class="note bad" role="alert">
      <Icon name="critical" />
      <div class="note-text">
        <p>{oneLine(found.message, 2000)}</p>
        {(found.field || found.requestId) && (
          <p class="muted small">
            {found.code}
            {found.field && ` · ${found.field}`}
            {found.requestId && ` · request ${found.requestId}`}
          </p>
        )}
      </div>
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

export function Note({
  tone = "neutral",
  children,
}: {
  tone?: Tone;
  children: ComponentChildren;
}) {
  const icon: IconName = tone === "good" ? "ok" : tone === "bad" || tone === "warn" ? "warning" : "info";
  return (
    <div class={`note ${tone}`}>
      <Icon name={icon} />
      <div class="note-text">{children}</div>
    </div>
  );
}

/** What a page asked for: bones while it comes, the problem if it failed, else the content. */
export function Loaded<T>({
  from,
  children,
}: {
  from: Resource<T>;
  children: (data: T) => ComponentChildren;
}) {
  if (from.data !== undefined) {
    return (
      <>
        {from.problem && !from.problem.isAway && (
          <ProblemNote problem={from.problem} onRetry={from.reload} />
        )}
        {children(from.data)}
      </>
    );
  }
  if (from.problem && !from.problem.isAway) {
    return <ProblemNote problem={from.problem} onRetry={from.reload} />;
  }
  return <Bones />;
}

export function Bones({ lines = 4 }: { lines?: number }) {
  return (
    <div class="bones" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, at) => (
        <span key={at} class="bone" />
      ))}
    </div>
  );
}

/** Copies a text to the clipboard; the label says so for two seconds. */
export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = () => {
    void copied(text).then((isDone) => {
      setDone(isDone);
      window.setTimeout(() => setDone(false), 2000);
    });
  };
  return <IconButton label={done ? "Copied" : label} icon={done ? "ok" : "copy"} onClick={copy} />;
}

// Short notes at the edge: what just happened. Screen readers hear them, too.
import { useEffect } from "preact/hooks";
import { asProblem } from "../lib/api";
import { oneLine } from "../lib/content";
import { Store, useStore } from "../lib/store";
import { Icon } from "./icons";
import { IconButton } from "./parts";

type Toast = { id: number; tone: "good" | "bad"; text: string };

const MOST = 4;
const SHOWN_MS = 6000;
const PROBLEM_SHOWN_MS = 15_000;

const toasts = new Store<readonly Toast[]>([]);
let last = 0;

function add(tone: Toast["tone"], text: string): void {
  last += 1;
  toasts.set([...toasts.value, { id: last, tone, text: oneLine(text, 400) }].slice(-MOST));
}

export const toast = {
  ok: (text: string) => add("good", text),
  problem: (error: unknown) => add("bad", asProblem(error).message),
};

export function Toasts() {
  const shown = useStore(toasts);
  return (
    <div class="toasts" role="log" aria-live="polite" aria-label="Notices">
      {shown.map((each) => (
        <ToastNote key={each.id} {...each} />
      ))}
    </div>
  );
}

function ToastNote({ id, tone, text }: Toast) {
  const close = () => toasts.set(toasts.value.filter((each) => each.id !== id));
  useEffect(() => {
    const timer = window.setTimeout(close, tone === "bad" ? PROBLEM_SHOWN_MS : SHOWN_MS);
    return () => window.clearTimeout(timer);
  }, [id]);
  return (
    <div class={`toast ${tone}`} role={tone === "bad" ? "alert" : undefined}>
      <Icon name={tone === "bad" ? "critical" : "ok"} />
      <span class="toast-text">{text}</span>
      <IconButton label="Dismiss" icon="close" onClick={close} />
    </div>
  );
}

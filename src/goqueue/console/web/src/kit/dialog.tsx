// Dialogs, on the browser's own <dialog>: it keeps the focus inside and Escape closes it. The
// focus goes back to where it was.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Store, useStore } from "../lib/store";
import { oneLine } from "../lib/content";
import { Button, IconButton, Note, ProblemNote } from "./parts";

/** Where somebody begins to write. */
const FIRST = "form :is(input:not([type='radio'], [type='checkbox']), select, textarea)";

export function Dialog({
  title,
  onClose,
  children,
  wide = false,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    // The browser would begin with the first control, which is the one that closes.
    if (!dialog?.querySelector("[autofocus]")) dialog?.querySelector<HTMLElement>(FIRST)?.focus();
    return () => {
      dialog?.close();
      // The element may be gone from the page already: then the browser does not give it back.
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "dialog wide" : "dialog"}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        // Beside it; but what somebody is writing does not go with one wrong click.
        const dialog = event.currentTarget;
        if (event.target === dialog && !dialog.querySelector("form")) onClose();
      }}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2>{oneLine(title, 200)}</h2>
          <IconButton label="Close" icon="close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

type Question = {
  title: string;
  /** What exactly will happen, and what will not come back. */
  body: ComponentChildren;
  /** What the button says: a verb with its object. "Delete topic" */
  verb: string;
  danger?: boolean;
  /** A word that must be typed first: for what cannot be undone. */
  typed?: string;
  /** Does it; what it returns is shown as the result. A problem is shown, and may be tried again. */
  run: () => Promise<ComponentChildren>;
  /** When the dialog is closed after a success. */
  then?: () => void;
};

const question = new Store<Question | null>(null);

/** Asks before something is done, does it, and shows what came of it. */
export function ask(what: Question): void {
  question.set(what);
}

/** Part of the shell: the place where questions appear. */
export function Questions() {
  const current = useStore(question);
  return current && <Asking key={current.title} {...current} />;
}

function Asking({ title, body, verb, danger = false, typed, run, then }: Question) {
  const [word, setWord] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const [result, setResult] = useState<{ said: ComponentChildren } | null>(null);
  const close = () => {
    if (busy) return;
    question.set(null);
    if (result) then?.();
  };
  const act = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      setResult({ said: await run() });
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  if (result) {
    return (
      <Dialog title={title} onClose={close}>
        <div aria-live="polite" role="status">
          <Note tone="good">{result.said}</Note>
        </div>
        <footer class="dialog-foot">
          <Button kind="primary" onClick={close} autofocus>
            Close
          </Button>
        </footer>
      </Dialog>
    );
  }
  return (
    <Dialog title={title} onClose={close}>
      <form onSubmit={act}>
        <div class="dialog-text">{body}</div>
        {typed !== undefined && (
          <label class="field">
            <span class="field-label">
              Type <code>{typed}</code> to confirm
            </span>
            <input
              type="text"
              value={word}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setWord(event.currentTarget.value)}
            />
          </label>
        )}
        {problem !== null && <ProblemNote problem={problem} />}
        <footer class="dialog-foot">
          <Button onClick={close} disabled={busy}>
            Cancel
          </Button>
          <Button
            type="submit"
            kind={danger ? "danger" : "primary"}
            busy={busy}
            disabled={typed !== undefined && word !== typed}
          >
            {busy ? "Working…" : verb}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

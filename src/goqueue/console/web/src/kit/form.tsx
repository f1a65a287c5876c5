// Forms: labelled fields, and one place for what the broker says is wrong, beside the field it names.
import { type AllHTMLAttributes, type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { asProblem, type Problem } from "../lib/api";
import { oneLine } from "../lib/content";
import { Button, ProblemNote } from "./parts";

type Refusal = {
  problem: Problem | null;
  /** A field says that it is the one at fault, and tells it. */
  onTold: () => void;
};

const FormProblem = createContext<Refusal>({ problem: null, onTold: () => undefined });

export function Form({
  children,
  verb,
  kind = "primary",
  onSubmit,
  onCancel,
  aside,
}: {
  children: ComponentChildren;
  /** What the button says. */
  verb: string;
  kind?: "primary" | "danger";
  /** What it throws is shown: beside the field if the problem names one of them, else below. */
  onSubmit: () => Promise<void>;
  onCancel?: () => void;
  aside?: ComponentChildren;
}) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isTold, setTold] = useState(false);
  const element = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (isTold) element.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [isTold, problem]);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setProblem(null);
    setTold(false);
    try {
      await onSubmit();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form ref={element} class="form" onSubmit={submit} noValidate>
      <FormProblem.Provider value={{ problem, onTold: () => setTold(true) }}>{children}</FormProblem.Provider>
      {problem && !isTold && <ProblemNote problem={problem} />}
      <footer class="form-foot">
        {aside && <span class="aside">{aside}</span>}
        {onCancel && (
          <Button onClick={onCancel} disabled={busy}>
            Cancel
          </Button>
        )}
        <Button type="submit" kind={kind} busy={busy}>
          {busy ? "Working…" : verb}
        </Button>
      </footer>
    </form>
  );
}

type FieldProps = {
  label: string;
  hint?: ComponentChildren;
  /** What the API calls it, the end of the path is enough: `key` fits `messages[0].key`. */
  name?: string;
  children: (ids: { id: string; "aria-describedby": string; "aria-invalid": boolean }) => ComponentChildren;
};

/** A label, a control, a hint, and the problem if the broker named this field. */
export function Field({ label, hint, name, children }: FieldProps) {
  const id = useId();
  const { problem, onTold } = useContext(FormProblem);
  const isAtFault = Boolean(name && problem?.field && problem.field.split(/[.[]/).some((part) => part.replace("]", "") === name));
  // Before anything is painted: a problem that stood below as well, for a moment, would be read twice.
  useLayoutEffect(() => {
    if (isAtFault) onTold();
  }, [isAtFault, problem]);
  return (
    <div class={isAtFault ? "field at-fault" : "field"}>
      <label class="field-label" htmlFor={id}>
        {label}
      </label>
      {children({ id, "aria-describedby": `${id}-hint`, "aria-invalid": isAtFault })}
      <span class="field-hint" id={`${id}-hint`}>
        {isAtFault && problem ? <strong role="alert">{oneLine(problem.message, 500)}</strong> : hint}
      </span>
    </div>
  );
}

type Control<V> = {
  label: string;
  value: V;
  onChange: (value: V) => void;
  hint?: ComponentChildren;
  name?: string;
};

type Extra<E extends HTMLElement> = Omit<
  AllHTMLAttributes<E>,
  "value" | "onChange" | "label" | "name" | "hint" | "ref"
>;

export function TextField({
  label,
  value,
  onChange,
  hint,
  name,
  mono,
  ...rest
}: Control<string> & { mono?: boolean } & Extra<HTMLInputElement>) {
  return (
    <Field label={label} hint={hint} {...(name ? { name } : {})}>
      {(ids) => (
        <input
          type="text"
          spellcheck={false}
          autocomplete="off"
          class={mono ? "mono" : ""}
          {...(rest as object)}
          {...ids}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function AreaField({
  label,
  value,
  onChange,
  hint,
  name,
  rows = 8,
}: Control<string> & { rows?: number }) {
  return (
    <Field label={label} hint={hint} {...(name ? { name } : {})}>
      {(ids) => (
        <textarea
          class="mono"
          spellcheck={false}
          {...ids}
          rows={rows}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export type Choice = { value: string; label: string };

export function SelectField({
  label,
  value,
  onChange,
  hint,
  name,
  choices,
}: Control<string> & { choices: readonly Choice[] }) {
  return (
    <Field label={label} hint={hint} {...(name ? { name } : {})}>
      {(ids) => (
        <select
          {...ids}
          value={value}
          onChange={(event) => {
            const chosen = event.currentTarget.value;
            // Until `value` says otherwise nothing has changed: whoever is asked first may say no.
            event.currentTarget.value = value;
            onChange(chosen);
          }}
        >
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function CheckField({ label, value, onChange }: Control<boolean>) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={value}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{label}</span>
    </label>
  );
}

/** A few choices side by side; one is chosen. */
export function Segmented({
  label,
  value,
  onChange,
  choices,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  choices: readonly Choice[];
}) {
  const name = useId();
  return (
    <fieldset class="segmented">
      <legend class="unseen">{label}</legend>
      {choices.map((choice) => (
        <label key={choice.value}>
          <input
            type="radio"
            name={name}
            value={choice.value}
            checked={choice.value === value}
            onChange={() => onChange(choice.value)}
          />
          <span>{choice.label}</span>
        </label>
      ))}
    </fieldset>
  );
}

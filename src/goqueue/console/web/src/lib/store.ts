// The smallest store that does: a value, and who wants to know when it changes.
import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private listeners = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const listener of [...this.listeners]) listener(value);
  }

  subscribe(listener: (value: T) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** The store's value; the component renders again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(store.value);
  useEffect(() => {
    setValue(() => store.value);
    return store.subscribe((next) => setValue(() => next));
  }, [store]);
  return value;
}

/** A choice that this browser remembers. A browser that forbids storage forgets it, that is all. */
export class Preference<T extends string> extends Store<T> {
  constructor(
    private readonly key: string,
    private readonly choices: readonly T[],
    fallback: T,
  ) {
    super(fallback);
    try {
      const kept = localStorage.getItem(key) as T | null;
      if (kept !== null && choices.includes(kept)) super.set(kept);
    } catch {
      // storage is forbidden here
    }
  }

  override set(value: T): void {
    super.set(value);
    try {
      localStorage.setItem(this.key, value);
    } catch {
      // storage is forbidden here
    }
  }

  next(): void {
    const at = this.choices.indexOf(this.value);
    this.set(this.choices[(at + 1) % this.choices.length] ?? this.value);
  }
}

// Data that a page shows: asked for when the page opens, again when something it depends on changes,
// when the broker is back, and every so often. What was there stays on the page until the next is.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { asProblem, isAbort, type Problem } from "./api";
import { arrivals, connection, type Kind, useChanges } from "./live";
import { useStore } from "./store";

export type Resource<T> = {
  /** The newest answer; undefined until there is one. */
  data: T | undefined;
  /** Why the newest request failed; null once one has succeeded again. */
  problem: Problem | null;
  loading: boolean;
  reload: () => void;
};

type Options = {
  /** Ask again this often, while the broker is there and somebody looks. */
  everyMs?: number;
  /** Ask again when the broker says that these have changed. */
  on?: readonly Kind[];
  /** Do not ask yet. */
  skip?: boolean;
};

const NOTHING: readonly Kind[] = [];

/** `ask` is called again whenever one of `deps` changes; answers that come too late are dropped. */
export function useResource<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  deps: readonly unknown[],
  options: Options = {},
): Resource<T> {
  const [data, setData] = useState<T | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [loading, setLoading] = useState(!options.skip);
  const [turn, setTurn] = useState(0);
  const back = useStore(arrivals);
  const known = useRef(deps);
  const isAsking = useRef(false);
  const isStale = useRef(false);
  const reload = useCallback(() => setTurn((count) => count + 1), []);
  /** Asks again, but after the answer that is under way: a slow broker would never get to answer. */
  const refresh = useCallback(() => {
    if (isAsking.current) isStale.current = true;
    else reload();
  }, [reload]);
  const answered = () => {
    isAsking.current = false;
    setLoading(false);
    if (isStale.current) reload();
  };
  useChanges(options.on ?? NOTHING, refresh);

  useEffect(() => {
    if (known.current.some((dep, at) => !Object.is(dep, deps[at]))) {
      known.current = deps;
      setData(undefined);
    }
    isAsking.current = !options.skip;
    isStale.current = false;
    if (options.skip) return undefined;
    const aborter = new AbortController();
    setLoading(true);
    ask(aborter.signal).then(
      (found) => {
        if (aborter.signal.aborted) return;
        setData(() => found);
        setProblem(null);
        answered();
      },
      (error: unknown) => {
        if (aborter.signal.aborted || isAbort(error)) return;
        setProblem(asProblem(error));
        answered();
      },
    );
    return () => aborter.abort();
  }, [...deps, turn, back, options.skip]);

  useEffect(() => {
    const { everyMs } = options;
    if (!everyMs || options.skip) return undefined;
    const timer = window.setInterval(() => {
      if (!document.hidden && connection.value !== "away" && !isAsking.current) reload();
    }, everyMs);
    return () => window.clearInterval(timer);
  }, [options.everyMs, options.skip, reload]);

  return { data, problem, loading, reload };
}
